import { Unreachable } from "@bowline/domain/peer/PeerError"
import {
  isJSONRPCRequest,
  SdkHttpError,
  UnauthorizedError,
  type JSONRPCMessage,
  type RequestId,
  type Transport
} from "@modelcontextprotocol/client"
import { Effect } from "effect"

/** How long a cancel may take, in milliseconds: no call waits for it. */
export const cancelTimeout = 5_000

const cancelled = "notifications/cancelled"

/** A proxy answers so in the place of the server. It does not know whether the server works on the request. */
const fromProxy: ReadonlySet<number> = new Set([502, 504])

const lost = new Unreachable({ message: "The server closed the connection before it answered" })

/** Whether the server itself has answered the request, with an error. */
const isAnswer = (error: unknown): boolean =>
  error instanceof UnauthorizedError || (SdkHttpError.isInstance(error) && !fromProxy.has(error.status ?? 0))

/**
 * The calls of a link that wait for their answers, and the cancels that are on their way. A call whose answer can no longer come fails at once. A
 * server of a revision with a handshake may work on such a call for ever, because a lost connection is not a cancel: it is told to cancel.
 */
export class CallCancels {
  readonly #transport: Transport
  readonly #send: Transport["send"]
  readonly #hasHandshake: () => boolean
  readonly #open = new Set<unknown>()
  readonly #underWay = new Set<Promise<unknown>>()

  constructor(transport: Transport, hasHandshake: () => boolean) {
    this.#transport = transport
    this.#send = transport.send.bind(transport)
    this.#hasHandshake = hasHandshake
  }

  /** Follows the calls from now on. */
  watch(): void {
    const { onmessage: take } = this.#transport
    const onmessage: typeof take = (message, extra) => {
      if (!("method" in message) && message.id !== undefined) this.#open.delete(message.id)
      take?.(message, extra)
    }
    const send: Transport["send"] = (message, options) => this.#sendWatched(message, options)
    Object.assign(this.#transport, { onmessage, send })
  }

  /** Has the end of the link wait for a cancel. */
  track<A>(cancel: Promise<A>): Promise<A> {
    const ending: Promise<boolean> = Promise.allSettled([cancel]).then(() => this.#underWay.delete(ending))
    this.#underWay.add(ending)
    return cancel
  }

  /** Waits for the cancels that are on their way, for 5 s at most. */
  readonly told = Effect.promise(async () => {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }).pipe(Effect.timeoutOption(cancelTimeout))

  #sendWatched(message: JSONRPCMessage, options: Parameters<Transport["send"]>[1]): Promise<void> {
    const method = "method" in message ? message.method : undefined
    if (method === cancelled || method === "tasks/cancel") {
      if ("params" in message) this.#open.delete(message.params?.["requestId"])
      return this.track(this.#send(message, options))
    }
    if (method !== "tools/call" || !isJSONRPCRequest(message)) return this.#send(message, options)
    const { id } = message
    this.#open.add(id)
    return this.#send(message, { ...options, onRequestStreamEnd: () => this.#failLost(id) }).catch((error: unknown) => {
      if (isAnswer(error)) this.#open.delete(id)
      this.#cancelLost(id)
      throw error
    })
  }

  /** Whether the call was open: its answer has not come, and nobody has cancelled it. */
  #cancelLost(id: RequestId): boolean {
    if (!this.#open.delete(id)) return false
    if (this.#hasHandshake()) {
      const params = { requestId: id, reason: lost.message }
      void this.track(this.#send({ jsonrpc: "2.0", method: cancelled, params })).catch(() => undefined)
    }
    return true
  }

  #failLost(id: RequestId): void {
    if (!this.#cancelLost(id)) return
    this.#transport.onmessage?.({ jsonrpc: "2.0", id, error: { code: -32_000, message: lost.message, data: lost } })
  }
}
