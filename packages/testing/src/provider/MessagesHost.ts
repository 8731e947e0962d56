import { Schema } from "effect"
import { MessagesBody, toAsked } from "./internal/MessagesBody.ts"
import { toFailure, toMoves } from "./internal/MessagesEvent.ts"
import { scriptedHost } from "./internal/scriptedHost.ts"

/** What newer models answer to a request that ends with an answer of theirs. */
const prefill = "This model does not support assistant message prefill. The conversation must end with a user message."

/** A server of Anthropic's Messages, at `/v1`, played from a script. */
export const { asked, make } = scriptedHost({
  path: "/v1/messages",
  decode: Schema.decodeUnknownEffect(MessagesBody, { onExcessProperty: "error" }),
  toAsked,
  toMoves,
  toFailure,
  refusal: ({ headers }, { messages }) =>
    headers["anthropic-version"] === undefined
      ? "anthropic-version: header is required"
      : messages.at(-1)?.role === "assistant"
        ? prefill
        : undefined
})
