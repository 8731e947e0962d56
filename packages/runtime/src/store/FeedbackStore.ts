import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { Feedback } from "@bowline/domain/unstable/plan/Feedback"
import { Context, type Effect } from "effect"

/**
 * What callers say of plans. Both find a plan of this owner only or, without an owner, anybody's. `PlanFilter` finds plans by what was said
 * last.
 */
export class FeedbackStore extends Context.Service<
  FeedbackStore,
  {
    /** Takes the place of what the same caller has said of the plan before. It is stored as long as the plan. */
    readonly give: (owner: CallerName | undefined, feedback: Feedback) => Effect.Effect<void, NotFound | StorageError>
    /** One of each caller, the latest first. */
    readonly list: (
      owner: CallerName | undefined,
      plan: PlanId
    ) => Effect.Effect<ReadonlyArray<Feedback>, NotFound | StorageError>
  }
>()("@bowline/runtime/store/FeedbackStore") {}
