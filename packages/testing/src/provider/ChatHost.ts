import { Schema } from "effect"
import { ChatBody, toAsked } from "./internal/ChatBody.ts"
import { toMoves } from "./internal/ChatChunk.ts"
import { scriptedHost } from "./internal/scriptedHost.ts"

/** A server of OpenAI's Chat Completions, at `/v1`, played from a script. */
export const { asked, make } = scriptedHost({
  path: "/v1/chat/completions",
  decode: Schema.decodeUnknownEffect(ChatBody),
  toAsked,
  toMoves,
  toFailure: (error) => ({ error })
})
