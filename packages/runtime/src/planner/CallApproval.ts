import type { ApprovalReason, GivenDecision } from "@bowline/domain/plan/Approval"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Effect } from "effect"
import type { ApprovalRules } from "../config/PlansConfig.ts"
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
const request = (run: PlanRun, { input, part }: Ready, why: ApprovalReason | undefined): void => {
  const { deadline, journal } = run.given
  const { task_id, tool } = part
  const progressed = run.progressed(run.stage)
  if (why === undefined) return journal.append([progressed], [])
  journal.append(
    [{ _tag: "ApprovalRequested", task_id, tool, input, why }, progressed],
    [{ event: "approval.requested", data: { task_id, tool, input, expires_at: fromMillis(deadline), why } }]
  )
}

const rejected = ({ input, part, tool }: Ready, { by, note }: GivenDecision): Prepared => ({
  _tag: "Refused",
  part,
  tool,
  state: "rejected",
  input,
  message: `The call was not made: ${by} rejected it${note === undefined ? "" : `. ${by} says: ${note}`}`
})

/**
 * Lets a call pass that needs no approval. One that does waits for its decision in stage `approval`, and is refused if that is a
 * rejection.
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

    const waiting = Effect.gen(function* () {
      yield* journal.keepUp
      request(run, call, why)
      const decision = yield* decisions.wait({ plan_id, task_id })
      journal.emit({ event: "approval.resolved", data: { task_id, ...decision } })
      return decision
    })
    const decision = earlier?.decision ?? (yield* run.stages.within("approval")(waiting))
    return decision.decision === "approve" ? call : rejected(call, decision)
  })
