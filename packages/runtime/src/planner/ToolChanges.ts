import { Array as Arrays, Effect, Result, Struct } from "effect"
import { truncate } from "../tool/Envelope.ts"
import type { Tool } from "../tool/Tool.ts"
import * as McpServers from "./McpServers.ts"
import type { Notice } from "./MissingTools.ts"

/** How often a server may change its tools in one plan: each time costs a list of them. */
const maxChanges = 20

/** How many characters of a changed description the caller gets. */
const maxDescription = 500

const hasChanged = ({ changes, connection }: McpServers.Found): Effect.Effect<boolean> =>
  connection === undefined || changes > maxChanges ? Effect.succeed(false) : connection.hasChanged

/** Tells the caller which of these tools have changed, server by server: who approves a call has to know what the tool says of itself now. */
export const noticesOf = (tools: Iterable<Tool>): ReadonlyArray<Notice> => {
  const changed = Array.from(tools).flatMap(({ agent, description, skill, trust }) =>
    trust?.isChanged === true && agent !== null && skill !== null
      ? [{ agent, tool: skill, digest: trust.digest, description: truncate(description, maxDescription).text }]
      : []
  )
  return Object.entries(Arrays.groupBy(changed, ({ agent }) => agent)).map(([server, own]) => {
    const message = `Tools of the MCP server ${server} have changed: ${own.map(({ tool }) => tool).join(", ")}`
    const tools = own.map(Struct.omit(["agent"]))
    return { event: "notice", data: { code: "description_changed", message, data: { server, tools } } }
  })
}

const restless = ({ terms: { name } }: McpServers.OfferedServer): Notice => {
  const message = `The tools of the MCP server ${name} were listed again ${maxChanges} times. What it changes from now on is left out of this plan.`
  return { event: "notice", data: { code: "mcp_restless", message, data: { server: name } } }
}

/** Lists the tools of a server that has changed them. A server that cannot be reached now, or that never stops, keeps those that it had. */
const listAgain = Effect.fnUntraced(function* (
  found: McpServers.Found,
  given: McpServers.Given
): Effect.fn.Return<McpServers.Found> {
  const { changes, connection, server } = found
  if (connection === undefined) return found
  const changed = { ...found, changes: changes + 1 }
  if (changes === maxChanges) return { ...changed, notices: [restless(server)] }
  const listed = yield* Effect.result(McpServers.inTime(connection.tools))
  if (Result.isFailure(listed)) return { ...changed, notices: [yield* McpServers.noticeOf(server, listed.failure)] }
  const { notices, tools } = yield* McpServers.toolsOf(server, connection, listed.success, given)
  return { ...changed, notices, tools }
})

/** Lists the tools of the servers that have changed them, side by side. Undefined if none has. */
export const listChanged = Effect.fnUntraced(function* (
  servers: ReadonlyArray<McpServers.Found>,
  given: McpServers.Given
): Effect.fn.Return<ReadonlyArray<McpServers.Found> | undefined> {
  const outdated = new Set(yield* Effect.filter(servers, hasChanged))
  if (outdated.size === 0) return undefined
  return yield* Effect.forEach(
    servers,
    (found) => (outdated.has(found) ? listAgain(found, given) : Effect.succeed(found)),
    { concurrency: "unbounded" }
  )
})
