import { Rpc } from "@bowline/domain/peer/PeerError"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import { counter, histogram, timed } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Effect, Exit } from "effect"
import { HttpClient } from "effect/http"
import { maxPeers } from "../card/AgentCard.ts"
import type { Params } from "../dialect/Codec.ts"
import { TryLeave } from "@bowline/runtime/unstable/http/Exchange"
import type { ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { callMethod, streamMethod } from "../rpc/JsonRpc.ts"
import type { PeerLink } from "./PeerLink.ts"

const methods = ["send", "stream", "get", "cancel", "subscribe"] as const
const requests = counter({
  name: "bowline.peer.requests",
  description: "Requests to peers that ended; `get` are the polls",
  labels: { method: methods, result: ["answered", "failed", "interrupted"] }
})
const duration = histogram({
  name: "bowline.peer.request.duration",
  description: "From a request to a peer to its answer, or to the head of a stream",
  unit: "s",
  labels: { method: methods }
})

/** The peer did not understand the request: a parse error, or invalid parameters. */
const isNotUnderstood = ({ reason }: ExchangeError): boolean =>
  reason instanceof Rpc && (reason.code === -32700 || reason.code === -32602)

const measured = (method: (typeof methods)[number]) =>
  timed((seconds, exit, context) => {
    const result = Exit.isSuccess(exit) ? "answered" : Exit.hasInterrupts(exit) ? "interrupted" : "failed"
    requests.updateUnsafe(1, { method, result }, context)
    duration.updateUnsafe(seconds, { method }, context)
  })

/** A message. `tryLeave` is called when a request with it is about to leave: it notes that, or says that the request must not. */
export interface SentMessage {
  readonly id: string
  /** Its idempotency key. */
  readonly key: string
  readonly tryLeave: () => boolean
}

/**
 * The methods of a peer. Where a dialect has two names for the parameter of a task, a peer that does not understand one of
 * them gets the other one, once. The name that it understood is remembered for its endpoint.
 */
export const make = (client: HttpClient.HttpClient, uuid: () => string) => {
  const spellings = new LruCache<string, string>(maxPeers)

  const call = (link: PeerLink, name: "send" | "get" | "cancel", params: Params, via = client) =>
    Effect.suspend(() => callMethod(via, link.target, uuid(), link.codec.methods[name], params)).pipe(measured(name))

  const stream = (link: PeerLink, name: "stream" | "subscribe", params: Params, via = client) =>
    Effect.suspend(() => streamMethod(via, link.target, uuid(), link.codec.methods[name], params)).pipe(measured(name))

  const asking = ({ tryLeave }: SentMessage) =>
    HttpClient.tapRequest(client, () => Effect.suspend(() => (tryLeave() ? Effect.void : Effect.interrupt)))

  /** A message carries its idempotency key as a header, too: what stands in front of the peer may know that. */
  const keyed = (link: PeerLink, { key }: SentMessage): PeerLink => {
    const { target } = link
    return { ...link, target: { ...target, headers: { ...target.headers, "idempotency-key": key } } }
  }

  /** Makes a request that names a task, with the parameter that this peer understands. */
  const onTask = Effect.fnUntraced(function* <A, R>(
    { codec, endpoint }: PeerLink,
    taskId: string,
    request: (params: Params) => Effect.Effect<A, ExchangeError, R>
  ): Effect.fn.Return<A, ExchangeError, R> {
    const [first, ...others] = codec.taskIdNames
    const known = spellings.get(endpoint) ?? first
    const other = [first, ...others].find((name) => name !== known)
    const spelled = (name: string) => request({ [name]: taskId })
    if (other === undefined) return yield* spelled(known)
    return yield* Effect.catchIf(spelled(known), isNotUnderstood, () =>
      Effect.tap(spelled(other), () => Effect.sync(() => spellings.set(endpoint, other)))
    )
  })

  return {
    send: (link: PeerLink, message: SentMessage, params: Params) =>
      Effect.provideService(call(keyed(link, message), "send", params, asking(message)), TryLeave, message.tryLeave),
    stream: (link: PeerLink, message: SentMessage, params: Params) =>
      Effect.provideService(
        stream(keyed(link, message), "stream", params, asking(message)),
        TryLeave,
        message.tryLeave
      ),
    get: (link: PeerLink, taskId: string) =>
      onTask(link, taskId, (name) => call(link, "get", { ...name, ...link.codec.getParams })),
    cancel: (link: PeerLink, taskId: string) => onTask(link, taskId, (name) => call(link, "cancel", name)),
    subscribe: (link: PeerLink, taskId: string) => onTask(link, taskId, (name) => stream(link, "subscribe", name))
  }
}

export type PeerCalls = ReturnType<typeof make>
