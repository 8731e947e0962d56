import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import type { AbortReason, Outcome, Stage } from "@bowline/domain/plan/Outcome"
import type { Plan, PlanState, PlanId, PlanSummary } from "@bowline/domain/plan/Plan"
import type { IdempotencyConflict, InvalidRequest, NotFound, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { Usage } from "@bowline/domain/plan/Usage"
import type { NewMessage } from "@bowline/domain/session/Message"
import type { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskError } from "@bowline/domain/plan/PlanEvent"
import type { TaskId, TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { Context, type Duration, type Effect, type Option, type Schema } from "effect"
import type { Route } from "../peer/PeerClient.ts"
import type { ReplicaId } from "./LeaseStore.ts"
import type { Page, PageRequest } from "./Page.ts"
import type { Compaction } from "./SessionStore.ts"
import type { EventRow } from "./EventRow.ts"
import type { Idempotency, PlanExists } from "./Idempotency.ts"
import type { PlanStart } from "./PlanStart.ts"
import type { StoredRequest } from "./StoredRequest.ts"

/** A plan to be created, with what only the store needs of it. */
export interface NewPlan extends PlanStart {
  readonly replica: ReplicaId
  /** The id of the session if it turns out to be a new one. */
  readonly new_session_id: SessionId
  /** The history of the request, as the first messages of a new session. */
  readonly messages: ReadonlyArray<NewMessage>
  /** Kept until the plan is over; `null` where no other process may resume it. */
  readonly storedRequest: StoredRequest | null
  /** The key that stands for the plan until it expires, or until its session is deleted. */
  readonly idempotency: (Idempotency & { readonly expires_at: string }) | null
}

/** How far a plan has come, and the model that it asks. */
export interface Progress {
  readonly model: string
  readonly steps: number
  readonly tool_calls: number
  readonly usage: Usage
}

/** One fact about a plan, to be written with the events that tell it. */
export type PlanChange =
  /** The session's lease is held: the plan is `running`, and from now on guarded by the session's fence. */
  | { readonly _tag: "Held"; readonly fence: number }
  | { readonly _tag: "Progressed"; readonly stage: Stage | null; readonly progress: Progress }
  | { readonly _tag: "MessageAppended"; readonly message: NewMessage; readonly at: string }
  /** Guarded by `covered_seq` as well. What it covers has been stored by an earlier commit. */
  | { readonly _tag: "Compacted"; readonly compaction: Compaction }
  /** The intent to call a tool. A call that is never dispatched is started as `invalid` or `rejected`. */
  | {
      readonly _tag: "TaskStarted"
      readonly task_id: TaskId
      readonly tool: string
      readonly kind: ToolKind
      readonly agent: string | null
      readonly endpoint: string | null
      readonly skill: string | null
      readonly input: Schema.Json
      readonly state: "running" | "invalid" | "rejected"
      readonly at: string
    }
  | {
      readonly _tag: "TaskAccepted"
      readonly task_id: TaskId
      readonly remote_task_id: string | null
      readonly remote_context_id: string | null
    }
  | {
      readonly _tag: "TaskFinished"
      readonly task_id: TaskId
      readonly state: TaskState
      readonly result: string
      readonly error: TaskError | null
      readonly at: string
    }
  /** A call waits for a decision. */
  | ({ readonly _tag: "ApprovalRequested" } & Pick<PendingApproval, "task_id" | "tool" | "input" | "why">)
  /** Its process ends well, and leaves it to the next one: that it is taken over then says nothing against it. */
  | { readonly _tag: "HandedOver" }
  | { readonly _tag: "Settled"; readonly outcome: Outcome; readonly progress: Progress; readonly at: string }

/**
 * What must still be true for a write to happen. In the queue the plan's own row guards it: it is still this replica's,
 * with this `fence` of its own (0 when new). Later the session's fence does; of a plan that is still `queued` in the store,
 * together with the lease of that fence, which must be held by the plan's own replica.
 */
export type Guard =
  | { readonly _tag: "Queued"; readonly replica: ReplicaId; readonly fence: number }
  | { readonly _tag: "Held"; readonly fence: number }

/** All that is to be written of one plan, in order; at most one per plan in a batch. */
export interface PlanCommit {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly guard: Guard
  readonly changes: ReadonlyArray<PlanChange>
  readonly events: ReadonlyArray<EventRow>
}

/** One call of a tool, as it is stored. */
export interface StoredTask {
  readonly task_id: TaskId
  readonly tool: string
  readonly kind: ToolKind
  readonly agent: string | null
  readonly endpoint: string | null
  readonly skill: string | null
  readonly state: TaskState | "running"
  readonly remote_task_id: string | null
  readonly remote_context_id: string | null
  readonly started_at: string
}

/** A plan that its replica left behind, taken over by the replica that got it: `guard` is what it writes with. */
export interface AbandonedPlan {
  readonly plan: Plan
  readonly owner: CallerName
  readonly guard: Guard
  /** Nothing where it was not kept. */
  readonly request: StoredRequest | null
  readonly route: Route
  /** How many other processes have left it behind while they ran it, without a word. */
  readonly deaths: number
  /** Its events from the last `step` on; all that there are, if it has not come so far. */
  readonly tail: ReadonlyArray<EventRow>
  /** Its calls, in the order in which they have started. */
  readonly tasks: ReadonlyArray<StoredTask>
}

/**
 * Plans, their tasks and events; and, since only plans write it, the history. Like every store it bounds each of its operations,
 * and fails with `Unavailable` when the database does not answer in time.
 */
export class PlanStore extends Context.Service<
  PlanStore,
  {
    /**
     * In one transaction: the session, which is made when there is none (an upsert: two first requests make one); its
     * agents, merged by name; of a new session its history; what the caller says of earlier history, unless the session has it
     * already, as that or as its summary; the plan, `queued`, in stage `queue`; and its first event, `session`. `external_session_id` may
     * also be the gateway's id of a session of the owner. Fails with `SessionBusy` when `on_busy` is `reject` and the session has
     * a plan that is not over, or when `maxQueue` plans of the session are `queued` besides the one that has it: `session` rows
     * are locked, so that of two at once one sees the other. Fails with `InvalidRequest` where a session that there is already is
     * given a history. A key is unique per owner, and written with the plan, behind the lock on the session: of two at once one makes the
     * plan, and the other one fails with `PlanExists`, or `IdempotencyConflict`, before it looks at anything else. A replica that has never said that it lives is taken to live for
     * 10 s from its first plan on.
     */
    readonly create: (
      plan: NewPlan,
      maxQueue: number
    ) => Effect.Effect<
      {
        readonly session_id: SessionId
        readonly external_session_id: ExternalSessionId | null
        readonly created: boolean
      },
      SessionBusy | InvalidRequest | IdempotencyConflict | PlanExists | StorageError
    >
    /** The plan that the key stands for at this time, if there is one, and if it was started with the same body. */
    readonly findByKey: (
      owner: CallerName,
      idempotency: Idempotency,
      now: string
    ) => Effect.Effect<Option.Option<PlanId>, IdempotencyConflict | StorageError>
    /**
     * Writes a batch durably, in one transaction, and gives the plans whose guard no longer holds, or that are over: of those
     * nothing was written. After `Unavailable` the batch may have been stored, or may be stored yet: the very same batch can be
     * written again, and is stored once.
     */
    readonly commit: (batch: ReadonlyArray<PlanCommit>) => Effect.Effect<ReadonlySet<PlanId>, StorageError>
    /** Somebody else's is not found. */
    readonly get: (owner: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** Newest first. */
    readonly list: (
      owner: CallerName,
      filter: { readonly session?: SessionId; readonly state?: PlanState },
      page: PageRequest
    ) => Effect.Effect<Page<PlanSummary>, StorageError>
    /** Rows in order, from the one that holds `after + 1`, at most `limit` of them. */
    readonly events: (id: PlanId, after: number, limit: number) => Effect.Effect<ReadonlyArray<EventRow>, StorageError>
    /**
     * Takes over plans that were left behind: a compare-and-swap that gives each plan to one replica. A queued one is left when
     * another replica has it that has not said for a lease's time that it lives; it comes with a new fence of its own. A running
     * one is left when nobody holds a lease on its session, whoever had it: a replica that was paused may take over what it
     * lost; it comes with the session's lease, and a new fence. The replica gets its own queued plans only if they are `forgotten`.
     * Of more than `limit` the others are left for somebody else, or the next time. Says that the replica which asks lives.
     */
    readonly takeOver: (
      replica: ReplicaId,
      ttl: Duration.Duration,
      limit: number,
      forgotten?: ReadonlyArray<PlanId>
    ) => Effect.Effect<ReadonlyArray<AbandonedPlan>, StorageError>
    /** The plans of this replica that wait for their sessions. */
    readonly queued: (replica: ReplicaId) => Effect.Effect<ReadonlyArray<PlanId>, StorageError>
    /**
     * Asks whichever replica has the plan to abort it, and tells it (`AbortRequested`): the first reason stays. Nothing happens if
     * it is over.
     */
    readonly requestAbort: (id: PlanId, reason: AbortReason) => Effect.Effect<void, StorageError>
    /** The plans of this replica that somebody asked to abort, and that are not over. */
    readonly abortRequests: (
      replica: ReplicaId
    ) => Effect.Effect<ReadonlyArray<{ readonly plan_id: PlanId; readonly reason: AbortReason }>, StorageError>
    /** Whether what is stored outlives the process, so that the next one can go on with it. */
    readonly isDurable: boolean
    /** Whether the database answers. */
    readonly ping: Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/PlanStore") {}
