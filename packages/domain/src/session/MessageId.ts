import { Schema } from "effect"

/** `msg_` and a UUID. */
export const MessageId = Schema.String.check(
  Schema.isPattern(/^msg_[0-9a-f-]{36}$/u, { message: "Expected the message_id of a message" })
).pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type
