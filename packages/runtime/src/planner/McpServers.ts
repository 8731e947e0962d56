import type { ServerTerms } from "@bowline/domain/mcp/McpServer"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { Effect, Result, type Scope } from "effect"
import { mayPass } from "../http/ExchangeError.ts"
import type { McpConnection, McpTool } from "../mcp/McpClient.ts"
import * as McpTools from "../tool/McpTools.ts"
import type { Tool } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { noticesOf, type MissingTool, type Notice } from "./MissingTools.ts"
import { PlannerError } from "./PlannerError.ts"

/** How long all servers have together to be connected and to list their tools. */
const timeLimit = "10 seconds"

/** Servers of the protocol's first SDKs write draft-07. */
const drafts = ["2020-12", "draft-07"] as const

/** The longest description of a tool: the model reads it in every step. */
const maxDescription = 4_096

/** A server whose tools a plan may get. */
export interface OfferedServer {
  readonly terms: ServerTerms
  readonly connect: Effect.Effect<McpConnection, PeerError, Scope.Scope>
}

/** What a server brings to a plan: its tools, or nothing; and what the caller should know. */
export interface Found {
  readonly server: string
  readonly isReached: boolean
  readonly tools: ReadonlyArray<Tool>
  readonly notices: ReadonlyArray<Notice>
}

const late = new PeerError({ reason: new Unreachable({ message: "The server did not list its tools within 10 s" }) })

const messageOf = (server: string, { message }: PeerError): string =>
  `The MCP server ${server} cannot be reached. ${message}`

/** Why the plan does not get a tool, if so. */
const obstacle = ({ pinned_tools }: ServerTerms, tool: McpTool): string | undefined => {
  const pinned = pinned_tools?.[tool.name]
  if (pinned !== undefined && pinned !== McpTools.hashOf(tool)) return "Its description or a schema has changed"
  if ((tool.description ?? "").length > maxDescription) return `Its description is longer than ${maxDescription}`
  const input = ToolSchema.problem(tool.inputSchema, drafts)
  if (input !== undefined) return `Its input schema cannot be used. ${input}`
  const output = tool.outputSchema === null ? undefined : ToolSchema.problem(tool.outputSchema, drafts)
  return output === undefined ? undefined : `Its output schema cannot be used. ${output}`
}

const toolsOf = Effect.fnUntraced(function* (
  terms: ServerTerms,
  connection: McpConnection,
  listed: ReadonlyArray<McpTool>,
  check: McpTools.CheckOutput
): Effect.fn.Return<Found> {
  const { allowed_tools, name } = terms
  const allowed = listed.filter((tool) => allowed_tools?.includes(tool.name) ?? true)
  const missing: Array<MissingTool> = []
  for (const tool of allowed_tools ?? []) {
    if (!allowed.some((one) => one.name === tool)) missing.push({ tool, reason: "The server does not list it" })
  }
  const tools: Array<Tool> = []
  for (const tool of allowed) {
    const reason = obstacle(terms, tool)
    if (reason === undefined) tools.push(McpTools.fromTool(terms, connection, tool, check))
    else missing.push({ tool: tool.name, reason })
    // To look at schemas takes time, in which others are served.
    yield* Effect.yieldNow
  }
  return { server: name, isReached: true, tools, notices: noticesOf("server", name, missing) }
})

/**
 * Connects to the servers side by side, for as long as the scope, and lists their tools. One that cannot be reached costs its tools, and the
 * plan only if it is `required`.
 */
export const connectAll = Effect.fnUntraced(function* (
  servers: ReadonlyArray<OfferedServer>,
  check: McpTools.CheckOutput
): Effect.fn.Return<ReadonlyArray<Found>, PlannerError, Scope.Scope> {
  const list = ({ connect }: OfferedServer) =>
    Effect.gen(function* () {
      const connection = yield* connect
      return { connection, listed: yield* connection.tools }
    }).pipe(Effect.timeoutOrElse({ duration: timeLimit, orElse: () => Effect.fail(late) }), Effect.result)
  const results = yield* Effect.forEach(
    servers,
    (server) => Effect.map(list(server), (result) => ({ terms: server.terms, result })),
    {
      concurrency: "unbounded"
    }
  )
  return yield* Effect.forEach(results, ({ result, terms }) => {
    const { name } = terms
    if (Result.isSuccess(result)) return toolsOf(terms, result.success.connection, result.success.listed, check)
    const message = messageOf(name, result.failure)
    const { reason } = result.failure
    const data = { server: name, reason: reason._tag }
    if (terms.required === true) {
      return new PlannerError({ code: "mcp_unreachable", message, isRetryable: mayPass(reason), data })
    }
    const notice: Notice = { event: "notice", data: { code: "mcp_unreachable", message, data } }
    return Effect.as(Effect.annotateLogs(Effect.logWarning("mcp_unreachable"), data), {
      server: name,
      isReached: false,
      tools: [],
      notices: [notice]
    })
  })
})
