import { Cache, Clock, Duration, Effect, Exit } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange } from "@bowline/runtime/unstable/http/Exchange"
import { keysOf, type DidKey } from "./DidDocument.ts"

/** The keys of a DID, and when they were requested, in milliseconds. */
export interface ResolvedDid {
  readonly keys: ReadonlyArray<DidKey>
  readonly at: number
}

const maxBytes = 64 * 1024

/** A document younger than this is not requested again, also where a signature does not fit it. */
const shortestAge = Duration.toMillis("10 seconds")

const ask = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  url: string,
  did: string
): Effect.fn.Return<ResolvedDid, string> {
  const at = yield* Clock.currentTimeMillis
  const request = HttpClientRequest.post(url, { headers: { accept: "application/did+json, application/json" } }).pipe(
    HttpClientRequest.bodyText(JSON.stringify({ did }), "application/json")
  )
  const { body, status } = yield* Effect.mapError(
    exchange(client, request, maxBytes),
    ({ reason }) => `its DID document is unavailable. ${reason.message}`
  )
  if (status < 200 || status > 299)
    return yield* Effect.fail(`its DID document is unavailable: the peer answered ${status}`)
  return { keys: yield* Effect.fromResult(keysOf(did, body)), at }
})

/**
 * The documents of DIDs, from `POST /did/resolve` at the origin of the peer, within 2 seconds and of 64 KiB at most. A document
 * is kept for 5 minutes; calls share one request for each peer and DID. A failure is not kept: it says why there is no key.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const documents = yield* Cache.makeWith(
    ({ did, url }: { readonly url: string; readonly did: string }) =>
      Effect.timeoutOrElse(ask(client, url, did), {
        duration: "2 seconds",
        orElse: () => Effect.fail("its DID document took longer than 2 seconds")
      }),
    { capacity: 1_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "5 minutes" : "0 seconds") }
  )
  const keyOf = (endpoint: string, did: string) => ({ url: new URL("/did/resolve", endpoint).href, did })

  return {
    resolve: (endpoint: string, did: string): Effect.Effect<ResolvedDid, string> =>
      Cache.get(documents, keyOf(endpoint, did)),
    /** A newer document, where this one may be out of date: the peer may have a new key. */
    renew: Effect.fnUntraced(function* (
      endpoint: string,
      did: string,
      stale: ResolvedDid
    ): Effect.fn.Return<ResolvedDid, string> {
      const key = keyOf(endpoint, did)
      if ((yield* Clock.currentTimeMillis) - stale.at < shortestAge) return stale
      yield* Cache.invalidateWhen(documents, key, (document) => document === stale)
      return yield* Cache.get(documents, key)
    })
  }
})
