import { Schema } from "effect"
import { ResponsesBody, toAsked } from "./internal/ResponsesBody.ts"
import { toMoves } from "./internal/ResponsesEvent.ts"
import { scriptedHost } from "./internal/scriptedHost.ts"

/** A server of OpenAI's Responses, at `/v1`, played from a script. Usage after the finish is sent with the finish. */
export const { asked, make } = scriptedHost({
  path: "/v1/responses",
  decode: Schema.decodeUnknownEffect(ResponsesBody, { onExcessProperty: "error" }),
  toAsked,
  toMoves,
  toFailure: (error) => ({ error })
})
