import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { Session } from "@bowline/domain/session/Session"
import type { SessionId } from "@bowline/domain/session/SessionId"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect } from "effect"
import type { Page, PageRequest } from "./Page.ts"

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
  }
>()("@bowline/runtime/session/SessionStore") {}
