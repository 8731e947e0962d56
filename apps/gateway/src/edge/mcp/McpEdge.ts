import { problems } from "@bowline/protocol/unstable/api/Problem"
import { identity } from "effect"
import type { Edge } from "../../http/RequestMiddleware.ts"
import { code, errorOf } from "./RpcMessage.ts"

/** What is refused before it is read as JSON-RPC: every error at `/mcp` is one of JSON-RPC, without an id. */
export const edge: Edge = {
  // Like the router, this ignores case and repeated slashes.
  path: /^\/+mcp(?:[/?]|$)/i,
  refusal: ({ code: name, detail }, { request_id }) => {
    const { retryable, status } = problems[name]
    const isCallers = status < 500 && status !== 401 && status !== 429
    const error = {
      code: isCallers ? code.invalidRequest : code.internal,
      message: detail,
      data: { code: name, retryable, request_id }
    }
    return { body: errorOf(null, error), contentType: "application/json" }
  },
  adapt: identity
}
