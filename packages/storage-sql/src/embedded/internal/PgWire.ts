import { Duplex } from "node:stream"
import type { PostgresThread } from "./PostgresThread.ts"

/** Whether the first message of a connection is one. */
export const isCancelRequest = (first: Buffer): boolean => first.readUInt32BE(4) === 80877102

export const terminate = 0x58

export const simpleQuery = (text: string): Buffer => {
  const body = Buffer.from(`${text}\0`)
  const head = Buffer.from("Q____")
  head.writeUInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}

/** Ends what a broken connection may have left open in the only session. */
const reset = ["rollback", "discard all"].map(simpleQuery)

/** How many of these bytes are whole messages: a type, a length that counts itself, and a body. */
export const lengthOfWhole = (bytes: Buffer): number => {
  let end = 0
  while (bytes.length >= end + 5) {
    const next = end + 1 + bytes.readUInt32BE(end + 1)
    if (next > bytes.length) break
    end = next
  }
  return end
}

const none = Buffer.alloc(0)

/** Without a copy where it can: a statement that writes a chunk of a file comes in one piece. */
const joined = (bytes: Buffer, chunk: Uint8Array): Buffer =>
  bytes.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([bytes, chunk])

/**
 * A connection to an embedded Postgres. It takes the bytes of a client of the wire protocol, passes each run of whole messages
 * to the database, and returns the answers; `onMessages` hears of each run. All connections share one session, so a client uses
 * one at a time. No statement can be cancelled.
 */
export const connect = (db: PostgresThread, onMessages: () => void): Duplex =>
  Duplex.from(async function* (chunks: AsyncIterable<Uint8Array>) {
    let bytes: Buffer = none
    let isStarted = false
    for await (const chunk of chunks) {
      bytes = joined(bytes, chunk)
      if (!isStarted) {
        const length = bytes.length < 8 ? Infinity : bytes.readUInt32BE(0)
        if (length > bytes.length) continue
        if (isCancelRequest(bytes)) return
        const startup = bytes.subarray(0, length)
        bytes = bytes.subarray(length)
        isStarted = true
        yield await db.execute(...reset, startup)
      }
      const length = lengthOfWhole(bytes)
      if (length === 0) continue
      const messages = bytes.subarray(0, length)
      bytes = length === bytes.length ? none : bytes.subarray(length)
      if (messages[0] === terminate) return
      onMessages()
      yield await db.execute(messages)
    }
  })
