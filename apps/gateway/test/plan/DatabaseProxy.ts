import { Effect } from "effect"
import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"

interface Pair {
  readonly client: Socket
  readonly server: Socket
  /** Nothing gets through any more. */
  isDead: boolean
  /** The gateway hears of other replicas on it. */
  isListening: boolean
}

const [parse, bind, sync, simpleQuery] = Buffer.from("PBSQ")
const encryptionRequest = 80_877_103

/** Gives `sent` the text of each statement that a client sends on one connection, once for each round trip. */
const readStatements = (sent: (statement: string) => void) => {
  const prepared = new Map<string, string>()
  let rest = Buffer.alloc(0)
  let isStarted = false
  let statement = ""
  const take = (type: number | undefined, body: Buffer) => {
    const [first = "", second = ""] = body.toString("utf8").split("\0")
    if (type === parse) prepared.set(first, second)
    if (type === bind) statement = prepared.get(second) ?? ""
    if (type === sync) sent(statement)
    if (type === simpleQuery) sent(first)
  }
  return (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      // The first message has no type.
      const start = isStarted ? 1 : 0
      if (rest.length < start + 4) return
      const end = start + rest.readUInt32BE(start)
      if (rest.length < end) return
      const body = rest.subarray(start + 4, end)
      if (isStarted) take(rest[0], body)
      else isStarted = body.readUInt32BE(0) !== encryptionRequest
      rest = rest.subarray(end)
    }
  }
}

/**
 * A way to a database that a test can put in trouble; every packet takes `delay` milliseconds. It ends with the scope. `sent` learns
 * the statements that go to the database.
 */
export const proxy = (databaseUrl: string, delay = 0, sent: (statement: string) => void = () => {}) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const target = new URL(databaseUrl)
        const pairs = new Set<Pair>()
        let refuses = false
        let swallows = false

        const pass = (pair: Pair, from: Socket, to: Socket) => {
          from.on("data", (bytes) => {
            if (pair.isDead) return
            if (from === pair.client && bytes.includes("LISTEN ")) pair.isListening = true
            if (delay === 0) to.write(bytes)
            else setTimeout(() => to.write(bytes), delay)
          })
          from.on("error", () => to.destroy())
          from.on("close", () => to.destroy())
        }

        const server = createServer((client) => {
          if (refuses) return void client.resetAndDestroy()
          const upstream = connect({ host: target.hostname, port: Number(target.port) })
          const pair = { client, server: upstream, isDead: swallows, isListening: false }
          pairs.add(pair)
          client.on("data", readStatements(sent))
          pass(pair, client, upstream)
          pass(pair, upstream, client)
          client.once("close", () => pairs.delete(pair))
        })
        await once(server.listen(0, "127.0.0.1"), "listening")
        const address = server.address()
        const url = new URL(databaseUrl)
        url.port = String(typeof address === "object" ? address?.port : 0)

        const reset = () => {
          for (const { client, server } of pairs) {
            client.resetAndDestroy()
            server.destroy()
          }
        }
        return {
          /** Where the gateway finds the database. */
          url: url.toString(),
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
          /** Nothing arrives any more on connections that listen, which stay open. New ones work. */
          swallowNotices: Effect.sync(() => {
            for (const pair of pairs) pair.isDead ||= pair.isListening
          }),
          /** New connections work. Those that were swallowed stay as they are. */
          restore: Effect.sync(() => {
            refuses = false
            swallows = false
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
    ({ url, refuse, swallow, swallowNotices, restore }) => ({ url, refuse, swallow, swallowNotices, restore })
  )
