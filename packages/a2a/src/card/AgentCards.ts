import { Http, Unreachable } from "@bowline/domain/peer/PeerError"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import { Cache, Clock, Duration, Effect, Exit, Result, Schema } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { answerOf, respond } from "@bowline/runtime/unstable/http/Exchange"
import {
  failure,
  fromStatus,
  garbled,
  isPassing,
  type ExchangeError
} from "@bowline/runtime/unstable/http/ExchangeError"
import { AgentCard, locations, maxPeers, type Location } from "./AgentCard.ts"

/** A card, where it was found, and when the peer last confirmed it, in milliseconds. */
export interface FoundCard {
  readonly card: AgentCard
  readonly location: Location
  readonly fetchedAt: number
  readonly maxAge: Duration.Duration
  readonly etag: string | undefined
}

const decodeCard = Schema.decodeUnknownResult(Schema.fromJsonString(AgentCard))

const usualAge = Duration.minutes(5)
const longestAge = Duration.days(1)

/** How long a card is fresh by its `Cache-Control` (RFC 9111): a day at most, and 5 minutes where it does not say. */
export const maxAgeOf = (cacheControl: string | undefined): Duration.Duration => {
  const directives = (cacheControl ?? "").toLowerCase().split(/\s*,\s*/)
  if (directives.some((directive) => /^\s*(no-store|no-cache)\b/.test(directive))) return Duration.zero
  const seconds = directives.map((directive) => /^\s*max-age="?(\d+)"?\s*$/.exec(directive)?.[1]).find(Boolean)
  return seconds === undefined ? usualAge : Duration.min(Duration.seconds(Number(seconds)), longestAge)
}

/** Asks for a card, or whether the known one is still current. */
const ask = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  endpoint: string,
  location: Location,
  known: FoundCard | undefined
): Effect.fn.Return<FoundCard, ExchangeError> {
  const validator = known?.location === location ? known.etag : undefined
  const headers = { accept: "application/json", ...(validator !== undefined && { "if-none-match": validator }) }
  const response = yield* respond(client, HttpClientRequest.get(new URL(location, endpoint).href, { headers }))
  const { body, after, status } = yield* answerOf(response)
  const fetchedAt = yield* Clock.currentTimeMillis
  const { "cache-control": cacheControl, etag } = response.headers
  if (status === 304 && known !== undefined && validator !== undefined) {
    return { ...known, fetchedAt, maxAge: cacheControl === undefined ? known.maxAge : maxAgeOf(cacheControl) }
  }
  if (status < 200 || status > 299) return yield* fromStatus(status, "", after)
  const card = decodeCard(body)
  if (Result.isFailure(card)) return yield* garbled(`GET ${location}`, card.failure)
  return { card: card.success, location, fetchedAt, maxAge: maxAgeOf(cacheControl), etag }
})

const isNotFound = ({ reason }: ExchangeError): boolean => reason instanceof Http && reason.status === 404

const tooSlow = () => failure("transient", new Unreachable({ message: "The peer's card took longer than 2 seconds" }))

/**
 * The cards of peers by endpoint. They are requested without credentials, from all locations within 2 seconds. A card is kept
 * as long as the peer says, else for 5 minutes, and a failure for 10 seconds. Calls share one request for each endpoint.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const [first, second] = locations
  const last = new LruCache<string, FoundCard>(maxPeers)

  const find = (endpoint: string, known: FoundCard | undefined) =>
    ask(client, endpoint, first, known).pipe(
      Effect.catch((missed) =>
        // Gives the failure that says more: most peers have no card in the second place, and a passing failure of the first one
        // may soon be over.
        Effect.mapError(ask(client, endpoint, second, known), (error) =>
          isNotFound(error) || isPassing(missed) ? missed : error
        )
      )
    )

  const cards = yield* Cache.makeWith(
    (endpoint: string) =>
      find(endpoint, last.get(endpoint)).pipe(
        Effect.tap((found) => Effect.sync(() => last.set(endpoint, found))),
        Effect.timeoutOrElse({ duration: "2 seconds", orElse: () => Effect.fail(tooSlow()) })
      ),
    { capacity: maxPeers, timeToLive: (exit) => (Exit.isSuccess(exit) ? exit.value.maxAge : "10 seconds") }
  )
  return {
    /**
     * The card, which is requested unless a fresh one is known. `missed` is the failure that the caller got before: while it is
     * the kept one, the card is requested again.
     */
    get: (endpoint: string, missed?: ExchangeError): Effect.Effect<FoundCard, ExchangeError> => {
      const get = Cache.get(cards, endpoint)
      return Effect.catchIf(
        get,
        (error) => error === missed,
        () => Effect.andThen(Cache.invalidate(cards, endpoint), get)
      )
    },
    /** The last known card, however old. Nothing is requested. */
    last: (endpoint: string): FoundCard | undefined => last.get(endpoint)
  }
})

export type AgentCards = Effect.Success<ReturnType<typeof make>>
