import { Http, PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import { Cache, Effect, Exit, Result, Schema } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange } from "../http/Exchange.ts"
import { fromStatus, garbled, type ExchangeError } from "../http/ExchangeError.ts"
import { AgentCard, locations, type Location } from "./AgentCard.ts"

/** A card and where it was found. */
export interface FoundCard {
  readonly card: AgentCard
  readonly location: Location
}

const decodeCard = Schema.decodeUnknownResult(Schema.fromJsonString(AgentCard))

const ask = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  endpoint: string,
  location: Location
): Effect.fn.Return<FoundCard, ExchangeError> {
  const request = HttpClientRequest.get(new URL(location, endpoint).href, { headers: { accept: "application/json" } })
  const { status, body, after } = yield* exchange(client, request)
  if (status < 200 || status > 299) return yield* fromStatus(status, "", after)
  const card = decodeCard(body)
  if (Result.isFailure(card)) return yield* garbled(`GET ${location}`, card.failure)
  return { card: card.success, location }
})

const isNotFound = ({ reason }: ExchangeError): boolean => reason instanceof Http && reason.status === 404

/**
 * The cards of peers by endpoint, asked for without credentials: every location within 2 seconds, kept for 5 minutes, a
 * failure for 10 seconds; one at a time per endpoint.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const [first, second] = locations
  const cards = yield* Cache.makeWith(
    (endpoint: string) =>
      ask(client, endpoint, first).pipe(
        Effect.catch((missed) =>
          // The failure that says more: most peers have nothing in the second place.
          Effect.mapError(ask(client, endpoint, second), (error) => (isNotFound(error) ? missed : error))
        ),
        Effect.mapError(({ reason }) => new PeerError({ reason })),
        Effect.timeoutOrElse({
          duration: "2 seconds",
          orElse: () =>
            Effect.fail(
              new PeerError({ reason: new Unreachable({ message: "The peer's card took longer than 2 seconds" }) })
            )
        })
      ),
    { capacity: 1_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "5 minutes" : "10 seconds") }
  )
  return { get: (endpoint: string): Effect.Effect<FoundCard, PeerError> => Cache.get(cards, endpoint) }
})
