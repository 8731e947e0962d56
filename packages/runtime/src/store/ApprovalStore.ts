import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, type Effect } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** The call that an approval is about. */
export type ApprovalId = Pick<PendingApproval, "plan_id" | "task_id">

/**
 * Approvals that plans have requested, and the decisions about them. The request is a `PlanChange`; a decision is written outside the
 * plan's lease. An approval is closed when its plan is over.
 */
export class ApprovalStore extends Context.Service<
  ApprovalStore,
  {
    /**
     * Writes a decision if the approval has none and its plan runs, and returns the decision that stands: a compare-and-swap, of two at
     * once the first one stands. `owner` is the caller whose plan it has to be; without one it may be anybody's. Fails with
     * `ApprovalConflict` where nobody has decided and the plan is over.
     */
    readonly decide: (
      approval: ApprovalId,
      decision: GivenDecision,
      owner?: CallerName
    ) => Effect.Effect<GivenDecision, NotFound | ApprovalConflict | StorageError>
    /** The decisions about those of these approvals that have one. */
    readonly decisions: (
      approvals: ReadonlyArray<ApprovalId>
    ) => Effect.Effect<ReadonlyArray<{ readonly task_id: TaskId; readonly decision: GivenDecision }>, StorageError>
    /** What waits for a decision in plans of this caller, newest first. */
    readonly pending: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<PendingApproval>, StorageError>
  }
>()("@bowline/runtime/store/ApprovalStore") {}
