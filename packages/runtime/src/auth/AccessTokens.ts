import type { AgentAuth } from "@bowline/domain/peer/Agent"
import { Auth } from "@bowline/domain/peer/PeerError"
import { Cache, Duration, Effect, Exit, Redacted } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange } from "../http/Exchange.ts"
import { type ExchangeError, failure } from "../http/ExchangeError.ts"
import { tokenOf, type AccessToken } from "./TokenAnswer.ts"

/** The client that a token is for, the endpoint that gives it, and the server that takes it, where the token names it (RFC 8707). */
export type Grant = AgentAuth & { readonly type: "oauth2_client_credentials"; readonly resource?: string }

const maxBytes = 64 * 1024
const timeout = "10 seconds"

/** The request has not reached the peer yet, so it can be made again, unless the token endpoint refused. */
const fromExchange = ({ after, reason }: ExchangeError): ExchangeError => {
  switch (reason._tag) {
    case "unreachable":
      return failure("unsent", new Auth({ message: `The token endpoint cannot be reached. ${reason.message}` }), after)
    case "egress_denied":
      return failure("refused", reason)
    default:
      return failure("refused", new Auth({ message: `The token endpoint gave no token. ${reason.message}` }))
  }
}

const timedOut = failure("unsent", new Auth({ message: "The token endpoint took longer than 10 seconds" }))

/** As the parts of a form are encoded: RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([["", text]]).toString().slice(1)

/**
 * OAuth 2.0 tokens by client credentials (RFC 6749, section 4.4), one for each grant. Calls that wait for the same token share
 * one request, of 10 seconds at most. A token is used until shortly before it expires. `secretOf` finds the client's secret.
 */
export const make = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  secretOf: (variable: string) => Effect.Effect<Redacted.Redacted, ExchangeError>
) {
  const ask = Effect.fnUntraced(function* (grant: Grant): Effect.fn.Return<AccessToken, ExchangeError> {
    const secret = yield* secretOf(grant.client_secret_env_var)
    const request = HttpClientRequest.post(grant.token_url, { headers: { accept: "application/json" } }).pipe(
      HttpClientRequest.basicAuth(formEncoded(grant.client_id), formEncoded(Redacted.value(secret))),
      HttpClientRequest.bodyUrlParams({
        grant_type: "client_credentials",
        ...(grant.scope !== undefined && { scope: grant.scope }),
        ...(grant.resource !== undefined && { resource: grant.resource })
      })
    )
    const answer = exchange(client, request, maxBytes).pipe(
      Effect.mapError(fromExchange),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) })
    )
    return yield* Effect.fromResult(tokenOf(yield* answer, secret))
  })

  const tokens = yield* Cache.makeWith(ask, {
    capacity: 1_000,
    timeToLive: (exit) => (Exit.isSuccess(exit) ? exit.value.use : Duration.zero)
  })
  return {
    get: (grant: Grant): Effect.Effect<AccessToken, ExchangeError> => Cache.get(tokens, grant),
    /** Forgets a token that the peer refused. A newer one is kept. */
    drop: (grant: Grant, refused: AccessToken): Effect.Effect<void> =>
      Effect.asVoid(Cache.invalidateWhen(tokens, grant, (token) => token === refused))
  }
})

export type AccessTokens = Effect.Success<ReturnType<typeof make>>
