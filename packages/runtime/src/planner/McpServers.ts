import type { ServerTerms } from "@bowline/domain/unstable/mcp/McpServer"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { Effect, Result, type Scope } from "effect"
import { mayPass } from "../http/ExchangeError.ts"
import type { McpConnection, McpTool } from "../remote/McpClient.ts"
import { knownToolId } from "../store/InboxStore.ts"
import * as McpTools from "../tool/McpTools.ts"
import type { Tool, ToolTrust } from "../tool/Tool.ts"
import * as ToolSchema from "../tool/ToolSchema.ts"
import { noticesOf, type MissingTool, type Notice } from "./MissingTools.ts"
import { PlannerError } from "./PlannerError.ts"

/** How long all servers have together to be connected and to list their tools. */
const timeLimit = "10 seconds"

/** The longest name and the longest description of a tool: the model reads both in every step. */
const maxName = 256
const maxDescription = 4_096

/** A server whose tools a plan may get. */
export interface OfferedServer {
  readonly terms: ServerTerms
  /** Where it is: by this and their names callers know its tools. */
  readonly address: string
  /** What calls connect to where a request says so: the caller has to be allowed the hosts. */
  readonly urls: ReadonlyArray<string>
  readonly connect: Effect.Effect<McpConnection, PeerError, Scope.Scope>
  /** Whether calls wait for the answers to what the server asks. */
  readonly answers: boolean
}

/** What a server brings to a plan: its tools, or nothing; and what the caller should know of it. */
export interface Found {
  readonly server: OfferedServer
  /** Undefined if the server was not reached. */
  readonly connection: McpConnection | undefined
  readonly tools: ReadonlyArray<Tool>
  readonly notices: ReadonlyArray<Notice>
  /** How often it has changed its tools. */
  readonly changes: number
}

/** What the tools of a plan's servers are made with. */
export interface Given {
  readonly check: McpTools.CheckOutput
  /** Is told what a server lists, or why it does not. */
  readonly heardServer: (server: OfferedServer, told: object) => void
  /** Whether calls of this tool are made without asking anybody. */
  readonly isUnattended: (tool: Pick<Tool, "agent" | "approval" | "name" | "skill">) => boolean
}

const late = new PeerError({ reason: new Unreachable({ message: "The server did not list its tools within 10 s" }) })

/** A pin takes the place of the digest that the caller knows. Whether an unpinned tool has changed is not known before the caller meets it. */
const trustOf = ({ address, terms }: OfferedServer, tool: McpTool): ToolTrust => {
  const digest = McpTools.hashOf(tool)
  const { pinned_tools: pins = {} } = terms
  // The server chooses the name: `constructor` is one that every object has.
  const pinned = Object.hasOwn(pins, tool.name) ? pins[tool.name] : undefined
  return pinned === undefined
    ? { digest, known: knownToolId(address, tool.name), isChanged: false }
    : { digest, known: null, isChanged: digest !== pinned }
}

/** Why the plan does not get a tool, if so. */
const obstacle = (terms: ServerTerms, tool: McpTool, trust: ToolTrust, given: Given): string | undefined => {
  const { approval, name: agent } = terms
  const asked = { name: McpTools.nameOf(terms, tool), agent, skill: tool.name, approval }
  if (trust.isChanged && given.isUnattended(asked)) return "Its description or a schema has changed"
  if (tool.name === "" || tool.name.length > maxName) return `Its name does not have 1..${maxName} characters`
  if ((tool.description ?? "").length > maxDescription) return `Its description is longer than ${maxDescription}`
  const input = ToolSchema.problem(tool.inputSchema)
  if (input !== undefined) return `Its input schema cannot be used. ${input}`
  const output = tool.outputSchema === null ? undefined : ToolSchema.problem(tool.outputSchema)
  return output === undefined ? undefined : `Its output schema cannot be used. ${output}`
}

/** What a server brings, of what it lists. */
export const toolsOf = Effect.fnUntraced(function* (
  server: OfferedServer,
  connection: McpConnection,
  listed: ReadonlyArray<McpTool>,
  given: Given
): Effect.fn.Return<Found> {
  const { answers, terms, urls } = server
  const { check, heardServer } = given
  heardServer(server, { description: connection.description ?? null, tools: listed })
  const { allowed_tools, effects = {}, name } = terms
  const allowed = listed.filter((tool) => allowed_tools?.includes(tool.name) ?? true)
  const missing: Array<MissingTool> = []
  // A name that is written wrong would leave a tool without its effect, and nobody would know.
  for (const tool of new Set([...(allowed_tools ?? []), ...Object.keys(effects)])) {
    if (!listed.some((one) => one.name === tool)) missing.push({ tool, reason: "The server does not list it" })
  }
  const tools: Array<Tool> = []
  for (const tool of allowed) {
    const trust = trustOf(server, tool)
    const reason = obstacle(terms, tool, trust, given)
    if (reason === undefined) tools.push(McpTools.fromTool(terms, urls, connection, tool, trust, { answers, check }))
    else missing.push({ tool: tool.name, reason })
    // To look at schemas takes time, in which others are served.
    yield* Effect.yieldNow
  }
  return { server, connection, tools, notices: noticesOf({ server: name }, missing), changes: 0 }
})

/** Fails after the time that all servers have together. */
export const inTime = <A, R>(listing: Effect.Effect<A, PeerError, R>) =>
  Effect.timeoutOrElse(listing, { duration: timeLimit, orElse: () => Effect.fail(late) })

const failureOf = ({ terms: { name } }: OfferedServer, { message, reason }: PeerError) => ({
  code: "mcp_unreachable" as const,
  message: `The MCP server ${name} cannot be reached. ${message}`,
  data: { server: name, reason: reason._tag }
})

/** Tells the caller and the log that a server cannot be reached. */
export const noticeOf = (server: OfferedServer, error: PeerError): Effect.Effect<Notice> => {
  const failure = failureOf(server, error)
  const logged = Effect.annotateLogs(Effect.logWarning("mcp_unreachable"), failure.data)
  return Effect.as(logged, { event: "notice", data: failure })
}

/** What a server lists once it is connected, or why it does not. */
export interface Listing {
  readonly server: OfferedServer
  readonly result: Result.Result<
    { readonly connection: McpConnection; readonly listed: ReadonlyArray<McpTool> },
    PeerError
  >
}

/** Connects to a server for as long as the scope, and lists its tools. */
export const list = (server: OfferedServer): Effect.Effect<Listing, never, Scope.Scope> =>
  Effect.gen(function* () {
    const connection = yield* server.connect
    return { connection, listed: yield* connection.tools }
  }).pipe(
    inTime,
    Effect.result,
    Effect.map((result) => ({ server, result }))
  )

/** What the servers bring. One that cannot be reached costs its tools, and the plan only if it is `required`. */
export const foundIn = (
  listings: ReadonlyArray<Listing>,
  given: Given
): Effect.Effect<ReadonlyArray<Found>, PlannerError> =>
  Effect.forEach(listings, ({ result, server }) => {
    if (Result.isFailure(result)) given.heardServer(server, { error: result.failure.reason })
    if (Result.isSuccess(result)) return toolsOf(server, result.success.connection, result.success.listed, given)
    if (server.terms.required === true) {
      const isRetryable = mayPass(result.failure.reason)
      return new PlannerError({ ...failureOf(server, result.failure), isRetryable })
    }
    return Effect.map(noticeOf(server, result.failure), (notice) => ({
      server,
      connection: undefined,
      tools: [],
      notices: [notice],
      changes: 0
    }))
  })
