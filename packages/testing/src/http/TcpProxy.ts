import { Effect } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"

/** A connection through the proxy. */
export interface Pair {
  readonly client: Socket
  readonly server: Socket
  /** Nothing gets through any more. */
  isDead: boolean
}

/**
 * A way to a server that a test can put in trouble, on a free port of 127.0.0.1. `opened` learns of each connection. It ends with the scope.
 */
export const proxy = (
  target: { readonly hostname: string; readonly port: string },
  { opened = () => undefined }: { readonly opened?: (pair: Pair) => void } = {}
) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const pairs = new Set<Pair>()
        let { hostname, port } = target
        let delay = 0
        let refuses = false
        let swallows = false

        const pass = (pair: Pair, from: Socket, to: Socket) => {
          from.on("data", (bytes) => {
            if (pair.isDead) return
            if (delay === 0) to.write(bytes)
            else void sleep(delay).then(() => to.write(bytes))
          })
          from.on("error", () => to.destroy())
          from.on("close", () => to.destroy())
        }

        const server = createServer((client) => {
          if (refuses) return void client.resetAndDestroy()
          const upstream = connect({ host: hostname, port: Number(port) })
          const pair = { client, server: upstream, isDead: swallows }
          pairs.add(pair)
          opened(pair)
          pass(pair, client, upstream)
          pass(pair, upstream, client)
          client.once("close", () => pairs.delete(pair))
        })
        await once(server.listen(0, "127.0.0.1"), "listening")
        const address = server.address()

        const reset = () => {
          for (const { client, server } of pairs) {
            client.resetAndDestroy()
            server.destroy()
          }
        }
        return {
          port: String(typeof address === "object" ? address?.port : 0),
          /** From now on every packet takes so many milliseconds. */
          slow: (ms: number) =>
            Effect.sync(() => {
              delay = ms
            }),
          /** Throws all connections away and takes no new ones. */
          refuse: Effect.sync(() => {
            refuses = true
            reset()
          }),
          /** Answers nothing any more, on old connections and on new ones, which stay open. */
          swallow: Effect.sync(() => {
            swallows = true
            for (const pair of pairs) pair.isDead = true
          }),
          /** New connections work. Those that were swallowed stay as they are. */
          restore: Effect.sync(() => {
            refuses = false
            swallows = false
          }),
          /** New connections go to another server. */
          turnTo: (next: { readonly hostname: string; readonly port: string }) =>
            Effect.sync(() => {
              hostname = next.hostname
              port = next.port
            }),
          close: Effect.promise(async () => {
            reset()
            server.close()
            await once(server, "close")
          })
        }
      }),
      ({ close }) => close
    ),
    ({ port, refuse, restore, slow, swallow, turnTo }) => ({ port, refuse, restore, slow, swallow, turnTo })
  )
