import { Deferred, Effect, Redacted } from "effect"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"

/** Where a wire breaks: a statement is not sent, or it is done and its answer does not arrive. */
export interface Break {
  /** Counted from 1 on. */
  readonly statement: number
  readonly when: "before" | "behind"
}

const sync = 0x53
const readyForQuery = 0x5a
const notificationResponse = 0x41

/** Parse, bind, describe, execute, close: the server acts on each, and so none goes before the sync at their end. */
const partsOfStatement = new Set(Buffer.from("PBDEC"))

/** Gives each whole message of Postgres' wire to `take`, by its type; the first one of a client has none. */
const eachMessage = (take: (type: number, message: Buffer) => void, hasType: boolean) => {
  let rest = Buffer.alloc(0)
  let isTyped = hasType
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 5) {
      const start = isTyped ? 1 : 0
      const end = start + rest.readUInt32BE(start)
      if (rest.length < end) return
      take(isTyped ? (rest[0] ?? 0) : 0, rest.subarray(0, end))
      rest = rest.subarray(end)
      isTyped = true
    }
  }
}

/**
 * A way to a database that breaks where it is told to, counted from then on; `sent` are the statements that have passed since.
 * It can also drop the notices of the server, as a pooler does that gives a client's transactions to changing connections.
 */
export const cutWire = Effect.fnUntraced(function* (database: Redacted.Redacted) {
  const url = new URL(Redacted.value(database))
  const server = { host: url.hostname, port: Number(url.port) }
  const sockets = new Set<Socket>()
  let sent = 0
  let at: Break | undefined
  let dropped: Deferred.Deferred<void> | undefined
  const breakAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  const listener = createServer((client) => {
    const upstream = connect(server)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client]
    ] as const) {
      sockets.add(socket)
      socket.on("error", () => {}).on("close", () => other.destroy())
    }
    let isBroken = false
    let held: Array<Buffer> = []
    const fromClient = eachMessage((type, message) => {
      if (isBroken) return
      held.push(message)
      if (partsOfStatement.has(type)) return
      const isLast = type === sync && sent + 1 === at?.statement
      if (isLast && at?.when === "before") return breakAll()
      if (type === sync) sent++
      isBroken = isLast
      upstream.write(Buffer.concat(held))
      held = []
    }, false)
    const fromServer = eachMessage((type, message) => {
      if (type === notificationResponse && dropped !== undefined) Deferred.doneUnsafe(dropped, Effect.void)
      else if (!isBroken) client.write(message)
      else if (type === readyForQuery) breakAll()
    }, true)
    client.on("data", fromClient)
    upstream.on("data", fromServer)
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(listener.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.sync(() => {
        breakAll()
        listener.close()
      })
  )
  url.port = String((listener.address() as AddressInfo).port)
  url.hostname = "127.0.0.1"
  // What is encrypted cannot be counted.
  url.searchParams.set("sslmode", "disable")
  return {
    url: Redacted.make(url.toString()),
    sent: () => sent,
    /** Drops all notices from now on. Gives what waits for the first one. */
    dropNotices: Effect.sync(() => {
      const first = Deferred.makeUnsafe<void>()
      dropped = first
      return Deferred.await(first)
    }),
    passNotices: Effect.sync(() => (dropped = undefined)),
    breakAt: (wanted: Break) => {
      sent = 0
      at = wanted
    }
  }
})
