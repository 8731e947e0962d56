import type { CallerName } from "@bowline/domain/caller/CallerName"
import { Duration, Effect } from "effect"
import { HttpEffect, type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import { Refused, respond } from "./Refusals.ts"

interface Quota {
  readonly remaining: number
  readonly resetAfter: Duration.Duration
}

const seconds = (duration: Duration.Duration): string => String(Math.ceil(Duration.toSeconds(duration)))

type Bound = <E, R>(
  caller: CallerName,
  handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
  /** As how many requests it counts; 1 by default. */
  requests?: number
) => Effect.Effect<HttpServerResponse.HttpServerResponse, E, R | HttpServerRequest.HttpServerRequest>

const uncounted: Bound = (_, handled) => handled

/**
 * Makes the bound on the requests of a caller: of too many the caller is told when to come again, and in every answer how many are
 * left (draft-ietf-httpapi-ratelimit-headers-06). If the store of the counts does not answer, nobody is refused: a database that is away
 * must not keep callers from reading the plans that run.
 */
export const make = Effect.gen(function* () {
  const { rateLimit } = yield* GatewayConfig
  if (rateLimit === undefined) return uncounted
  const limiter = yield* RateLimiter.make
  const [limit, window] = rateLimit

  const headersOf = ({ remaining, resetAfter }: Quota) => ({
    "ratelimit-limit": String(limit),
    "ratelimit-remaining": String(remaining),
    "ratelimit-reset": seconds(resetAfter)
  })

  const counted: Bound = (caller, handled, tokens = 1) =>
    Effect.matchEffect(limiter.consume({ key: caller, limit, window, tokens }), {
      onSuccess: (quota) => {
        const headers = headersOf(quota)
        // The answer may be a refusal that is made after this.
        return HttpEffect.withPreResponseHandler(handled, (_, response) =>
          Effect.succeed(HttpServerResponse.setHeaders(response, headers))
        )
      },
      onFailure: ({ reason }) => {
        if (reason._tag === "RateLimitStoreError") {
          return Effect.andThen(Effect.logDebug(`The requests of ${caller} are not counted`, reason), handled)
        }
        const { retryAfter } = reason
        return respond(
          new Refused({
            code: "rate_limited",
            detail: `${caller} may make ${limit} requests in ${Duration.format(window)}`,
            headers: { ...headersOf({ remaining: 0, resetAfter: retryAfter }), "retry-after": seconds(retryAfter) }
          })
        )
      }
    })
  return counted
})
