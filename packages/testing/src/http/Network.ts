import { Context, type Effect, type Scope } from "effect"
import type { Host } from "./Host.ts"
import type { RequestLog } from "./RequestLog.ts"

export type { RequestLog }

/** A host that can be reached. */
export interface ServedHost {
  /** Its origin, without a slash at the end. */
  readonly url: string
  readonly requests: RequestLog
}

/**
 * Serves hosts: on ports of the loopback address, or in memory for clients of the same layer. A host stops with its scope; then
 * connections to it are refused.
 *
 * @example
 * ```ts
 * import { Network } from "@bowline/testing/http/Network"
 * import { text } from "@bowline/testing/http/Host"
 * import { Effect } from "effect"
 *
 * export const served = Effect.gen(function* () {
 *   const network = yield* Network
 *   const { url } = yield* network.serve(() => Effect.succeed(text(200, "It holds.")))
 *   return url
 * })
 * ```
 */
export class Network extends Context.Service<
  Network,
  {
    /** On `port` if it is free and the network has ports, else where there is room. */
    readonly serve: (host: Host, port?: number) => Effect.Effect<ServedHost, never, Scope.Scope>
  }
>()("@bowline/testing/http/Network") {}
