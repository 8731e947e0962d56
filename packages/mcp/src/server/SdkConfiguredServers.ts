import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import { ConfiguredServers, type ConfiguredServer } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import type { McpServerStatus } from "@bowline/runtime/remote/McpClient"
import { Effect, Layer, Scope } from "effect"
import { ChildProcessSpawner } from "effect/process"
import * as SdkMcpClient from "./SdkMcpClient.ts"
import * as SharedProcess from "./SharedProcess.ts"

export type { ConfiguredMcpServer }

interface Options {
  /** The servers of each preset. */
  readonly servers: ReadonlyMap<string, ReadonlyArray<ConfiguredMcpServer>>
  /** What the process of every command gets, besides its own variables. */
  readonly environment: Readonly<Record<string, string>>
}

/**
 * The servers that an operator configures, by URL or as a command. The HTTP client connects wherever it is told to: the operator names the
 * addresses. Closing the layer ends the processes, which takes 3 seconds at most.
 *
 * @example
 * ```ts
 * import * as SdkConfiguredServers from "@bowline/mcp/server/SdkConfiguredServers"
 *
 * // The servers of no preset: a preset of this name would have the calculator.
 * export const Servers = SdkConfiguredServers.layer({ servers: new Map([["sums", []]]), environment: { LANG: "C" } })
 * ```
 */
export const layer = ({ environment, servers }: Options) =>
  Layer.effect(
    ConfiguredServers,
    Effect.gen(function* () {
      const client = yield* SdkMcpClient.make
      const processes = yield* Scope.fork(yield* Effect.scope, "parallel")
      const statuses: Array<Effect.Effect<McpServerStatus | undefined>> = []
      const offer = Effect.fnUntraced(function* (
        server: ConfiguredMcpServer,
        preset: string
      ): Effect.fn.Return<ConfiguredServer, never, ChildProcessSpawner.ChildProcessSpawner> {
        if ("url" in server) {
          return { terms: server, address: server.url, connect: (route) => client.connect(server, route) }
        }
        const address = `stdio:${preset === defaultPreset ? "" : `${preset}/`}${server.name}`
        const { connect, status } = yield* Scope.provide(SharedProcess.make(server, address, environment), processes)
        statuses.push(status)
        return { terms: server, address, connect: (route) => Effect.succeed(connect(route)) }
      })
      const offered = new Map<string, ReadonlyArray<ConfiguredServer>>()
      for (const [preset, named] of servers) {
        offered.set(preset, yield* Effect.forEach(named, (server) => offer(server, preset)))
      }
      const ofProcesses = Effect.map(Effect.all(statuses), (all) => all.filter((status) => status !== undefined))
      return {
        ofPreset: (name) => offered.get(name) ?? [],
        statuses: Effect.zipWith(ofProcesses, client.servers, (own, others) => [...own, ...others])
      }
    })
  )
