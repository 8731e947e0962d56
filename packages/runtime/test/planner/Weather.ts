import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { Effect, Layer, type Scope } from "effect"
import { textInput } from "../../src/tool/PeerTools.ts"
import { McpClient, type McpConnection, type McpTool } from "../../src/remote/McpClient.ts"

/** Its schema is the gateway's own, which is checked without a thread: virtual time sees every wait. */
export const toolNamed = (name: string, description: string | null = null): McpTool => ({
  name,
  description,
  inputSchema: textInput,
  outputSchema: null,
  isDestructive: false
})

/** The server `weather` of a request. */
export const weather = (fields: object = {}) => ({
  mcp_servers: [{ name: "weather", url: "http://weather.test/mcp", ...fields }]
})

/** A client of one server, whose tools a test changes, and which remembers what it was asked. */
export const server = (...tools: ReadonlyArray<McpTool>) => {
  const state = { tools, isAway: false, hasChanged: false, lists: 0, calls: new Array<string>() }
  const change = (...tools: ReadonlyArray<McpTool>) => void Object.assign(state, { tools, hasChanged: true })
  const away = new PeerError({ reason: new Unreachable({ message: "Nobody answers" }) })
  /** What happens at a call, before its result. */
  const reacting = { react: (): void => undefined }
  const connection: McpConnection = {
    tools: Effect.suspend(() => {
      state.hasChanged = false
      state.lists++
      return state.isAway ? Effect.fail(away) : Effect.succeed(state.tools)
    }),
    hasChanged: Effect.sync(() => state.hasChanged),
    call: ({ tool }) =>
      Effect.sync(() => {
        state.calls.push(`${tool.name}: ${tool.description ?? ""}`)
        reacting.react()
        return { state: "completed" as const, text: `clear ${state.calls.length}`, structured: undefined }
      })
  }
  const connect = (): Effect.Effect<McpConnection, never, Scope.Scope> => Effect.succeed(connection)
  return { state, change, reacting, mcp: Layer.succeed(McpClient, { connect, servers: Effect.succeed([]) }) }
}
