import { Effect, Schema } from "effect"
import { AgentAuth, AgentName, HttpUrl, TimeoutMs } from "../peer/Agent.ts"
import { ToolEffect } from "../tool/TaskState.ts"

/** A server's own name of a tool. */
const McpToolName = Schema.String.check(Schema.isBetweenLength(1, 256))

/** Headers that the protocol or the connection sets, and `authorization`, which `auth` sets. */
const reservedHeader =
  /^(accept|authorization|connection|content-.*|cookie|expect|host|idempotency-key|keep-alive|last-event-id|mcp-.*|proxy-.*|te|trailer|traceparent|tracestate|transfer-encoding|upgrade|x-bowline-.*)$/i

/** Why the gateway does not send this header to others for a caller, who may set all but the `reserved` ones; undefined if it does. */
const headerProblem = (name: string, value: string, reserved: RegExp): string | undefined => {
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/.test(name)) return "Expected names of headers"
  if (reserved.test(name)) return `Expected no header ${name}: the gateway sets it`
  return /^[\x20-\x7e]{1,4096}$/.test(value) ? undefined : "Expected values of 1..4,096 printable ASCII characters"
}

/** Headers that a caller may set. Their values may be secrets. */
export const headersWithout = (reserved: RegExp) =>
  Schema.Record(Schema.String, Schema.String)
    .check(
      Schema.makeFilter((headers) => {
        const entries = Object.entries(headers)
        if (entries.length > 16) return "Expected at most 16 headers"
        const problems = entries.map(([name, value]) => headerProblem(name, value, reserved))
        return problems.find((problem) => problem !== undefined) ?? true
      })
    )
    .pipe(Schema.RedactedFromValue)

/** The digest of a tool's name, description and schemas. */
const ToolHash = Schema.String.check(
  Schema.isPattern(/^sha256:[0-9a-f]{64}$/u, { message: "Expected sha256:<64 lower-case hex digits>" })
)

/** What a plan gets of a server. */
const terms = {
  name: AgentName,
  allowed_tools: Schema.optionalKey(Schema.Array(McpToolName).check(Schema.isMaxLength(128))),
  approval: Schema.optionalKey(Schema.Literals(["never", "always"])),
  tool_timeout_ms: Schema.optionalKey(TimeoutMs),
  pinned_tools: Schema.optionalKey(Schema.Record(McpToolName, ToolHash).check(Schema.isMaxProperties(128))),
  effects: Schema.optionalKey(Schema.Record(McpToolName, ToolEffect).check(Schema.isMaxProperties(128))),
  required: Schema.optionalKey(Schema.Boolean),
  fetch_files: Schema.optionalKey(Schema.Boolean)
}

/**
 * What a plan gets of a server, wherever it is. With `allowed_tools` the plan gets no other tool of it. A tool that `pinned_tools` names is
 * offered only if its digest is the pinned one. `effects` say what calls of its tools do that must not be done twice. A plan fails without a server that is `required`. With
 * `fetch_files` the gateway fetches what the links in results lead to, and keeps it.
 */
export type ServerTerms = Schema.Struct.Type<typeof terms>

/** An MCP server at a URL, as a request or the configuration names it. */
export const McpServer = Schema.Struct({
  ...terms,
  url: HttpUrl,
  auth: AgentAuth.pipe(Schema.withDecodingDefaultKey(Effect.succeed({ type: "none" as const }))),
  headers: Schema.optionalKey(headersWithout(reservedHeader))
})
export type McpServer = typeof McpServer.Type

/** A string that a process gets: it ends at a NUL. */
const Word = Schema.String.check(
  Schema.isPattern(/^[^\0]{0,32768}$/u, { message: "Expected at most 32,768 characters without NUL" })
)
const VariableName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z_][A-Za-z0-9_]{0,255}$/u, { message: "Expected names of variables" })
)

/** An MCP server that the gateway starts, and speaks to over its standard input and output. Only the configuration may name one. */
export const McpCommand = Schema.Struct({
  ...terms,
  command: Word.check(Schema.isNonEmpty()),
  args: Schema.optionalKey(Schema.Array(Schema.RedactedFromValue(Word)).check(Schema.isMaxLength(256))),
  env: Schema.optionalKey(Schema.Record(VariableName, Schema.RedactedFromValue(Word)))
})
export type McpCommand = typeof McpCommand.Type

/** An MCP server as the configuration names it. */
export type ConfiguredMcpServer = McpServer | McpCommand
