import { Predicate } from "effect"
import { code, type Params, RpcError, type RpcRequest } from "./RpcMessage.ts"

/** The newest revision. Each of its requests says for itself which revision it speaks, and what its client can do. */
export const modern = "2026-07-28"

/** The revisions that begin with `initialize`, the newest one first. */
const withInitialize = ["2025-11-25", "2025-06-18", "2025-03-26"] as const

export const revisions = [modern, ...withInitialize] as const
export type Revision = (typeof revisions)[number]

const oldest = "2025-03-26"

const isRevision = (text: unknown): text is Revision => revisions.some((revision) => revision === text)

const key = (name: string) => `io.modelcontextprotocol/${name}`

interface Headers {
  readonly [name: string]: string | undefined
}

/** What is known of a request besides its method and parameters. */
export interface Spoken {
  readonly revision: Revision
  /** What the client can do, as far as the request itself says it. */
  readonly capabilities: Params
}

const mismatch = (message: string) => new RpcError({ code: code.headerMismatch, status: 400, message })

const unsupported = (requested: string) =>
  new RpcError({
    code: code.unsupportedRevision,
    status: 400,
    message: `The gateway does not speak this revision: expected one of ${revisions.join(", ")}`,
    data: { supported: revisions, requested: requested.slice(0, 64) }
  })

const lacks = (name: string, expected: string) =>
  new RpcError({
    code: code.invalidParams,
    status: 400,
    message: `Wrong: params._meta["${key(name)}"]. Expected ${expected}`
  })

const metaOf = ({ params }: Pick<RpcRequest, "params">): Params => {
  const { _meta: meta } = params
  return Predicate.isReadonlyObject(meta) ? meta : {}
}

/** A text that is no header value is sent as `=?base64?…?=`. */
const decodeHeader = (value: string | undefined): string | undefined => {
  const encoded = value === undefined ? undefined : /^=\?base64\?(.*)\?=$/.exec(value)?.[1]
  return encoded === undefined ? value : Buffer.from(encoded, "base64").toString("utf8")
}

/** What a request is about, by its method. */
const nameFields: Readonly<Record<string, string>> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri"
}

/** The newest revision repeats the method and the name of what it is about in headers, for what stands between client and server. */
const headersDiffer = (headers: Headers, { method, params }: RpcRequest): RpcError | undefined => {
  if (headers["mcp-method"] !== method) return mismatch("Wrong: Mcp-Method. Expected the method of the body")
  const named = Object.hasOwn(nameFields, method) ? nameFields[method] : undefined
  if (named !== undefined && decodeHeader(headers["mcp-name"]) !== params[named]) {
    return mismatch(`Wrong: Mcp-Name. Expected params.${named} of the body`)
  }
  const isOfTask = method.startsWith("tasks/") && headers["mcp-name"] !== undefined
  if (isOfTask && decodeHeader(headers["mcp-name"]) !== params["taskId"]) {
    return mismatch("Wrong: Mcp-Name. Expected params.taskId of the body")
  }
  return undefined
}

const modernOf = (headers: Headers, request: RpcRequest): Spoken | RpcError => {
  const header = headers["mcp-protocol-version"]
  const meta = metaOf(request)
  const { [key("protocolVersion")]: claimed, [key("clientCapabilities")]: capabilities } = meta
  if (header === undefined) return mismatch("Expected the header MCP-Protocol-Version")
  if (typeof claimed !== "string") return lacks("protocolVersion", `"${modern}"`)
  if (claimed !== header) return mismatch(`Wrong: MCP-Protocol-Version. Expected that of params._meta`)
  if (claimed !== modern) return unsupported(claimed)
  if (!Predicate.isReadonlyObject(capabilities) || Array.isArray(capabilities)) {
    return lacks("clientCapabilities", "an object")
  }
  return headersDiffer(headers, request) ?? { revision: modern, capabilities }
}

/** The revision that `initialize` agrees on: the client's, or the newest that begins so. */
export const agreed = (offered: unknown): Revision =>
  withInitialize.find((revision) => revision === offered) ?? withInitialize[0]

/** Which revision a request speaks. The oldest one has no header that says so. */
export const spokenBy = (headers: Headers, request: RpcRequest): Spoken | RpcError => {
  const header = headers["mcp-protocol-version"]
  const claims = key("protocolVersion") in metaOf(request)
  if (request.method === "initialize" && !claims) {
    return { revision: agreed(request.params["protocolVersion"]), capabilities: {} }
  }
  if (claims || header === modern) return modernOf(headers, request)
  if (header === undefined) return { revision: oldest, capabilities: {} }
  return isRevision(header) ? { revision: header, capabilities: {} } : unsupported(header)
}

/** Whether requests may come as a list of them: only the oldest revision has it. */
export const hasBatches = (headers: Headers): boolean => (headers["mcp-protocol-version"] ?? oldest) === oldest

/** Whether tools have an `outputSchema`, and results `structuredContent`. */
export const hasStructure = (revision: Revision): boolean => revision !== oldest
