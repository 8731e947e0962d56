import { CallerName } from "@bowline/domain/caller/CallerName"
import type { ApprovalReason, GivenDecision } from "@bowline/domain/plan/Approval"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import type { ApprovalRules } from "../config/PlansConfig.ts"
import type { InboxStore, Settlement } from "../store/InboxStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import * as ApprovalRule from "./ApprovalRule.ts"
import type { Wait } from "./PlanInbox.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Prepared } from "./PreparedCalls.ts"

type Ready = Extract<Prepared, { readonly _tag: "Ready" }>

interface Parts {
  readonly rules: ApprovalRules
  readonly inboxes: InboxStore["Service"]
}

/** Requests the approval of a call, and says until when it waits. Without a reason another process has requested it already. */
const request = (
  run: PlanRun,
  { input, part, tool: { agent, inputSchema, trust } }: Ready,
  why: ApprovalReason | undefined,
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
  const nothing = { message: null, data: null, url: null, mark: null }
  const call = { task_id, tool, agent, input, why, schema: inputSchema, expires_at }
  journal.append(
    [{ _tag: "WaitOpened", kind: "approval", round: 1, ...call, ...nothing, tool_digest, known_tool }, progressed],
    [{ event: "approval.requested", data: { task_id, tool, agent, input, expires_at, why } }]
  )
  return wait
}

const refused = ({ input, part, tool }: Ready, why: string): Prepared => ({
  _tag: "Refused",
  part,
  tool,
  state: "rejected",
  input,
  message: `The call was not made: ${why}`
})

const rejected = (call: Ready, { by, note }: GivenDecision): Prepared =>
  refused(call, `${by} rejected it${note === undefined ? "" : `. ${by} says: ${note}`}`)

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
  if (why === "description_changed" || ApprovalRule.isAlways(tool, rules)) return Effect.succeed(false)
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
    const settled = resumed?.waits.get(task_id)?.settlement
    if (call._tag === "Refused") return call
    if (call._tag === "Begun") return withInput(call, settled?.given)
    const earlier = resumed?.approvals.get(task_id)
    const why =
      earlier === undefined ? ApprovalRule.reasonOf(call.tool, asked.preferences.approval, parts.rules) : undefined
    if (earlier === undefined && (why === undefined || (yield* isRemembered(run, call, why, parts)))) return call

    // Readers have seen the decision.
    if (earlier?.decision !== undefined && settled !== undefined) return resolve(run, call, settled)
    const waiting = Effect.gen(function* () {
      yield* journal.keepUp
      const settlement = yield* run.inbox.wait(request(run, call, why, yield* Clock.currentTimeMillis))
      journal.append(run.inbox.use(settlement), [
        { event: "approval.resolved", data: { task_id, ...decisionOf(settlement) } }
      ])
      // Before the call starts: a process that dies in between has certainly not made it.
      yield* journal.flush
      return settlement
    })
    return resolve(run, call, yield* run.stages.within("approval")(waiting))
  })

const resolve = (run: PlanRun, call: Ready, settlement: Settlement): Prepared => {
  const decision = decisionOf(settlement)
  if (settlement.given === undefined) return refused(call, "nobody has decided about it in time.")
  if (decision.decision === "reject") return rejected(call, decision)
  remember(run, call, settlement)
  return approved(call, settlement)
}
