import { Http, Unreachable } from "@bowline/domain/peer/PeerError"
import { LruCache } from "@bowline/runtime/cache/LruCache"
import { Cache, Clock, Duration, Effect, Exit, Result, Schema } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { answerOf, respond } from "../http/Exchange.ts"
import { failure, fromStatus, garbled, isPassing, type ExchangeError } from "../http/ExchangeError.ts"
import { AgentCard, locations, maxPeers, type Location } from "./AgentCard.ts"

/** A card, where it was found, and when: in milliseconds, the last time that the peer said that it is still good. */
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

/** For how long a card is good without asking again, by its `Cache-Control` (RFC 9111): a day at most, 5 minutes if it does not say. */
export const maxAgeOf = (cacheControl: string | undefined): Duration.Duration => {
  const directives = (cacheControl ?? "").toLowerCase().split(/\s*,\s*/)
  if (directives.some((directive) => /^\s*(no-store|no-cache)\b/.test(directive))) return Duration.zero
  const seconds = directives.map((directive) => /^\s*max-age="?(\d+)"?\s*$/.exec(directive)?.[1]).find(Boolean)
  return seconds === undefined ? usualAge : Duration.min(Duration.seconds(Number(seconds)), longestAge)
}

/** Asks for a card, or whether the one that is known is still good. */
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
 * The cards of peers by endpoint, asked for without credentials: every location within 2 seconds, kept for as long as the
 * peer says, or 5 minutes, a failure for 10 seconds; one at a time per endpoint.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const [first, second] = locations
  const last = new LruCache<string, FoundCard>(maxPeers)

  const find = (endpoint: string, known: FoundCard | undefined) =>
    ask(client, endpoint, first, known).pipe(
      Effect.catch((missed) =>
        // The failure that says more: most peers have nothing in the second place, and the first one may have it soon.
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
     * The card, which is asked for if there is none that is still good. Whoever has `missed` it before does not get that
     * failure once more: of several who wait for it the first one asks again.
     */
    get: (endpoint: string, missed?: ExchangeError): Effect.Effect<FoundCard, ExchangeError> => {
      const get = Cache.get(cards, endpoint)
      return Effect.catchIf(
        get,
        (error) => error === missed,
        () => Effect.andThen(Cache.invalidate(cards, endpoint), get)
      )
    },
    /** The last card that was had, if one was. Nothing is asked for. */
    last: (endpoint: string): FoundCard | undefined => last.get(endpoint)
  }
})

export type AgentCards = Effect.Success<ReturnType<typeof make>>
