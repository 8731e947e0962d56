import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import type { Session, SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect } from "effect"
import type { LeaseLost } from "./LeaseStore.ts"
import type { Page, PageRequest } from "./Page.ts"

/** A remote task that waits for the caller: the next call of this skill continues it. */
export interface HandedBack {
  readonly agent: string
  readonly endpoint: string
  readonly skill: string
  readonly remote_task_id: string
  readonly remote_context_id: string | null
}

/**
 * What stands in a prompt for what is not in its history. `text` is the summary of the last compaction, which says what the
 * messages up to `covered_seq` say (0: none). `priors` is what callers have said of still earlier history, and what `text` does not
 * say yet, in the order in which it came; `prior_seq` is the number of the last of them that there is, 0 if there never was one.
 */
export interface SessionSummary {
  readonly text: string | null
  readonly covered_seq: number
  readonly priors: ReadonlyArray<string>
  readonly prior_seq: number
}

/**
 * A new summary. It says all that is in the messages up to `through`, and all that was in the `SessionSummary` that it was made of:
 * `covered_seq` and `prior_seq` are those of it. `id` is what its messages are marked with.
 */
export interface Compaction {
  readonly id: string
  readonly summary: string
  readonly through: MessageId
  readonly covered_seq: number
  readonly prior_seq: number
}

/** Sessions and their histories. What plans write of them is written through `PlanStore`. */
export class SessionStore extends Context.Service<
  SessionStore,
  {
    /** By the gateway's id, or by the name that the owner gave it. Somebody else's is not found. */
    readonly find: (owner: CallerName, id: string) => Effect.Effect<Session, NotFound | StorageError>
    /** Newest first. */
    readonly list: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<Session>, StorageError>
    /** The whole history in order, what was compacted too. */
    readonly messages: (session: SessionId, page: PageRequest) => Effect.Effect<Page<Message>, StorageError>
    /** One message of the history. */
    readonly message: (session: SessionId, id: MessageId) => Effect.Effect<Message, NotFound | StorageError>
    /** What goes into a prompt: every message that is neither compacted nor reverted, in order, without a limit. */
    readonly history: (session: SessionId) => Effect.Effect<ReadonlyArray<Message>, StorageError>
    /** What goes into a prompt before the history. Of a session that there is not it is empty. */
    readonly summary: (session: SessionId) => Effect.Effect<SessionSummary, StorageError>
    /**
     * What peers have handed back to the session: for each agent, endpoint and skill the newest remote task that still waits, which
     * the newest of its own calls says. Calls that were reverted do not count, and neither does a remote task that one of them went
     * on with.
     */
    readonly handedBack: (session: SessionId) => Effect.Effect<ReadonlyArray<HandedBack>, StorageError>
    /**
     * Writes a compaction without a plan, in one transaction: the summary, and the mark on what it covers. It is guarded by the
     * session's fence, and by `covered_seq`: where either is another one by now, nothing is written. Repeating what has been
     * stored succeeds.
     */
    readonly compact: (
      session: SessionId,
      fence: number,
      compaction: Compaction
    ) => Effect.Effect<void, LeaseLost | StorageError>
    /**
     * Drops what came behind the message from the history, in one transaction that is guarded by the session's fence. A summary that covers
     * more than what is left goes with it, and what it covered is in prompts again, with all that callers have said of earlier
     * history. Gives the remote tasks that the dropped calls have left with peers.
     */
    readonly revert: (
      session: SessionId,
      fence: number,
      to: MessageId
    ) => Effect.Effect<ReadonlyArray<HandedBack>, LeaseLost | NotFound | StorageError>
    /**
     * Deletes the session and all it owns, unless it has a plan that is not over: then it says `false`, and nothing happens. A plan
     * that is created at the same time is either seen, or gets a new session. What there is very much of goes in small batches, after
     * nobody can see it any more.
     */
    readonly delete: (session: SessionId) => Effect.Effect<boolean, StorageError>
    /**
     * Deletes one small batch of the sessions and of the idempotency keys that have expired by `now` (ISO 8601 in UTC), and of what deletions
     * have left, and says whether there may be more. A session with a plan that is not over stays; a plan that comes at the same time wins, or gets a new session. Of
     * several replicas that sweep at once one does, and the others have nothing to do.
     */
    readonly sweep: (now: string) => Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/SessionStore") {}
