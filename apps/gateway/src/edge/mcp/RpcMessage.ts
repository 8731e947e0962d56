import type { McpError } from "@bowline/protocol/unstable/mcp/McpApi"
import { problems } from "@bowline/protocol/unstable/api/Problem"
import { Data, identity, Predicate } from "effect"
import type { Edge } from "../../http/RequestMiddleware.ts"

/** The codes of JSON-RPC 2.0, and those of MCP. */
export const code = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internal: -32603,
  resourceNotFound: -32002,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedRevision: -32022
} as const

/** Why a request has no result. `status` is that of the HTTP response. */
export class RpcError extends Data.TaggedError("RpcError")<{
  readonly code: number
  readonly message: string
  readonly status: number
  readonly data?: McpError["error"]["data"]
}> {}

export type Id = string | number

export interface Params {
  readonly [name: string]: unknown
}

export interface RpcRequest {
  readonly _tag: "Request"
  readonly id: Id
  readonly method: string
  readonly params: Params
  /** The client's name for the progress of the request, if it wants to know of it. */
  readonly progressToken: string | number | undefined
}

export interface RpcNotification {
  readonly _tag: "Notification"
  readonly method: string
  readonly params: Params
}

/** A response of the client. The gateway sends no requests, so nothing waits for it. */
interface RpcReply {
  readonly _tag: "Reply"
}

export type RpcMessage = RpcRequest | RpcNotification | RpcReply

const isId = (id: unknown): id is Id => typeof id === "string" || (typeof id === "number" && Number.isFinite(id))

const wrong = (message: string) => new RpcError({ code: code.invalidRequest, status: 400, message })

const tokenOf = ({ _meta: meta }: Params): Id | undefined => {
  const token = Predicate.hasProperty(meta, "progressToken") ? meta.progressToken : undefined
  return isId(token) ? token : undefined
}

/** Reads one message. An `id` that is neither a text nor a number is wrong, also null. */
export const decode = (value: unknown): RpcMessage | RpcError => {
  if (!Predicate.isReadonlyObject(value) || Array.isArray(value)) return wrong("Expected a JSON-RPC message: an object")
  const { id, jsonrpc, method, params = {} } = value as Params
  if (jsonrpc !== "2.0") return wrong('Wrong: jsonrpc. Expected "2.0"')
  if (method === undefined && ("result" in value || "error" in value)) return { _tag: "Reply" }
  if (typeof method !== "string" || method === "") return wrong("Wrong: method. Expected the name of a method")
  if (!Predicate.isReadonlyObject(params) || Array.isArray(params)) return wrong("Wrong: params. Expected an object")
  if (!("id" in value)) return { _tag: "Notification", method, params }
  if (!isId(id)) return wrong("Wrong: id. Expected a text or a number")
  return { _tag: "Request", id, method, params, progressToken: tokenOf(params) }
}

/** The id of what was sent, as far as there is one. */
export const idOf = (value: unknown): Id | null => {
  const id = Predicate.hasProperty(value, "id") ? value.id : null
  return isId(id) ? id : null
}

export const resultOf = (id: Id, result: object) => ({ jsonrpc: "2.0", id, result }) as const

export const errorOf = (id: Id | null, { code, data, message }: Pick<RpcError, "code" | "message" | "data">) =>
  ({ jsonrpc: "2.0", id, error: { code, message, ...(data !== undefined && { data }) } }) satisfies McpError

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
