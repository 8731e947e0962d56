import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { GivenDecision, PendingApproval } from "@bowline/domain/plan/Approval"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, Duration, type Effect } from "effect"
import { createHash } from "node:crypto"
import { canonicalJson } from "./CanonicalJson.ts"
import type { Page, PageRequest } from "./Page.ts"

/** The call that an approval is about. */
export type ApprovalId = Pick<PendingApproval, "plan_id" | "task_id">

/** The id of a tool that callers know: a digest, since a URL may hold secrets, and a name may be as long as its server likes. */
export type KnownToolId = string

/** The id of a tool of the server at this URL. */
export const knownToolId = (url: string, tool: string): KnownToolId =>
  createHash("sha256")
    .update(canonicalJson([new URL(url).href, tool]))
    .digest("hex")

/** How long a caller knows a tool that none of its plans is offered any more. */
export const knownFor = Duration.days(90)

/** For a tool that is met `now`: until when it is known, and the least expiry that is good enough, so that the plans of a day write once. */
export const knownUntil = (now: string): { readonly expires_at: string; readonly least: string } => {
  const expires = Date.parse(now) + Duration.toMillis(knownFor)
  return { expires_at: fromMillis(expires), least: fromMillis(expires - Duration.toMillis("1 day")) }
}

/** A stored decision, and the digest of the MCP tool that it is about, if it is about one. */
export interface StoredDecision {
  readonly task_id: TaskId
  readonly decision: GivenDecision
  readonly tool_digest: string | null
}

/**
 * Approvals that plans have requested, the decisions about them, and the digests by which callers know the tools of MCP servers. The
 * request is a `PlanChange`; a decision is written outside the plan's lease. An approval is closed when its plan is over.
 */
export class ApprovalStore extends Context.Service<
  ApprovalStore,
  {
    /**
     * Writes a decision if the approval has none and its plan runs, and returns the decision that stands: a compare-and-swap, of two at
     * once the first one stands. If it approves the call of a changed tool, the caller of the plan knows the tool by the new digest from
     * then on: both are one write. `owner` is the caller whose plan it has to be; without one it may be anybody's. Fails with
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
    ) => Effect.Effect<ReadonlyArray<StoredDecision>, StorageError>
    /** What waits for a decision in plans of this caller, newest first. */
    readonly pending: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<PendingApproval>, StorageError>
    /** What waits for a decision in this plan of the caller, newest first. */
    readonly ofPlan: (owner: CallerName, plan: PlanId) => Effect.Effect<ReadonlyArray<PendingApproval>, StorageError>
    /**
     * Returns the digests by which the owner knows these tools. One that the owner meets for the first time is known by the digest that is
     * given here: of two at once the first one stands. `now` is ISO 8601 in UTC. One read, and at most one write.
     */
    readonly meetTools: (
      owner: CallerName,
      digests: ReadonlyMap<KnownToolId, string>,
      now: string
    ) => Effect.Effect<ReadonlyMap<KnownToolId, string>, StorageError>
  }
>()("@bowline/runtime/store/ApprovalStore") {}
