import type { ConfiguredMcpServer } from "@bowline/domain/mcp/McpServer"
import { ConfiguredServers, type ConfiguredServer } from "@bowline/runtime/mcp/ConfiguredServers"
import type { McpServerStatus } from "@bowline/runtime/mcp/McpClient"
import { Effect, Layer, Scope } from "effect"
import * as SdkMcpClient from "./SdkMcpClient.ts"
import * as SharedProcess from "./SharedProcess.ts"

interface Options {
  readonly servers: ReadonlyArray<ConfiguredMcpServer>
  /** What the process of every command gets, besides its own variables. */
  readonly environment: Readonly<Record<string, string>>
}

/**
 * The servers that an operator configures, by URL or as a command. The HTTP client connects wherever it is told to: the operator names the
 * addresses. Closing the layer ends the processes, which takes 3 seconds at most.
 */
export const layer = ({ environment, servers }: Options) =>
  Layer.effect(
    ConfiguredServers,
    Effect.gen(function* () {
      const client = yield* SdkMcpClient.make
      const processes = yield* Scope.fork(yield* Effect.scope, "parallel")
      const statuses: Array<Effect.Effect<McpServerStatus | undefined>> = []
      const offered: Array<ConfiguredServer> = []
      for (const server of servers) {
        if ("url" in server) {
          offered.push({ terms: server, address: server.url, connect: (route) => client.connect(server, route) })
        } else {
          const shared = yield* Scope.provide(SharedProcess.make(server, environment), processes)
          statuses.push(shared.status)
          const { address, connect } = shared
          offered.push({ terms: server, address, connect: (route) => Effect.succeed(connect(route)) })
        }
      }
      const ofProcesses = Effect.map(Effect.all(statuses), (all) => all.filter((status) => status !== undefined))
      return {
        servers: offered,
        statuses: Effect.zipWith(ofProcesses, client.servers, (own, others) => [...own, ...others])
      }
    })
  )
