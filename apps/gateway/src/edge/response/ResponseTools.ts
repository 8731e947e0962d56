import type { ClientTool } from "@bowline/domain/plan/PlanRequest"
import { McpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { fromSchema } from "@bowline/protocol/unstable/api/Issues"
import type { Issue } from "@bowline/protocol/unstable/api/Problem"
import { Option, Result, Schema } from "effect"
import * as ChatTools from "../openai/ChatTools.ts"

const Json = Schema.Record(Schema.String, Schema.Json)
type Json = typeof Json.Type

const given = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** OpenAI's name of an MCP server. */
const McpTool = Schema.Struct({
  server_label: Schema.String,
  server_url: Schema.String,
  authorization: given(Schema.String),
  headers: given(Schema.Record(Schema.String, Schema.String)),
  allowed_tools: given(
    Schema.Union([
      Schema.Array(Schema.String),
      Schema.Struct({ tool_names: Schema.Array(Schema.String), read_only: Schema.optionalKey(Schema.Literal(false)) })
    ]).annotate({ message: "Expected the names of tools, as a list or in tool_names" })
  ),
  require_approval: given(
    Schema.Literals(["always", "never"]).annotate({
      message: 'Expected "always" or "never", for all tools of the server'
    })
  )
})

/** The fields of `McpServer` under their names here. */
const names = [
  [/^name\b/, "server_label"],
  [/^url\b/, "server_url"],
  [/^auth\b.*/, "authorization"],
  [/^approval\b/, "require_approval"]
] as const

/** The name in this body of a field of the server. */
export const fieldOf = (path: string): string =>
  names.reduce((name, [pattern, here]) => name.replace(pattern, here), path)

const decodeFunction = Schema.decodeUnknownResult(ChatTools.Callable, { errors: "all" })
const decodeTool = Schema.decodeUnknownResult(McpTool, { errors: "all" })
const decodeServer = Schema.decodeUnknownResult(McpServer, { errors: "all" })

const serverOf = (tool: typeof McpTool.Type) => {
  const { allowed_tools, authorization, headers, require_approval, server_label, server_url } = tool
  const allowed = allowed_tools !== undefined && allowed_tools !== null && "tool_names" in allowed_tools
  return {
    name: server_label,
    url: server_url,
    ...(typeof authorization === "string" && { auth: { type: "bearer", token: authorization } }),
    ...(headers !== undefined && headers !== null && { headers }),
    ...(allowed_tools !== undefined &&
      allowed_tools !== null && { allowed_tools: allowed ? allowed_tools.tool_names : allowed_tools }),
    ...(typeof require_approval === "string" && { approval: require_approval })
  }
}

type Read =
  | { readonly _tag: "Server"; readonly server: McpServer }
  | { readonly _tag: "Tool"; readonly tool: ClientTool }

const readTool = (tool: Json, index: number): Result.Result<Read, ReadonlyArray<Issue>> => {
  const path = `tools[${index}]`
  if (tool["type"] === "function") {
    return Result.mapBoth(decodeFunction(tool), {
      onFailure: (error) => fromSchema(error).map((issue) => ({ ...issue, path: `${path}.${issue.path}` })),
      onSuccess: (callable): Read => ({ _tag: "Tool", tool: ChatTools.toolOf(callable) })
    })
  }
  if (tool["type"] !== "mcp") {
    const message = 'Expected "function" or "mcp". Agents stand in a preset, or in bowline.agents'
    return Result.fail([{ path: `${path}.type`, message }])
  }
  if (typeof tool["connector_id"] === "string") {
    return Result.fail([
      { path: `${path}.connector_id`, message: "Expected a server_url: the gateway has no connectors" }
    ])
  }
  const named = (error: Schema.SchemaError) =>
    fromSchema(error).map((issue) => ({ path: `${path}.${fieldOf(issue.path)}`, message: issue.message }))
  return decodeTool(tool).pipe(
    Result.flatMap((tool) => decodeServer(serverOf(tool))),
    Result.mapBoth({ onFailure: named, onSuccess: (server): Read => ({ _tag: "Server", server }) })
  )
}

/** What `tools` name: MCP servers, and functions of the client. */
export interface Named {
  readonly servers: ReadonlyArray<McpServer>
  readonly tools: ReadonlyArray<ClientTool>
}

/** The index in `tools` of the nth one of this type. */
export const placeOf = (tools: ReadonlyArray<Json>, type: "function" | "mcp", nth: number): number =>
  tools.map((tool, index) => ({ type: tool["type"], index })).filter((tool) => tool.type === type)[nth]?.index ?? nth

/** Fails with everything that is wrong, tool by tool. */
export const read = (tools: ReadonlyArray<Json>): Result.Result<Named, ReadonlyArray<Issue>> => {
  const results = tools.map(readTool)
  const issues = results.flatMap((result) => Option.getOrElse(Result.getFailure(result), () => []))
  if (issues.length > 0) return Result.fail(issues)
  const named = results.flatMap((result) => Option.toArray(Result.getSuccess(result)))
  return Result.succeed({
    servers: named.flatMap((one) => (one._tag === "Server" ? [one.server] : [])),
    tools: named.flatMap((one) => (one._tag === "Tool" ? [one.tool] : []))
  })
}

const functionFields = { description: null, parameters: null, strict: null }

/** What a response shows of a tool: its secrets stay here, and a function has each of its fields. */
export const shown = (tool: Json): Json => {
  const { authorization: _, headers: __, ...rest } = tool
  return rest["type"] === "function" ? { ...functionFields, ...rest } : rest
}
