import { StreamableHTTPClientTransport, type ReconnectionScheduler } from "@modelcontextprotocol/client"
import { Effect } from "effect"
import type { ServerFetch } from "../http/ServerFetch.ts"
import * as ServerLink from "./ServerLink.ts"
import type { Options } from "./ServerWire.ts"

/** The least time between two attempts to read on a stream that the server has closed, in milliseconds. */
const minReconnectMs = 1_000

interface HttpOptions extends Omit<Options, "wire"> {
  readonly url: string
  readonly fetch: ServerFetch
}

/** The server may ask for a shorter delay, and its streams may end at once. */
const reconnectionScheduler = Effect.map(Effect.context(), (context): ReconnectionScheduler => (reconnect, delay) => {
  const waiting = Effect.andThen(Effect.sleep(Math.max(delay, minReconnectMs)), Effect.sync(reconnect))
  const fiber = Effect.runForkWith(context)(waiting)
  return () => fiber.interruptUnsafe()
})

/** Connects to a server over streamable HTTP. */
export const open = Effect.fnUntraced(function* ({ fetch, url, ...options }: HttpOptions) {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: yield* fetch.fetch,
    reconnectionScheduler: yield* reconnectionScheduler
  })
  return yield* ServerLink.open(transport, { ...options, wire: fetch })
})
