import { CallerName } from "@bowline/domain/caller/CallerName"
import type { ApprovalReason, GivenDecision } from "@bowline/domain/plan/Approval"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { ApprovalRules } from "../config/PlansConfig.ts"
import type { InboxStore, Settlement } from "../store/InboxStore.ts"
import * as GivenRecord from "../record/GivenRecord.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { EffectClaim, PlanChange, PlanStore } from "../store/PlanStore.ts"
import * as ApprovalRule from "./ApprovalRule.ts"
import * as CallEffect from "./CallEffect.ts"
import { CallTurns } from "./CallPlaces.ts"
import { isOwn } from "./DeclaredTools.ts"
import type { Wait } from "./PlanInbox.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Prepared } from "./PreparedCalls.ts"
import { limitOf } from "./ToolCalls.ts"

type Ready = Extract<Prepared, { readonly _tag: "Ready" }>

interface Parts {
  readonly rules: ApprovalRules
  readonly inboxes: InboxStore["Service"]
  readonly store: PlanStore["Service"]
  /** The operator's limit of each call, in milliseconds. */
  readonly timeoutMs: number
}

/** Requests the approval of a call, and says until when it waits. Without a reason another process has requested it already. */
const request = (
  run: PlanRun,
  { input, part, tool: { agent, inputSchema, trust } }: Ready,
  why: ApprovalReason | undefined,
  before: EffectClaim | undefined,
  now: number
): Wait => {
  const { journal, request: asked, resumed } = run.given
  const { task_id, tool } = part
  const progressed = run.progressed(run.stage)
  const tool_digest = trust?.digest ?? null
  const known_tool = why === "description_changed" ? (trust?.known ?? null) : null
  const known = why === undefined ? resumed?.waits.get(task_id) : undefined
  const expires_at = known?.expires_at ?? fromMillis(now + asked.preferences.wait_timeout_ms)
  const wait: Wait = { task_id, kind: "approval", round: 1, expires_at }
  if (why === undefined) {
    journal.append([progressed], [])
    return wait
  }
  const left_ms = asked.preferences.wait_timeout_ms
  const { at, plan_id, task_id: earlier } = before ?? {}
  const data = before === undefined ? null : { task_id: earlier ?? null, plan_id: plan_id ?? null, at: at ?? null }
  const nothing = { message: null, data, url: null, mark: earlier ?? null, spent_ms: 0, left_ms }
  const call = { task_id, tool, agent, input, why, schema: inputSchema, expires_at }
  journal.append(
    [{ _tag: "WaitOpened", kind: "approval", round: 1, ...call, ...nothing, tool_digest, known_tool }, progressed],
    [
      {
        event: "approval.requested",
        data: { task_id, tool, agent, input, expires_at, why, ...(data !== null && { data }) }
      }
    ]
  )
  return wait
}

/** A call that is not made, or one that cannot be made. */
type Unmade = Exclude<Prepared, { readonly _tag: "Begun" }>

const refused = ({ input, part, tool }: Unmade, why: string, code?: "effect_unknown"): Prepared => ({
  _tag: "Refused",
  part,
  tool,
  state: "rejected",
  input,
  message: `The call was not made: ${why}`,
  ...(code !== undefined && { code })
})

/** What becomes of a call about which somebody, or nobody in time, has decided so; undefined if it is approved. */
const rejected = (call: Unmade, settlement: Settlement): Prepared | undefined => {
  if (settlement.given === undefined) return refused(call, "nobody has decided about it in time.")
  const { by, decision, note } = decisionOf(settlement)
  if (decision === "approve") return undefined
  return refused(call, `${by} rejected it${note === undefined ? "" : `. ${by} says: ${note}`}`)
}

/** Lets an approved call pass, if its tool is the one that was shown: another process may have asked for the approval, before the tool changed. */
const approved = (call: Ready, { given, tool_digest }: Settlement): Prepared => {
  const { trust } = call.tool
  if (tool_digest !== null && tool_digest !== trust?.digest) {
    return refused(call, "its tool has changed since the approval was requested. Make it again if it is still right.")
  }
  // The store knows it, too. What the request pins stays pinned.
  if (trust !== undefined && trust.known !== null) trust.isChanged = false
  return withInput(call, given)
}

/** The call with the arguments that whoever approved it has given in place of the model's. */
const withInput = <Call extends Exclude<Prepared, { readonly _tag: "Refused" }>>(
  call: Call,
  given: Settlement["given"]
): Call => {
  if (given?.entry.type !== "decision" || given.entry.input === undefined) return call
  const { input } = given.entry
  return { ...call, input, note: `${given.by} has changed the arguments to ${JSON.stringify(input)}` }
}

/** What was decided about a call. One about which nobody has decided in time is rejected. */
const decisionOf = ({ given }: Settlement): GivenDecision => {
  if (given?.entry.type !== "decision") return { decision: "reject", note: "expired", by: nobody }
  const { decision, note } = given.entry
  return note === undefined ? { decision, by: given.by } : { decision, note, by: given.by }
}

/** Who has let a wait expire. */
const nobody = CallerName.make("nobody")

/** Whether somebody has approved all calls of the tool, for the plan or for its session. What the configuration always asks for is asked again. */
const isRemembered = (run: PlanRun, { tool }: Ready, why: ApprovalReason, { inboxes, rules }: Parts) => {
  if (why === "description_changed" || why === "maybe_done" || ApprovalRule.isAlways(tool, rules))
    return Effect.succeed(false)
  if (run.approvedTools.has(tool.name)) return Effect.succeed(true)
  return retryWhileAway(inboxes.isRemembered(run.given.session_id, tool.name))
}

const remember = (run: PlanRun, { tool }: Ready, { given }: Settlement): void => {
  if (given?.entry.type === "decision" && given.entry.remember !== undefined) run.approvedTools.add(tool.name)
}

/**
 * Lets a call pass that needs no approval. One that does waits for its decision in stage `approval`, and is refused if that is a
 * rejection, or if its tool has changed since.
 *
 *     ready ──needs an approval──▶ requested ──a decision is stored──▶ resolved ──approve──▶ ready
 *       └──needs none──▶ ready                                            └───────reject───▶ refused
 *
 * Each of these states has its event: a process that takes the plan over continues where the events of the step end.
 */
export const make = (parts: Parts) =>
  Effect.fnUntraced(function* (run: PlanRun, call: Prepared): Effect.fn.Return<Prepared, StorageError> {
    const { journal, request: asked, resumed } = run.given
    const { task_id } = call.part
    const wait = resumed?.waits.get(task_id)
    const earlier = resumed?.approvals.get(task_id)
    if (call._tag === "Refused") {
      if (earlier === undefined) return call
      // Its tool is gone since somebody has decided about it, which holds and is told all the same.
      const untold = earlier.decision === undefined ? run.inbox.settlementOf(task_id) : undefined
      if (untold !== undefined) {
        yield* (yield* CallTurns).await(task_id)
        tell(run, untold, markOf(wait?.mark))
      }
      const decided = untold ?? wait?.settlement
      return (decided && rejected(call, decided)) ?? call
    }
    if (call._tag === "Begun") return withInput(call, wait?.decision)
    const limit = limitOf(call.tool, run, parts.timeoutMs)
    const doubt = CallEffect.doubtOf(parts.store, run, call, limit)
    const { before, repeats } = earlier === undefined ? yield* doubt : {}
    if (repeats !== undefined) return { ...call, repeats }
    if (before !== undefined && ApprovalRule.isUnattended(call.tool, asked.preferences.approval, parts.rules)) {
      return refused(call, CallEffect.whyUnknown(before), "effect_unknown")
    }
    const why = earlier === undefined ? reasonOf(run, call, before, parts) : undefined
    if (earlier === undefined && (why === undefined || (yield* isRemembered(run, call, why, parts)))) return call

    // Readers have seen the decision.
    if (earlier?.decision !== undefined && wait?.settlement !== undefined) {
      return resolve(run, call, wait.settlement, markOf(wait.mark))
    }
    const doubted = before?.task_id ?? markOf(wait?.mark)
    const waiting = Effect.gen(function* () {
      if (why !== undefined) yield* (yield* CallTurns).await(task_id)
      yield* journal.keepUp
      const settlement = yield* run.inbox.wait(request(run, call, why, before, yield* Clock.currentTimeMillis))
      yield* (yield* CallTurns).await(task_id)
      GivenRecord.keep(journal, settlement)
      tell(run, settlement, doubted)
      // Before the call starts: a process that dies in between has certainly not made it.
      yield* journal.flush
      return settlement
    })
    return resolve(run, call, yield* run.stages.within("approval")(waiting), doubted)
  })

const reasonOf = (
  { given: { request } }: PlanRun,
  { tool }: Ready,
  before: EffectClaim | undefined,
  { rules }: Parts
): ApprovalReason | undefined => {
  if (before !== undefined) return "maybe_done"
  const why = ApprovalRule.reasonOf(tool, request.preferences.approval, rules)
  // Who forks may think that nothing is done.
  return why ?? (request.fork?.tools === "ask" && !isOwn(tool) ? "fork" : undefined)
}

/** The earlier call that a decision is about, of a wait that another process has opened. */
const markOf = (mark: string | null | undefined): TaskId | undefined => (mark == null ? undefined : TaskId.make(mark))

/** Tells what was decided about a call. Who rejects it because an earlier one may have done the same, says that it has. */
const tell = ({ given: { journal }, inbox }: PlanRun, settlement: Settlement, doubted?: TaskId): void => {
  const { task_id } = settlement
  const isDone = doubted !== undefined && settlement.given !== undefined && decisionOf(settlement).decision === "reject"
  const known: ReadonlyArray<PlanChange> = isDone ? [{ _tag: "EffectEnded", task_id: doubted, state: "done" }] : []
  journal.append(
    [...inbox.use(settlement), ...known],
    [{ event: "approval.resolved", data: { task_id, ...decisionOf(settlement) } }]
  )
}

const resolve = (run: PlanRun, call: Ready, settlement: Settlement, follows?: TaskId): Prepared => {
  const rejection = rejected(call, settlement)
  if (rejection !== undefined) return rejection
  remember(run, call, settlement)
  return approved(follows === undefined ? call : { ...call, follows }, settlement)
}
