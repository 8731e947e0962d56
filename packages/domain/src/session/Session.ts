import { Schema } from "effect"
import { AgentSummary } from "../peer/Agent.ts"
import { ExternalSessionId, SessionId } from "./SessionId.ts"

/** A durable conversation. Timestamps are ISO 8601 in UTC. */
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
