import type { McpServer } from "@bowline/domain/mcp/McpServer"
import { Effect, Result } from "effect"
import { canonicalJson } from "../store/CanonicalJson.ts"
import type { Found, Given } from "./McpServers.ts"
import * as McpServers from "./McpServers.ts"
import type { Notice } from "./MissingTools.ts"

/** How often a server may change its tools in one plan: each time costs a list of them. */
const maxChanges = 20

const hasChanged = ({ changes, connection }: Found): Effect.Effect<boolean> =>
  connection === undefined || changes > maxChanges ? Effect.succeed(false) : connection.hasChanged

/** One change more, with those of these notices that the caller has not had. */
const changed = (found: Found, more: ReadonlyArray<Notice>): Found => {
  const told = new Set(found.notices.map(({ data }) => canonicalJson(data)))
  const notices = more.filter(({ data }) => !told.has(canonicalJson(data)))
  return { ...found, notices: [...found.notices, ...notices], changes: found.changes + 1 }
}

const restless = ({ name }: McpServer): Notice => {
  const message = `The MCP server ${name} has changed its tools more than ${maxChanges} times. Its later changes are left out of this plan.`
  return { event: "notice", data: { code: "mcp_restless", message, data: { server: name } } }
}

/** Lists the tools of a server that has changed them. A server that cannot be reached now, or that never stops, keeps those that it had. */
const listAgain = Effect.fnUntraced(function* (found: Found, given: Given): Effect.fn.Return<Found> {
  const { changes, connection, server } = found
  if (connection === undefined) return found
  if (changes === maxChanges) return changed(found, [restless(server)])
  const listed = yield* Effect.result(McpServers.inTime(connection.tools))
  if (Result.isFailure(listed)) return changed(found, [yield* McpServers.noticeOf(server, listed.failure)])
  const { notices, tools } = yield* McpServers.toolsOf(server, connection, listed.success, given)
  return { ...changed(found, notices), tools }
})

/** Lists the tools of the servers that have changed them, side by side. Undefined if none has. */
export const listChanged = Effect.fnUntraced(function* (
  servers: ReadonlyArray<Found>,
  given: Given
): Effect.fn.Return<ReadonlyArray<Found> | undefined> {
  const outdated = new Set(yield* Effect.filter(servers, hasChanged))
  if (outdated.size === 0) return undefined
  return yield* Effect.forEach(
    servers,
    (found) => (outdated.has(found) ? listAgain(found, given) : Effect.succeed(found)),
    { concurrency: "unbounded" }
  )
})
