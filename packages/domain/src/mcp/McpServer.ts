import { Effect, Schema } from "effect"
import { AgentAuth, AgentName, HttpUrl, TimeoutMs } from "../peer/Agent.ts"

/** A server's own name of a tool. */
const McpToolName = Schema.String.check(Schema.isBetweenLength(1, 256))

/** Headers that the protocol or the connection sets, and `authorization`, which `auth` sets. */
const reservedHeader =
  /^(accept|authorization|connection|content-.*|cookie|expect|host|idempotency-key|keep-alive|last-event-id|mcp-.*|proxy-.*|te|trailer|traceparent|tracestate|transfer-encoding|upgrade)$/i

const headerProblem = (name: string, value: string): string | undefined => {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/.test(name)) return "Expected names of headers"
  if (reservedHeader.test(name)) return `Expected no header ${name}: the gateway sets it`
  return /^[\x20-\x7e]{1,4096}$/.test(value) ? undefined : "Expected values of 1..4,096 printable ASCII characters"
}

/** The values may be secrets. */
const Headers = Schema.Record(Schema.String, Schema.String)
  .check(
    Schema.makeFilter((headers) => {
      const entries = Object.entries(headers)
      if (entries.length > 16) return "Expected at most 16 headers"
      return entries.map(([name, value]) => headerProblem(name, value)).find((problem) => problem !== undefined) ?? true
    })
  )
  .pipe(Schema.RedactedFromValue)

/** The digest of a tool's name, description and schemas. */
const ToolHash = Schema.String.check(
  Schema.isPattern(/^sha256:[0-9a-f]{64}$/u, { message: "Expected sha256:<64 lower-case hex digits>" })
)

/**
 * An MCP server as a request names it. With `allowed_tools` the plan gets no other tool of it. `approval` says of the calls of its tools
 * what a skill's says of the skill's. A tool that `pinned_tools` names is a changed one if its digest is not the pinned one. A plan fails
 * without a server that is `required`.
 */
export const McpServer = Schema.Struct({
  name: AgentName,
  url: HttpUrl,
  auth: AgentAuth.pipe(Schema.withDecodingDefaultKey(Effect.succeed({ type: "none" as const }))),
  allowed_tools: Schema.optionalKey(Schema.Array(McpToolName).check(Schema.isMaxLength(128))),
  headers: Schema.optionalKey(Headers),
  approval: Schema.optionalKey(Schema.Literals(["never", "always"])),
  tool_timeout_ms: Schema.optionalKey(TimeoutMs),
  pinned_tools: Schema.optionalKey(Schema.Record(McpToolName, ToolHash)),
  required: Schema.optionalKey(Schema.Boolean)
})
export type McpServer = typeof McpServer.Type
