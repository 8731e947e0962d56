import { Schema } from "effect"

/** The gateway's own name of a session: `session_` and a UUID. */
export const SessionId = Schema.String.check(Schema.isPattern(/^session_[0-9a-f-]{36}$/u)).pipe(
  Schema.brand("SessionId")
)
export type SessionId = typeof SessionId.Type

/** The caller's own name of a session, unique per caller: 1..200 printable ASCII characters. */
export const ExternalSessionId = Schema.String.check(
  Schema.isPattern(/^[\x20-\x7e]{1,200}$/u, { message: "Expected 1..200 printable ASCII characters" })
).pipe(Schema.brand("ExternalSessionId"))
export type ExternalSessionId = typeof ExternalSessionId.Type
