import { Rpc } from "@bowline/domain/peer/PeerError"
import { Cache, Duration, Effect, type Schema } from "effect"
import type { HttpClient } from "effect/http"
import type { Params } from "../dialect/Codec.ts"
import type { ExchangeError } from "../http/ExchangeError.ts"
import { callMethod } from "../http/JsonRpc.ts"
import type { PeerLink } from "./PeerLink.ts"

/** The peer did not understand the request: parse error, or invalid parameters. */
const isNotUnderstood = ({ reason }: ExchangeError): boolean =>
  reason instanceof Rpc && (reason.code === -32700 || reason.code === -32602)

/**
 * The methods of a peer. Where a dialect has two spellings of a task's id, a peer that does not understand the one gets the
 * other one, once; what it understood is remembered by endpoint.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient, uuid: () => string) {
  const spellings = yield* Cache.make<string, string | void>({
    capacity: 1_000,
    timeToLive: Duration.infinity,
    lookup: () => Effect.void
  })

  const call = (link: PeerLink, method: string, params: Params) =>
    Effect.suspend(() => callMethod(client, link.target, uuid(), method, params))

  const callTask = Effect.fnUntraced(function* (
    link: PeerLink,
    method: string,
    taskId: string,
    params: Params
  ): Effect.fn.Return<Schema.Json, ExchangeError> {
    const [first, ...others] = link.codec.taskIdNames
    const known = (yield* Cache.get(spellings, link.endpoint)) ?? first
    const other = [first, ...others].find((name) => name !== known)
    const spelled = (name: string) => call(link, method, { [name]: taskId, ...params })
    if (other === undefined) return yield* spelled(known)
    return yield* Effect.catchIf(spelled(known), isNotUnderstood, () =>
      Effect.tap(spelled(other), () => Cache.set(spellings, link.endpoint, other))
    )
  })

  return {
    send: (link: PeerLink, params: Params) => call(link, link.codec.methods.send, params),
    get: (link: PeerLink, taskId: string) => callTask(link, link.codec.methods.get, taskId, link.codec.getParams),
    cancel: (link: PeerLink, taskId: string) => callTask(link, link.codec.methods.cancel, taskId, {})
  }
})

export type TaskCalls = Effect.Success<ReturnType<typeof make>>
