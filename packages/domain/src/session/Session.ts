import { Schema } from "effect"
import { AgentSummary } from "../peer/Agent.ts"

/** The gateway's own name of a session: `session_` and a UUID. */
export const SessionId = Schema.String.check(Schema.isPattern(/^session_[0-9a-f-]{36}$/u)).pipe(
  Schema.brand("SessionId")
)
export type SessionId = typeof SessionId.Type

/** The caller's own name of a session, unique per caller: 1..200 printable ASCII characters. */
export const ExternalSessionId = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,200}$/u, { message: "Expected 1..200 printable ASCII characters" })
)
export type ExternalSessionId = typeof ExternalSessionId.Type

/**
 * A durable conversation. Timestamps are ISO 8601 in UTC.
 *
 * @example
 * ```ts
 * import { Session } from "@bowline/domain/session/Session"
 * import { Schema } from "effect"
 *
 * export const decodeSession = Schema.decodeUnknownEffect(Session)
 * ```
 */
export const Session = Schema.Struct({
  session_id: SessionId,
  external_session_id: Schema.NullOr(ExternalSessionId),
  created_at: Schema.String,
  last_active_at: Schema.String,
  expires_at: Schema.String,
  summary: Schema.NullOr(Schema.String),
  agents: Schema.Array(AgentSummary),
  message_count: Schema.Int
})
export type Session = typeof Session.Type

/**
 * What a compaction has done: the summary that takes the place of `messages_compacted` messages, and what the prompt is
 * estimated to be in tokens before it and after.
 */
export const Compacted = Schema.Struct({
  summary: Schema.String,
  tokens_before: Schema.Int,
  tokens_after: Schema.Int,
  messages_compacted: Schema.Int
})
export type Compacted = typeof Compacted.Type
