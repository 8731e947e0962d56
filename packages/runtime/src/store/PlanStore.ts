import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import type { EntryState, Waiting } from "@bowline/domain/plan/Inbox"
import type { AbortReason, EntryId, Outcome, Stage, WokenBy } from "@bowline/domain/plan/Outcome"
import type { Plan, PlanFacts, PlanState, PlanId, PlanSummary } from "@bowline/domain/plan/Plan"
import type { Preferences } from "@bowline/domain/plan/PlanRequest"
import type { FeedbackSign } from "@bowline/domain/unstable/plan/Feedback"
import { type IdempotencyConflict, InvalidRequest, type NotFound, type SessionBusy } from "@bowline/domain/plan/Refusal"
import type { Cost, Usage } from "@bowline/domain/plan/Usage"
import { type Message, MessageId, type NewMessage } from "@bowline/domain/session/Message"
import type { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskError } from "@bowline/domain/plan/PlanEvent"
import type { TaskId, TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { Context, type Duration, Effect, type Option, type Schema, type Scope } from "effect"
import type { RemoteIds, Route } from "../remote/PeerClient.ts"
import type { InboxContent, KnownToolId, OpenWait, StoredWait } from "./InboxStore.ts"
import type { ReplicaId } from "./LeaseStore.ts"
import type { Page, PageRequest } from "./Page.ts"
import type { Compaction, HandedBack } from "./SessionStore.ts"
import { type EventRow, toFrames } from "./EventRow.ts"
import type { Idempotency, PlanExists } from "./Idempotency.ts"
import type { PlanStart } from "./PlanStart.ts"
import type { NewWebhook } from "./PushStore.ts"
import type { NewFiring } from "./ScheduleStore.ts"
import type { StoredRequest } from "./StoredRequest.ts"

/** A plan to create: its start, and what only the store needs. */
export interface NewPlan extends PlanStart {
  readonly replica: ReplicaId
  /** The id that the session gets if `create` has to make it. */
  readonly new_session_id: SessionId
  /** How many bytes the files of the session may have together. */
  readonly filesQuota?: number | undefined
  /** The request's `history`: the first messages of a new session. */
  readonly messages: ReadonlyArray<NewMessage>
  /** The request as it came. Its secrets are kept until the plan is over. */
  readonly storedRequest: StoredRequest
  /** What the protocol in which the caller asked repeats of the request later, such as the fields of a response; null if it repeats nothing. It is found by its `type`, which comes first. */
  readonly echo: Schema.Json | null
  /**
   * As the plan is created, the session loses the questions of the plans that have the same `echo`, and every message after the
   * first of them.
   */
  readonly replaces: boolean
  /** The idempotency key of the plan. It counts until it expires, or until the session is deleted. */
  readonly idempotency: (Idempotency & { readonly expires_at: string }) | null
  /** Who is told of the plan. One that continues another has those of that one besides. */
  readonly webhooks: ReadonlyArray<NewWebhook>
  /** The due time of a schedule that the plan is created for. */
  readonly firing?: NewFiring | undefined
  /** The time of the lease that the plan gets if its session is free; undefined if it has to ask for the session in any case. */
  readonly leaseTtl: Duration.Duration | undefined
  /** The last plan of the session, as its caller knows it: with a newer one there, the plan is refused as `notLast`. */
  readonly follows?: PlanId | undefined
}

/** The session has a newer plan than the one that was to be followed. */
export const notLast = new InvalidRequest({
  issues: [{ path: ["follows"], message: "Expected the last plan of the session" }]
})

/** The session of a plan that was created. */
export interface PlanSession {
  readonly session_id: SessionId
  readonly external_session_id: ExternalSessionId | null
  /** Whether the session was made for the plan. */
  readonly created: boolean
  /** The fence of the session's lease, if the plan got it: then the plan is `running`. */
  readonly fence: number | undefined
  /** Of the calls that the plan has dropped as it was created: what their peers have handed back. */
  readonly dropped: ReadonlyArray<HandedBack>
}

/** The id of the message that asks a plan's question. The process that resumes the plan finds it by that name. */
export const questionId = (plan: PlanId): MessageId => MessageId.make(plan.replace(/^plan_/, "msg_"))

/** How far a plan has come, and the model that it asks. */
export interface Progress {
  readonly model: string
  readonly steps: number
  readonly tool_calls: number
  readonly retries: number
  readonly usage: Usage
  readonly cost_usd: Cost
}

/** What a plan has used since it was charged last. Its caller is charged for it, on this UTC day (`2026-01-02`), for this model. */
export interface Charge {
  readonly day: string
  readonly model: string
  /** 1 as the plan begins, and 0 from then on. */
  readonly plans: number
  readonly tool_calls: number
  readonly usage: Usage
  readonly cost_usd: Cost
}

/** What the plans of a caller have used on one day: tokens of input and output, calls of tools, and US dollars as far as prices are known. */
export interface Spent {
  readonly tokens: number
  readonly tool_calls: number
  readonly cost_usd: number
  /** On the days of its month up to this one. */
  readonly month_cost_usd: number
}

/** What never changes of a call of a tool. */
interface TaskCall {
  readonly task_id: TaskId
  readonly tool: string
  readonly kind: ToolKind
  readonly agent: string | null
  readonly endpoint: string | null
  readonly skill: string | null
}

/** What a call has done: all of it, nothing, or nobody knows. */
export type EffectEnd = "done" | "none" | "unknown"

/** A claim of an effect: `key` is a digest, see `EffectKey`. It is kept until `expires_at`. Times are ISO 8601 in UTC. */
interface NewClaim {
  readonly key: string
  readonly task_id: TaskId
  readonly tool: string
  readonly at: string
  readonly expires_at: string
}

/** Whose an effect is. `result` is what the call returned if it has completed, as long as its session is stored, and the remote ids are those of its peer's task. */
export interface EffectClaim extends RemoteIds {
  readonly task_id: TaskId
  readonly plan_id: PlanId
  readonly at: string
  readonly state: EffectEnd | "running"
  readonly result: string | null
}

/** One fact about a plan, to be written with the events that tell it. */
export type PlanChange =
  /** The plan holds the session's lease: it is `running`, and from now on the session's fence guards its writes. */
  | { readonly _tag: "Held"; readonly fence: number }
  | { readonly _tag: "Progressed"; readonly stage: Stage | null; readonly progress: Progress }
  /** Comes with an event or a message: by these the store knows that it has stored the commit, and charged for it, before. */
  | ({ readonly _tag: "Charged" } & Charge)
  | { readonly _tag: "MessageAppended"; readonly message: NewMessage; readonly at: string }
  /** Guarded by `covered_seq` as well. An earlier commit has stored the messages that it covers. */
  | { readonly _tag: "Compacted"; readonly compaction: Compaction }
  /** The intent to call a tool. A call that is refused starts as `invalid` or `rejected`, and is never dispatched. */
  | ({
      readonly _tag: "TaskStarted"
      readonly input: Schema.Json
      readonly state: "running" | "invalid" | "rejected"
      readonly at: string
    } & TaskCall)
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
  /**
   * Comes with the intent of the call: the effect of this key is the call's, if no other call of the owner has it. One that did nothing, that is
   * kept no longer, or that this one `follows` and that is not done gives it up. `claimOf` tells who has it then.
   */
  | ({ readonly _tag: "EffectClaimed"; readonly follows: TaskId | null } & NewClaim)
  /** What is known of the effect of this call from now on, if it has one. */
  | { readonly _tag: "EffectEnded"; readonly task_id: TaskId; readonly state: EffectEnd }
  /**
   * A call waits for somebody. It is the one wait of the call, but for one for an account: what the call waited for before has been settled. An approval makes `tool_digest` the
   * one by which the caller knows `known_tool`, where there is one. Callers
   * are told that it ends at `expires_at`, ISO 8601 in UTC; by the store's clock it ends `left_ms` from now. `spent_ms` is how much of its own time the call has used.
   */
  | ({
      readonly _tag: "WaitOpened"
      readonly tool_digest: string | null
      readonly known_tool: KnownToolId | null
      /** By what the tool knows its question again. */
      readonly mark: string | null
      readonly spent_ms: number
      /** Where it is not known, `expires_at` counts. */
      readonly left_ms?: number
    } & OpenWait &
      Pick<Waiting, "task_id" | "agent" | "input" | "why" | "message" | "data" | "url" | "expires_at">)
  /** The call waits no longer, and no entry has settled it: a text has ended its wait for a time, or nobody asks any more. */
  | { readonly _tag: "WaitEnded"; readonly task_id: TaskId }
  /** What the plan has done with an entry of its inbox: it has told its readers of it (`accepted`, `withdrawn`), or has come to its end. */
  | {
      readonly _tag: "EntryChanged"
      readonly entry_id: EntryId
      readonly state: EntryState
      readonly step: number | null
      readonly moved_to: PlanId | null
    }
  /** Comes with `Settled`: the next plan of the session is created in the same write, and is queued. Its question are texts that this one has not taken. */
  | { readonly _tag: "Continued"; readonly plan: NewPlan }
  /** What the plan has come to: the text of `PlanGist`, or null if that is too long, and when its first text came, if that is known by now. */
  | { readonly _tag: "Summed"; readonly gist: string | null; readonly firstTokenAt: string | null }
  /**
   * The plan's process shuts down in order and hands the plan over: that take-over does not count in `deaths`. A queued plan may be taken over
   * from now on, and the other replicas are told (`PlansLeft`).
   */
  | { readonly _tag: "HandedOver" }
  /**
   * The plan is parked until something wakes it: it is `waiting`, and no process has it. `leftMs` is how much of its time is left. `until` is when the last
   * of its waits ends (ISO 8601 in UTC): its session stays so long. `preferences` are those it goes on with. It closes the plan for its process.
   */
  | {
      readonly _tag: "Parked"
      readonly leftMs: number
      readonly until: string | null
      readonly preferences: Preferences
      /** Whether it ends when nobody reads it. */
      readonly needsReader: boolean
    }
  /** Readers of a plan that was parked are told that it goes on. */
  | { readonly _tag: "Woken" }
  | { readonly _tag: "Settled"; readonly outcome: Outcome; readonly progress: Progress; readonly at: string }
  /** Comes with `Settled` or `Parked`: the lease of the session ends, too, and the other replicas are told (`LeaseReleased`). */
  | { readonly _tag: "Released" }

/**
 * What must still be true for a write to happen. `Queued` is for a plan in the queue: its row must still have this replica and this
 * `fence`, which is the plan's own (0 when new). `Held` is for a plan that runs: the session must still have this fence. While the
 * store still has that plan as `queued`, the plan's replica must also hold the lease with this fence.
 */
export type Guard =
  | { readonly _tag: "Queued"; readonly replica: ReplicaId; readonly fence: number }
  | { readonly _tag: "Held"; readonly fence: number }

/** All that is to be written for one plan, in order. A batch has at most one commit per plan. */
export interface PlanCommit {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly guard: Guard
  readonly changes: ReadonlyArray<PlanChange>
  readonly events: ReadonlyArray<EventRow>
  /**
   * How much of the plan's inbox its process has read: see `InboxContent`. A commit that `closes` takes entries, or ends the plan: it is stored
   * only if that is all there is.
   */
  readonly inbox?: { readonly seen: number; readonly closes: boolean }
}

/**
 * What is to be known of a commit besides that it is stored. `refused`: its guard no longer holds, or the plan is over; nothing was written.
 * `unread`: it closes the plan, whose inbox has more than its process has read, or parks it though somebody has asked to abort it; nothing was written. `behind`: it is stored, and there is more.
 */
export type Committed = "refused" | "unread" | "behind"

/** What has to be known of a plan to tell its end. */
export type ToldFacts = Pick<Plan, "plan_id" | "state" | "final" | "error">

/** A plan, and what is on its row of its `PlanGist`: null if that was too long, or if an earlier version has stored the plan. */
export interface Told<A extends ToldFacts> {
  readonly plan: A
  readonly gist: Schema.Json | null
}

/** One call of a tool, as it is stored. */
export interface StoredTask extends TaskCall {
  readonly state: TaskState | "running"
  readonly remote_task_id: string | null
  readonly remote_context_id: string | null
  readonly started_at: string
}

/** A call with what it gave. */
export interface RecordedCall extends Omit<StoredTask, "endpoint"> {
  readonly input: Schema.Json
  readonly result: string | null
  readonly error: TaskError | null
}

/** What a plan was run with, and the results of its calls, in the order in which they started. */
export interface Recorded {
  readonly preferences: Preferences
  /** The request as it is stored, without secrets; null where an earlier version has stored the plan. */
  readonly request: Schema.Json | null
  readonly calls: ReadonlyArray<RecordedCall>
}

/** Which plans a list has: those to which everything that is given applies. Times are ISO 8601 in UTC. */
export interface PlanFilter {
  readonly session?: SessionId
  /** Any of them. */
  readonly states?: ReadonlyArray<PlanState>
  /** The one that the plan asks, or asked last. */
  readonly model?: string
  readonly error_code?: string
  /** Its caller came with this key. */
  readonly key_id?: KeyId
  /** Created then or later. */
  readonly since?: string
  /** Created before then. */
  readonly until?: string
  /** The `reason` of its abort. */
  readonly reason?: string
  /** What its question contains, in upper or lower case. */
  readonly q?: string
  /** It has called this tool. */
  readonly tool?: string
  /** It has called a tool of this agent or MCP server. */
  readonly agent?: string
  /** Its metadata have all of these. */
  readonly metadata?: ReadonlyArray<readonly [key: string, value: string]>
  /** What anybody has said of it last. */
  readonly feedback?: FeedbackSign
  /** What anybody has said of it last has this label. */
  readonly label?: string
  /** Its echo has this `type`, this `model`, and all of these entries of its `metadata`. An echo that is found by more than its type has nothing but texts and numbers in front of these. */
  readonly echo?: {
    readonly type: string
    readonly model?: string
    readonly metadata?: ReadonlyArray<readonly [key: string, value: string]>
  }
  /** It comes behind this plan in the list. */
  readonly behind?: PlanId
}

/** A plan that lost its replica and was taken over. The new replica writes it with `guard`. */
export interface AbandonedPlan {
  readonly plan: PlanFacts
  readonly owner: CallerName
  readonly guard: Guard
  /** Null if an earlier version has stored the plan, and did not keep its request. */
  readonly request: StoredRequest | null
  /** As they were when the plan was created: those of its request, those of its preset, and the defaults. */
  readonly preferences: Preferences
  readonly route: Route
  /** Milliseconds until its deadline by the clock of the store, which has measured them since the plan was created; below 0 after it. */
  readonly leftMs: number
  /** How many processes have died, or lost the plan, while they ran it. A hand-over does not count. */
  readonly deaths: number
  /** What has woken it, if it was parked, and its readers have not been told. */
  readonly wokenBy: WokenBy | null
  /** Its events from the last `step` on, or all its events if it has no step yet. */
  readonly tail: ReadonlyArray<EventRow>
  /** Its calls, in the order in which they started. */
  readonly tasks: ReadonlyArray<StoredTask>
  /** What is on its row of what it has come to. */
  readonly gist: Schema.Json | null
  readonly inbox: InboxContent
  /** What its calls wait for, or waited for last. */
  readonly waits: ReadonlyArray<StoredWait>
  /** The calls that its history has no result for, in their order: some of them may not have started. */
  readonly unanswered: ReadonlyArray<TaskId>
}

/** The calls of these messages that have no result in them, in their order. */
export const unanswered = (messages: Iterable<Pick<Message, "parts">>): ReadonlyArray<TaskId> => {
  const calls = new Set<TaskId>()
  for (const { parts } of messages) {
    for (const part of parts) {
      if (part.type === "tool_call") calls.add(part.task_id)
      if (part.type === "tool_result") calls.delete(part.task_id)
    }
  }
  return Array.from(calls)
}

/**
 * Plans, their tasks and their events. It also writes the history, since only plans add to it. Like every store it limits the time
 * of each operation, and fails with `Unavailable` when the database does not answer in time.
 */
export class PlanStore extends Context.Service<
  PlanStore,
  {
    /**
     * Creates a plan in one transaction. It writes the session if there is none yet, its agents (merged by name), the history of
     * a new session, the caller's `prior_summary` unless the session already has that text, the plan (`queued`, stage `queue`) and
     * its first event, `session`. `external_session_id` may also be the gateway's own id of a session of the owner. The session's
     * row is locked, so that concurrent calls see each other, and two first requests make one session.
     *
     * With `leaseTtl`, a plan whose session is free gets the session's lease at once and is `running`: no other plan of the session is
     * queued or runs, and nobody holds a lease on it.
     *
     * Fails with `SessionBusy` if `on_busy` is `reject` and the session has a plan that is not over, or if `maxQueue` plans wait
     * for the session already. Fails with `InvalidRequest` if the request brings a history for a session that exists. An
     * idempotency key is unique per owner. It is checked first, under the lock: of two requests with one key the first creates the
     * plan, and the second fails with `PlanExists`, or with `IdempotencyConflict` if its body differs. So does one whose `firing` is there already, or
     * whose schedule is not as it was claimed any more. The first plan of a replica
     * also records that the replica is alive: the record counts for 10 s, and renewals of leases extend it.
     */
    readonly create: (
      plan: NewPlan,
      maxQueue: number
    ) => Effect.Effect<PlanSession, SessionBusy | InvalidRequest | IdempotencyConflict | PlanExists | StorageError>
    /** The guard of a plan of this replica that is not over, as it is stored: for a replica that never got the answer of `create`. */
    readonly guardOf: (id: PlanId, replica: ReplicaId) => Effect.Effect<Option.Option<Guard>, StorageError>
    /** The plan that a request with this key started, if the key has not expired by `now`. Fails if the bodies differ. */
    readonly findByKey: (
      owner: CallerName,
      idempotency: Idempotency,
      now: string
    ) => Effect.Effect<Option.Option<PlanId>, IdempotencyConflict | StorageError>
    /**
     * Writes a batch durably, in one transaction; a plan that is continued has one of its own. It has one commit of each plan at most. Returns the plans of which
     * there is more to be known than that their commit is stored. After `Unavailable` the batch may be stored, or may still become stored. The caller writes the same
     * batch again, and it is stored once.
     */
    readonly commit: (batch: ReadonlyArray<PlanCommit>) => Effect.Effect<ReadonlyMap<PlanId, Committed>, StorageError>
    /** Whose the effect of this key is. One of a call that has ended, and has not said what it has done, is `unknown`. */
    readonly claimOf: (owner: CallerName, key: string) => Effect.Effect<Option.Option<EffectClaim>, StorageError>
    /** Another owner's plan is not found. */
    readonly get: (owner: CallerName, id: PlanId) => Effect.Effect<Plan, NotFound | StorageError>
    /** The plan with what it has come to, and with its `echo`, if it has one. Another owner's plan is not found. One statement, one row. */
    readonly told: (
      owner: CallerName,
      id: PlanId
    ) => Effect.Effect<Told<PlanFacts> & { readonly echo: Schema.Json | null }, NotFound | StorageError>
    /** The `echo` that the plan was created with. Another owner's plan is not found, nor is one without an echo, or whose echo was dropped. */
    readonly echo: (owner: CallerName, id: PlanId) => Effect.Effect<Schema.Json, NotFound | StorageError>
    /** Gives the plan another echo, or with null none. One without an echo keeps none: it may have been dropped meanwhile. The plan itself stays as it is. */
    readonly setEcho: (id: PlanId, echo: Schema.Json | null) => Effect.Effect<void, StorageError>
    /** The plans of the owner, or of everybody if there is none, newest first. `oldestFirst` turns the order around. */
    readonly list: (
      owner: CallerName | undefined,
      filter: PlanFilter,
      page: PageRequest & { readonly oldestFirst?: boolean }
    ) => Effect.Effect<Page<PlanSummary>, StorageError>
    /**
     * A page of at most `limit` rows in order, from the one that holds the event `after + 1`. It ends with the row that brings it to
     * `pageBytes`; only an empty page says that there is nothing more. A plan that is over has no events any more when it ended longer ago than the
     * store keeps them.
     */
    readonly events: (id: PlanId, after: number, limit: number) => Effect.Effect<ReadonlyArray<EventRow>, StorageError>
    /**
     * Puts the events of each of these plans together, in less room, if the plan is over, or waits: `events` gives the same rows as before, also to whoever
     * reads them meanwhile, and a plan that waits goes on as before. What is sealed already stays as it is. A store may leave a plan to `sealLeft`.
     */
    readonly seal: (plans: ReadonlyArray<PlanId>) => Effect.Effect<void, StorageError>
    /**
     * Seals a batch of the plans that are over, or wait, and that nobody has sealed, and deletes events that are kept no longer by `now` (ISO 8601 in UTC).
     * Returns whether there may be more.
     */
    readonly sealLeft: (now: string) => Effect.Effect<boolean, StorageError>
    /** Somebody reads the plan's events until the scope closes. A store that drops sessions, to make room, keeps this one. */
    readonly reading: (id: PlanId) => Effect.Effect<void, never, Scope.Scope>
    /**
     * Takes over plans that nobody runs, at most `limit` at once. It is a compare-and-swap: each plan goes to one replica. A queued
     * plan may be taken over when its replica has not been recorded alive for the time of a lease, or has handed it over; it gets a new
     * fence of its own.
     * A running plan may be taken over when nobody holds a lease on its session, also by the replica that had it, if that was
     * paused; the new replica gets the session's lease with a new fence. A replica gets its own queued plans only if it names them
     * in `forgotten`. The call also records that the replica which asks is alive. Of plans that something has woken it takes `places` at most, and besides
     * those that are to be aborted: their time goes on with the take-over.
     */
    readonly takeOver: (
      replica: ReplicaId,
      ttl: Duration.Duration,
      limit: number,
      forgotten?: ReadonlyArray<PlanId>,
      places?: number,
      isThorough?: boolean
    ) => Effect.Effect<ReadonlyArray<AbandonedPlan>, StorageError>
    /**
     * The queued plans of this replica, and whether there may be plans to take over. Its cost does not grow with plans that are well, unless it
     * `isThorough`: then it, or `takeOver`, also sees a plan that a process of the version before has left without a lease.
     */
    readonly abandoned: (
      replica: ReplicaId,
      isThorough?: boolean
    ) => Effect.Effect<{ readonly queued: ReadonlyArray<PlanId>; readonly isAny: boolean }, StorageError>
    /**
     * Asks the replica that has the plan to abort it: stores the reason, unless there is one already, and publishes
     * `AbortRequested`. Nothing happens if the plan is over. A parked plan wakes up for it; with `isUnread` it is asked only of a parked plan that ends when nobody reads it.
     */
    readonly requestAbort: (id: PlanId, reason: AbortReason, isUnread?: boolean) => Effect.Effect<void, StorageError>
    /** The parked plans that end when nobody reads them. */
    readonly needingReaders: Effect.Effect<ReadonlyArray<PlanId>, StorageError>
    /** How many plans are parked, in the whole deployment. */
    readonly parked: Effect.Effect<number, StorageError>
    /** The plans of this replica that are to be aborted and are not over yet. */
    readonly abortRequests: (
      replica: ReplicaId
    ) => Effect.Effect<ReadonlyArray<{ readonly plan_id: PlanId; readonly reason: AbortReason }>, StorageError>
    /** What was charged to this day for the owner, also by plans that were deleted since. Days are kept for 400 days. */
    readonly spent: (owner: CallerName, day: string) => Effect.Effect<Spent, StorageError>
    /** Charges the owner with what no plan has used. Each call counts. */
    readonly charge: (owner: CallerName, charge: Charge) => Effect.Effect<void, StorageError>
    /** Keeps a text of the operator by its digest, once. It is never deleted: many plans name it. */
    readonly keepText: (digest: string, text: string) => Effect.Effect<void, StorageError>
    /** Those of these texts that are kept, by their digests. */
    readonly keptTexts: (digests: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, string>, StorageError>
    /** What only the store knows of a plan that is to be told as a whole. Another owner's plan is not found. */
    readonly recorded: (owner: CallerName, id: PlanId) => Effect.Effect<Recorded, NotFound | StorageError>
    /** Whether what is stored outlives the process, so that the next process can resume plans. */
    readonly isDurable: boolean
    /** Whether the database takes writes, as a standby does not. Fails if it does not answer. */
    readonly isWritable: Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/PlanStore") {}

/** How many rows are read at once. */
const pageSize = 500

/** The stored frames of the plan behind the seq `after`, as many as are read at once: none if there are no more. */
export const framesBehind = (store: PlanStore["Service"], id: PlanId, after: number) =>
  Effect.map(store.events(id, after, pageSize), (rows) => rows.flatMap(toFrames).filter(({ seq }) => seq > after))
