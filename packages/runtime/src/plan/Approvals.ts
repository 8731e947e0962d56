import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Decision, GivenDecision } from "@bowline/domain/plan/Approval"
import { ApprovalConflict, type NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { ApprovalId, ApprovalStore } from "../store/ApprovalStore.ts"
import type { Notices } from "../store/Notices.ts"

/** Who decides. An admin may decide about calls of anybody's plans. */
export interface Decider {
  readonly caller: CallerName
  readonly isAdmin: boolean
}

/**
 * Stores the decision, and wakes the plan wherever it runs: a notice that is lost only delays the plan. Returns the decision that
 * stands, and fails if that is the other one.
 */
export const decide = Effect.fnUntraced(function* (
  { notices, store }: { readonly notices: Notices["Service"]; readonly store: ApprovalStore["Service"] },
  { caller, isAdmin }: Decider,
  approval: ApprovalId,
  decision: Decision
): Effect.fn.Return<GivenDecision, NotFound | ApprovalConflict | StorageError> {
  const standing = yield* store.decide(approval, { ...decision, by: caller }, isAdmin ? undefined : caller)
  if (standing.decision !== decision.decision) return yield* new ApprovalConflict({ standing })
  yield* Effect.ignore(notices.publish([{ _tag: "ApprovalDecided", ...approval }]))
  return standing
})
