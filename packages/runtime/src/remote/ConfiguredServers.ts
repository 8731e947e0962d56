import type { ServerTerms } from "@bowline/domain/unstable/mcp/McpServer"
import type { PeerError } from "@bowline/domain/peer/PeerError"
import { Context, Effect, type Scope } from "effect"
import type { Route } from "./PeerClient.ts"
import type { McpConnection, McpServerStatus } from "./McpClient.ts"

/** An MCP server that the app itself brings: the plans of a preset get its tools. */
export interface ConfiguredServer {
  readonly terms: ServerTerms
  /** Where it is: its URL, or `stdio:` and its name. */
  readonly address: string
  /** Whether its calls are made as the caller of their plan. */
  readonly needsCallersToken?: boolean
  /** Connects a plan that has come this way, for as long as the scope. Where it `answers` what servers ask, the server is told so. */
  readonly connect: (route: Route, answers?: boolean) => Effect.Effect<McpConnection, PeerError, Scope.Scope>
}

/** The MCP servers that the app itself brings, by the preset that they belong to, and what is known of those that were spoken to. None, unless it says so. */
export const ConfiguredServers = Context.Reference<{
  readonly ofPreset: (name: string) => ReadonlyArray<ConfiguredServer>
  readonly statuses: Effect.Effect<ReadonlyArray<McpServerStatus>>
}>("@bowline/runtime/remote/ConfiguredServers", {
  defaultValue: () => ({ ofPreset: () => [], statuses: Effect.succeed([]) })
})
