import type { ApprovalReason, GivenDecision } from "@bowline/domain/plan/Approval"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Effect } from "effect"
import type { ApprovalRules } from "../config/PlansConfig.ts"
import type { StoredDecision } from "../store/ApprovalStore.ts"
import type { ApprovalDecisions } from "./ApprovalDecisions.ts"
import * as ApprovalRule from "./ApprovalRule.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Prepared } from "./PreparedCalls.ts"

type Ready = Extract<Prepared, { readonly _tag: "Ready" }>

interface Parts {
  readonly rules: ApprovalRules
  readonly decisions: ApprovalDecisions["Service"]
}

/** Requests the approval of a call. Without a reason another process has requested it already. */
const request = (
  run: PlanRun,
  { input, part, tool: { agent, trust } }: Ready,
  why: ApprovalReason | undefined
): void => {
  const { deadline, journal } = run.given
  const { task_id, tool } = part
  const progressed = run.progressed(run.stage)
  if (why === undefined) return journal.append([progressed], [])
  const tool_digest = trust?.digest ?? null
  const known_tool = why === "description_changed" ? (trust?.known ?? null) : null
  journal.append(
    [{ _tag: "ApprovalRequested", task_id, tool, agent, input, why, tool_digest, known_tool }, progressed],
    [{ event: "approval.requested", data: { task_id, tool, agent, input, expires_at: fromMillis(deadline), why } }]
  )
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
const approved = (call: Ready, { tool_digest }: Pick<StoredDecision, "tool_digest">): Prepared => {
  const { trust } = call.tool
  if (tool_digest !== null && tool_digest !== trust?.digest) {
    return refused(call, "its tool has changed since the approval was requested. Make it again if it is still right.")
  }
  // The store knows it, too. What the request pins stays pinned.
  if (trust !== undefined && trust.known !== null) trust.isChanged = false
  return call
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
export const make = ({ decisions, rules }: Parts) =>
  Effect.fnUntraced(function* (run: PlanRun, call: Prepared): Effect.fn.Return<Prepared, StorageError> {
    if (call._tag !== "Ready") return call
    const { journal, plan_id, request: asked, resumed } = run.given
    const { task_id } = call.part
    const earlier = resumed?.approvals.get(task_id)
    const why = earlier === undefined ? ApprovalRule.reasonOf(call.tool, asked.preferences.approval, rules) : undefined
    if (earlier === undefined && why === undefined) return call

    const isTold = earlier?.decision !== undefined
    const waiting = Effect.gen(function* () {
      if (!isTold) {
        yield* journal.keepUp
        request(run, call, why)
      }
      const stored = yield* decisions.wait({ plan_id, task_id })
      if (!isTold) journal.emit({ event: "approval.resolved", data: { task_id, ...stored.decision } })
      return stored
    })
    const stored = yield* run.stages.within("approval")(waiting)
    return stored.decision.decision === "approve" ? approved(call, stored) : rejected(call, stored.decision)
  })
