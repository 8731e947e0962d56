import { Headers } from "effect/http"
import type { Edge } from "../../http/RequestMiddleware.ts"
import * as OpenAiError from "./OpenAiError.ts"

/** What OpenAI's clients expect of every path under `/v1`: their errors, and that a key may come in `api-key`, too. */
export const edge: Edge = {
  // Like the router, this ignores case and repeated slashes.
  path: /^\/+v1(?:[/?]|$)/i,
  refusal: OpenAiError.fromRefused,
  adapt: (request) => {
    const { authorization, "api-key": key } = request.headers
    return key === undefined || authorization !== undefined
      ? request
      : request.modify({ headers: Headers.set(request.headers, "authorization", `Bearer ${key}`) })
  }
}
