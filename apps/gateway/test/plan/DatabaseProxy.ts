import * as TcpProxy from "@bowline/testing/unstable/http/TcpProxy"
import { Effect } from "effect"

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
 * A way to a database that a test can put in trouble. It ends with the scope. `sent` learns the statements that go to the database.
 */
export const proxy = Effect.fnUntraced(function* (databaseUrl: string, sent: (statement: string) => void = () => {}) {
  /** The gateway hears of other replicas on them. */
  const listening = new Set<TcpProxy.Pair>()
  const opened = (pair: TcpProxy.Pair) => {
    pair.client.on("data", readStatements(sent))
    pair.client.on("data", (bytes) => void (bytes.includes("LISTEN ") && listening.add(pair)))
  }
  const { port, refuse, restore, slow, swallow } = yield* TcpProxy.proxy(new URL(databaseUrl), { opened })
  const url = new URL(databaseUrl)
  url.hostname = "127.0.0.1"
  url.port = port
  return {
    /** Where the gateway finds the database. */
    url: url.toString(),
    refuse,
    restore,
    slow,
    swallow,
    /** Nothing arrives any more on connections that listen, which stay open. New ones work. */
    swallowNotices: Effect.sync(() => {
      for (const pair of listening) pair.isDead = true
    })
  }
})
