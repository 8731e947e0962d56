import { needsCallersToken } from "@bowline/domain/peer/Agent"
import type { ConfiguredMcpServer } from "@bowline/domain/unstable/mcp/McpServer"
import { defaultPreset } from "@bowline/runtime/unstable/config/Presets"
import { ConfiguredServers, type ConfiguredServer } from "@bowline/runtime/unstable/remote/ConfiguredServers"
import type { McpServerStatus } from "@bowline/runtime/remote/McpClient"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Effect, Exit, FiberSet, Layer, Scope } from "effect"
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
      const endings = yield* FiberSet.make<void>()
      const statuses: Array<Effect.Effect<McpServerStatus | undefined>> = []
      const offer = Effect.fnUntraced(function* (
        server: ConfiguredMcpServer,
        preset: string
      ): Effect.fn.Return<ConfiguredServer, never, ChildProcessSpawner.ChildProcessSpawner> {
        if ("url" in server) {
          return {
            terms: server,
            address: server.url,
            needsCallersToken: needsCallersToken(server.auth),
            connect: (...asked) => client.connect(server, ...asked)
          }
        }
        const address = `stdio:${preset === defaultPreset ? "" : `${preset}/`}${server.name}`
        const shared = yield* Scope.provide(SharedProcess.make(server, address, environment), processes)
        statuses.push(shared.status)
        const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
        /** A process that nobody else asks, so that its questions are this plan's. */
        const connectAlone = Effect.fnUntraced(
          function* (route: Route) {
            const scope = yield* Effect.acquireRelease(Scope.fork(processes), (scope) =>
              FiberSet.run(endings, Scope.close(scope, Exit.void))
            )
            const own = yield* Scope.provide(SharedProcess.make(server, address, environment, true), scope)
            return own.connect(route)
          },
          Effect.provideService(ChildProcessSpawner.ChildProcessSpawner, spawner)
        )
        const connect: ConfiguredServer["connect"] = (route, answers = false) =>
          Effect.flatMap(answers ? shared.asksAnyone : Effect.succeed(false), (isAlone) =>
            isAlone ? connectAlone(route) : Effect.succeed(shared.connect(route))
          )
        return { terms: server, address, connect }
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
