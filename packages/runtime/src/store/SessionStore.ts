import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessageId, NewMessage } from "@bowline/domain/session/Message"
import type { ExternalSessionId, Session, SessionId } from "@bowline/domain/session/Session"
import type { ListedSession } from "@bowline/domain/unstable/session/ListedSession"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect } from "effect"
import type { LeaseLost } from "./LeaseStore.ts"
import type { Page, PageRequest } from "./Page.ts"

/** A remote task that its peer has handed back: it waits for the next call of this skill, which continues it. */
export interface HandedBack {
  readonly agent: string
  readonly endpoint: string
  readonly skill: string
  readonly remote_task_id: string
  readonly remote_context_id: string | null
  /** What its plan's request named: the agent is that preset's, unless the preset has none of that name and endpoint. */
  readonly preset: string | null
}

/**
 * What a prompt says in place of the history that it leaves out. `text` is the summary of the last compaction. It covers the messages
 * up to `covered_seq` (0: none). `priors` are the prior summaries of callers that `text` does not cover yet, in the order in which they
 * came. `prior_seq` is the number of the last one, 0 if there never was one.
 */
export interface SessionSummary {
  readonly text: string | null
  readonly covered_seq: number
  readonly priors: ReadonlyArray<string>
  readonly prior_seq: number
}

/**
 * A new summary. It covers the messages up to `through`, and the `SessionSummary` that it was made from, whose `covered_seq` and
 * `prior_seq` it repeats. The messages that it covers are marked with `id`.
 */
export interface Compaction {
  readonly id: string
  readonly summary: string
  readonly through: MessageId
  readonly covered_seq: number
  readonly prior_seq: number
}

/** Where a page of sessions by their activity starts: behind the one that was active `at` (ISO 8601 in UTC), and then by their `ordinal`. */
export interface RecentCursor {
  readonly at: string
  readonly ordinal: number
}

export interface RecentRequest {
  readonly limit: number
  readonly cursor?: RecentCursor
}

export interface RecentPage {
  readonly items: ReadonlyArray<ListedSession>
  readonly next: RecentCursor | null
}

/** A session that no plan has made. `external_session_id` is a name that no session has. Times are ISO 8601 in UTC. */
export interface NewSession {
  readonly session_id: SessionId
  readonly external_session_id: ExternalSessionId
  readonly metadata: SessionMetadata
  readonly messages: ReadonlyArray<NewMessage>
  /** What stands in place of what was said before the messages. */
  readonly prior_summary?: string | undefined
  readonly at: string
  readonly expires_at: string
}

/** The plan of messages that no plan has said: there is none of this id. */
export const noPlan = PlanId.make("plan_00000000-0000-0000-0000-000000000000")

/** Texts that a caller has given to a session. */
export type SessionMetadata = Readonly<Record<string, string>>

/** Sessions and their histories. Plans write their part of a session through `PlanStore`. */
export class SessionStore extends Context.Service<
  SessionStore,
  {
    /** The session with this id: the gateway's, or the one that the owner gave. Another owner's session is not found. */
    readonly find: (owner: CallerName, id: string) => Effect.Effect<Session, NotFound | StorageError>
    /** The owner's sessions, newest first. */
    readonly list: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<ListedSession>, StorageError>
    /** The owner's sessions, the one that was active last first. One that becomes active meanwhile is on none of the later pages. */
    readonly recent: (owner: CallerName, page: RecentRequest) => Effect.Effect<RecentPage, StorageError>
    /** The whole history in order, with the messages that were compacted. `newestFirst` turns the order around. `withReverted` has what was reverted, too, for a record: oldest first. The cursor of a page is the `seq` that it begins behind. */
    readonly messages: (
      session: SessionId,
      page: PageRequest & { readonly newestFirst?: boolean; readonly withReverted?: boolean }
    ) => Effect.Effect<Page<Message>, StorageError>
    /** Makes a session without a plan. */
    readonly open: (owner: CallerName, session: NewSession) => Effect.Effect<void, StorageError>
    /** Appends messages that no plan has said, in one transaction that the session's fence guards. */
    readonly append: (
      session: SessionId,
      fence: number,
      messages: ReadonlyArray<NewMessage>,
      at: string
    ) => Effect.Effect<void, LeaseLost | StorageError>
    /** What the caller has given to the session last; nothing for a session that was given none, or that does not exist. */
    readonly metadata: (session: SessionId) => Effect.Effect<SessionMetadata, StorageError>
    readonly describe: (session: SessionId, metadata: SessionMetadata) => Effect.Effect<void, StorageError>
    /** One message of the history. */
    readonly message: (session: SessionId, id: MessageId) => Effect.Effect<Message, NotFound | StorageError>
    /** The history for a prompt: every message that is neither compacted nor reverted, in order, without a limit. */
    readonly history: (session: SessionId) => Effect.Effect<ReadonlyArray<Message>, StorageError>
    /** The summary that a prompt has before the history. It is empty for a session that does not exist. */
    readonly summary: (session: SessionId) => Effect.Effect<SessionSummary, StorageError>
    /**
     * The remote tasks that peers have handed back to the session: the newest one for each agent, endpoint and skill. The state of a
     * remote task is the state of its newest call. A call that was reverted does not count, and neither does a remote task that such a
     * call continued.
     */
    readonly handedBack: (session: SessionId) => Effect.Effect<ReadonlyArray<HandedBack>, StorageError>
    /**
     * Writes a compaction without a plan, in one transaction: the summary, and the mark on the messages that it covers. The
     * session's fence and `covered_seq` guard it: if either has changed, nothing is written. To store the same compaction again
     * succeeds.
     */
    readonly compact: (
      session: SessionId,
      fence: number,
      compaction: Compaction
    ) => Effect.Effect<void, LeaseLost | StorageError>
    /**
     * Drops the history after the message, in one transaction that the session's fence guards. A summary that covers dropped
     * messages is deleted: prompts have the messages again that it covered, and all prior summaries. Returns the remote tasks that
     * the dropped calls have left open with peers.
     */
    readonly revert: (
      session: SessionId,
      fence: number,
      to: MessageId
    ) => Effect.Effect<ReadonlyArray<HandedBack>, LeaseLost | NotFound | StorageError>
    /**
     * Deletes the session and all it owns. Returns `false`, and deletes nothing, while the session has a plan that is not over. A
     * plan that is created at the same time either prevents the deletion or gets a new session. Large data is hidden first, and then
     * deleted in small batches. Unless it is `telling`, it also stays while a delivery to a webhook of its plans is pending.
     */
    readonly delete: (session: SessionId, unless?: "telling") => Effect.Effect<boolean, StorageError>
    /**
     * Deletes one small batch: sessions, idempotency keys and known tools that have expired by `now` (ISO 8601 in UTC), and the rest of earlier
     * deletions. Returns whether there may be more. A session stays with a plan that is not over, and while a delivery to a webhook is pending. A plan that is created at the same
     * time either prevents the deletion or gets a new session. Of several replicas that sweep at once only one finds work.
     */
    readonly sweep: (now: string) => Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/SessionStore") {}
