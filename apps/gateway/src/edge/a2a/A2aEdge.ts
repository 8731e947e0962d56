import { A2aError, type ErrorName } from "@bowline/a2a/unstable/server/A2aError"
import { problems } from "@bowline/protocol/unstable/api/Problem"
import { type Refused, type RefusalBody, saidOf } from "../../http/Refusals.ts"
import type { Edge } from "../../http/RequestMiddleware.ts"
import { type Binding, rest, rpc } from "./Binding.ts"

const errorOf = ({ code }: Refused): ErrorName => {
  switch (code) {
    case "invalid_request":
      return "InvalidParams"
    case "forbidden":
    case "method_not_allowed":
    case "payload_too_large":
    case "request_timeout":
    case "head_too_large":
      return "InvalidRequest"
    case "unsupported_media_type":
      return "ContentTypeNotSupported"
    case "not_found":
      return "MethodNotFound"
    case "hops_exceeded":
      return "UnsupportedOperation"
    default:
      return "Internal"
  }
}

/** A refusal of the gateway as an error of A2A. */
export const toA2aError = (refused: Refused): A2aError => {
  const { code, issues = [], plan_id } = refused
  const { retryable, status } = problems[code]
  return new A2aError({
    error: errorOf(refused),
    message: saidOf(refused),
    metadata: { code, retryable: String(retryable), ...(plan_id !== undefined && { plan_id }) },
    violations: issues,
    status: code === "hops_exceeded" ? 400 : status
  })
}

/** How refusals are written to a client of this binding. */
export const refusalIn =
  (binding: Binding) =>
  (refused: Refused): RefusalBody => {
    const failed = toA2aError(refused)
    const { contentType } = binding
    return { body: binding.failure(failed), contentType, status: binding.failureStatus(failed) }
  }

const edge = (path: RegExp, binding: Binding): Edge => ({
  path,
  refusal: refusalIn(binding),
  adapt: (request) => request
})

/** The bindings by their paths, for what is refused before its request is read. Like the router, they ignore case and repeated slashes. */
export const edges: ReadonlyArray<Edge> = [
  edge(/^\/+a2a(?:\/+agents\/+[^/?]+)?\/*(?:\?|$)/i, rpc("1.0", null)),
  edge(/^\/+a2a(?:\/+agents\/+[^/?]+)?\/+v1(?:[/?]|$)/i, rest("0.3")),
  edge(/^\/+a2a\//i, rest("1.0"))
]
