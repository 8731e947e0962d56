import { maxBytes } from "@bowline/runtime/unstable/http/Exchange"
import { deserializeMessage, serializeMessage, type JSONRPCMessage, type Transport } from "@modelcontextprotocol/client"
import { Deferred, Effect, Queue, Result } from "effect"

const encoder = new TextEncoder()

const lineFeed = 10
const openingBrace = 123

/** So many lines wait for a process that does not read. */
const maxWaiting = 64

/** A line that is parsed in vain counts for so many bytes: to find that out takes as long as to read them. */
const parsingBytes = 1_024

/** The protocol over the standard input and output of a process: one message a line. It does not own the process. */
export class ProcessTransport implements Transport {
  /** By these two the protocol's client knows a transport over stdio. */
  readonly pid: number
  readonly stderr = null
  onclose?: Transport["onclose"]
  onerror?: Transport["onerror"]
  onmessage?: Transport["onmessage"]
  /** Lines for the process. */
  readonly input = Effect.runSync(Queue.bounded<Uint8Array>(maxWaiting))
  /** The protocol's client needs the process no longer. */
  readonly closed = Deferred.makeUnsafe<void>()
  /** The beginning of a line whose end has not come yet. */
  #pieces: Array<Buffer> = []
  /** Bytes since the last message. */
  #unused = 0
  #messages = 0

  constructor(pid: number) {
    this.pid = pid
  }

  async start(): Promise<void> {}

  /** Ends when there is room for the message. */
  async send(message: JSONRPCMessage): Promise<void> {
    await Effect.runPromise(Queue.offer(this.input, encoder.encode(serializeMessage(message))))
  }

  async close(): Promise<void> {
    Deferred.doneUnsafe(this.closed, Effect.void)
  }

  /** The process has written more than 8 MiB without a message. */
  get isFull(): boolean {
    return this.#unused > maxBytes
  }

  /** How many messages the process has sent. */
  get messages(): number {
    return this.#messages
  }

  /** Takes what the process wrote, and says whether it may write on. Lines that are no messages are skipped. */
  receive(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)
    let start = 0
    for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, start)) {
      this.#take(bytes.subarray(start, end + 1))
      if (this.isFull) return false
      this.#endOfLine()
      start = end + 1
    }
    this.#take(bytes.subarray(start))
    return !this.isFull
  }

  /** The process is gone. */
  end(): void {
    this.onclose?.()
  }

  #take(piece: Buffer): void {
    this.#pieces.push(piece)
    this.#unused += piece.length
  }

  #endOfLine(): void {
    const line = Buffer.concat(this.#pieces)
    this.#pieces = []
    if (line[0] !== openingBrace) return
    const message = Result.try(() => deserializeMessage(line.toString("utf8")))
    if (Result.isFailure(message)) {
      this.#unused += parsingBytes
      return
    }
    this.#unused = 0
    this.#messages++
    this.onmessage?.(message.success)
  }
}
