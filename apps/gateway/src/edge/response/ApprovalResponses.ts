import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { Plans } from "@bowline/runtime/plan/Plans"
import { Effect, Option } from "effect"
import { missing } from "./ItemReferences.ts"
import { approvalOf } from "./ResponseItems.ts"
import type { Decided } from "./ResponseInput.ts"
import type { ResponseRequest } from "./ResponseRequest.ts"

/** What the `mcp_approval_response` items of requests decide. */
export const make = (plans: Plans["Service"]) => {
  const decideOne = Effect.fnUntraced(function* (
    caller: CallerName,
    previous: PlanId | undefined,
    { decision, ...given }: Decided
  ) {
    const path = `${given.path}.approval_request_id`
    const approval = Option.getOrUndefined(approvalOf(given.approval_request_id))
    if (approval === undefined) return yield* missing(path, "approval request")
    if (previous !== undefined && approval.plan_id !== previous) {
      return yield* missing(path, "approval request in the previous response")
    }
    yield* plans.decide({ caller, isAdmin: false }, approval, decision)
    return approval.task_id
  })

  /**
   * Passes the caller's decisions on, and returns the calls that waited for them, and the plan of the last one. A client that keeps the
   * history itself sends those of earlier turns again: those that cannot be made any more, such as that of a plan that was deleted, are left
   * out. Nothing but the last decision of a request without a question is new for sure.
   */
  return Effect.fnUntraced(function* (
    caller: CallerName,
    { decided, request }: ResponseRequest,
    previous: PlanId | undefined
  ) {
    const plansOf = decided.map(({ approval_request_id }) =>
      Option.getOrUndefined(Option.map(approvalOf(approval_request_id), ({ plan_id }) => plan_id))
    )
    const calls = new Set<TaskId>()
    const ignored: Array<string> = []
    for (const [index, one] of decided.entries()) {
      const isEarlier = request !== undefined || plansOf[index] !== plansOf.at(-1)
      const leaveOut = () => Effect.sync(() => void ignored.push(one.path))
      const deciding = Effect.map(decideOne(caller, previous, one), (call) => void calls.add(call))
      if (isEarlier) yield* Effect.catchTag(deciding, ["NotFound", "ApprovalConflict", "Refused"], leaveOut)
      else yield* deciding
    }
    return { calls, ignored, plan_id: plansOf.at(-1) }
  })
}
