import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { Session } from "@bowline/domain/session/Session"
import type { SessionId } from "@bowline/domain/session/SessionId"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** A remote task that waits for the caller: the next call of this skill goes on with it. */
export interface HandedBack {
  readonly agent: string
  readonly endpoint: string
  readonly skill: string
  readonly remote_task_id: string
  readonly remote_context_id: string | null
}

/** Sessions and their histories, to read. They are written by plans only: see `PlanStore`. */
export class SessionStore extends Context.Service<
  SessionStore,
  {
    /** By the gateway's id, or by the name that the owner gave it. Somebody else's is not found. */
    readonly find: (owner: CallerName, id: string) => Effect.Effect<Session, NotFound | StorageError>
    /** Newest first. */
    readonly list: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<Session>, StorageError>
    /** The whole history in order, what was compacted too. */
    readonly messages: (session: SessionId, page: PageRequest) => Effect.Effect<Page<Message>, StorageError>
    /** What goes into a prompt: every message that is neither compacted nor reverted, in order, without a limit. */
    readonly history: (session: SessionId) => Effect.Effect<ReadonlyArray<Message>, StorageError>
    /**
     * What peers have handed back to the session. For each agent, endpoint and skill its newest task decides that has a remote
     * one: when that has ended, there is nothing to go on with.
     */
    readonly handedBack: (session: SessionId) => Effect.Effect<ReadonlyArray<HandedBack>, StorageError>
  }
>()("@bowline/runtime/session/SessionStore") {}
