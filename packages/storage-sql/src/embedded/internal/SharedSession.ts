import type { PGlite } from "@electric-sql/pglite"
import { Duplex } from "node:stream"
import { isCancelRequest, lengthOfWhole, simpleQuery, terminate } from "./PgWire.ts"

const notification = 0x41
const readyForQuery = 0x5a
const idle = 0x49

/** Ends what a connection has begun that is gone. */
const giveUp = simpleQuery("rollback")

/** The messages in these bytes, which are whole. */
function* messagesOf(bytes: Buffer) {
  for (let at = 0; at < bytes.length;) {
    const next = at + 1 + bytes.readUInt32BE(at + 1)
    yield bytes.subarray(at, next)
    at = next
  }
}

/**
 * The one session of a Postgres in this process, for several connections. One whose transaction is open has it alone, and the others wait. A
 * notification reaches every connection, and a client drops those for which it does not listen. Answers come in the turn of the question:
 * no promise and no timer decides about their order.
 */
export class SharedSession {
  readonly #db: PGlite
  readonly #connections = new Set<Connection>()
  readonly #waiting = new Set<Connection>()
  /** The connection whose transaction is open. */
  #owner: Connection | undefined

  constructor(db: PGlite) {
    this.#db = db
  }

  readonly connect = (): Duplex => {
    const connection = new Connection(this)
    this.#connections.add(connection)
    return connection
  }

  /** Lets it proceed as soon as no other one has a transaction open. */
  ask(connection: Connection): void {
    this.#waiting.add(connection)
    this.#next()
  }

  leave(connection: Connection): void {
    this.#connections.delete(connection)
    this.#waiting.delete(connection)
    if (this.#owner !== connection) return
    this.run(connection, giveUp)
    this.#next()
  }

  run(connection: Connection, messages: Uint8Array): void {
    this.#owner = connection
    const answers: Array<Buffer> = []
    const notifications: Array<Buffer> = []
    for (const message of messagesOf(Buffer.from(this.#db.execProtocolRawSync(messages)))) {
      if (message[0] === readyForQuery && message[5] === idle) this.#owner = undefined
      const to = message[0] === notification ? notifications : answers
      to.push(message)
    }
    if (notifications.length > 0) for (const each of this.#connections) each.push(Buffer.concat(notifications))
    if (answers.length > 0 && this.#connections.has(connection)) connection.push(Buffer.concat(answers))
  }

  #next(): void {
    for (;;) {
      const next = Array.from(this.#waiting).find((one) => this.#owner === undefined || this.#owner === one)
      if (next === undefined) return
      this.#waiting.delete(next)
      next.proceed()
    }
  }
}

/** It takes the bytes of a client of the wire protocol. No statement can be cancelled. */
class Connection extends Duplex {
  readonly #session: SharedSession
  #bytes: Buffer = Buffer.alloc(0)
  #isStarted = false
  #done: () => void = () => {}

  constructor(session: SharedSession) {
    super()
    this.#session = session
  }

  override _read(): void {}

  override _write(chunk: Uint8Array, _encoding: BufferEncoding, done: () => void): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk])
    this.#done = done
    this.#session.ask(this)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#session.leave(this)
    done(error)
  }

  proceed(): void {
    const length = this.#isStarted ? lengthOfWhole(this.#bytes) : this.#lengthOfStart
    const messages = this.#bytes.subarray(0, length)
    this.#bytes = this.#bytes.subarray(length)
    const isOver = this.#isStarted ? messages[0] === terminate : length > 0 && isCancelRequest(messages)
    if (isOver) this.destroy()
    else if (length > 0) {
      this.#isStarted = true
      this.#session.run(this, messages)
    }
    this.#done()
  }

  /** The first message has no type. */
  get #lengthOfStart(): number {
    const length = this.#bytes.length < 8 ? Infinity : this.#bytes.readUInt32BE(0)
    return length > this.#bytes.length ? 0 : length
  }
}
