import type { AgentAuth } from "@bowline/domain/peer/Agent"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import { AccountRequired, Auth } from "@bowline/domain/peer/PeerError"
import { Cache, Duration, Effect, Exit, Option, Redacted } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange } from "../http/Exchange.ts"
import { type ExchangeError, failure } from "../http/ExchangeError.ts"
import { readToken, type AccessToken } from "./TokenAnswer.ts"

/** The client that a token is for, the endpoint that gives it, and the server that takes it, where the token names it (RFC 8707). */
export type ClientGrant = AgentAuth & { readonly type: "oauth2_client_credentials"; readonly resource?: string }

/** The same, and the caller as whom the token lets the gateway act: undefined is nobody, who gets none. */
export type ExchangeGrant = AgentAuth & { readonly type: "token_exchange"; readonly caller: CallerName | undefined }

export type Grant = ClientGrant | ExchangeGrant

const accessToken = "urn:ietf:params:oauth:token-type:access_token"
const exchangeType = "urn:ietf:params:oauth:grant-type:token-exchange"

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

const nobodysToken = failure(
  "refused",
  new AccountRequired({
    account: null,
    message:
      "The gateway has no valid token of the caller any more. The plan goes on when the caller comes again with one"
  })
)

/** As the parts of a form are encoded: RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([["", text]]).toString().slice(1)

/** What finds secrets. */
export interface Secrets {
  /** Of the environment. */
  readonly secretOf: (variable: string) => Effect.Effect<Redacted.Redacted, ExchangeError>
  /** The newest token of a caller that is valid. */
  readonly tokenOf: (caller: CallerName) => Effect.Effect<Option.Option<Redacted.Redacted>, ExchangeError>
}

/**
 * OAuth 2.0 tokens by client credentials (RFC 6749, section 4.4) or in exchange for the caller's token (RFC 8693), one for each grant. Calls that wait for the same token share
 * one request, of 10 seconds at most. A token is used until shortly before it expires.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient, { secretOf, tokenOf }: Secrets) {
  /** What the gateway shows of the caller and of itself, to act as the caller. */
  const exchanged = Effect.fnUntraced(function* ({ actor_token_env_var, audience, caller }: ExchangeGrant) {
    const subject = caller === undefined ? Option.none<Redacted.Redacted>() : yield* tokenOf(caller)
    if (Option.isNone(subject)) return yield* nobodysToken
    const actor = actor_token_env_var === undefined ? undefined : yield* secretOf(actor_token_env_var)
    return {
      grant_type: exchangeType,
      subject_token: Redacted.value(subject.value),
      subject_token_type: accessToken,
      ...(actor !== undefined && { actor_token: Redacted.value(actor), actor_token_type: accessToken }),
      ...(audience !== undefined && { audience })
    }
  })

  const ask = Effect.fnUntraced(function* (grant: Grant): Effect.fn.Return<AccessToken, ExchangeError> {
    const { client_id, client_secret_env_var, resource, scope } = grant
    const shown = grant.type === "token_exchange" ? yield* exchanged(grant) : { grant_type: "client_credentials" }
    const secret = client_secret_env_var === undefined ? undefined : yield* secretOf(client_secret_env_var)
    const isPublic = client_id !== undefined && secret === undefined
    const form = HttpClientRequest.post(grant.token_url, { headers: { accept: "application/json" } }).pipe(
      HttpClientRequest.bodyUrlParams({
        ...shown,
        ...(isPublic && { client_id }),
        ...(scope !== undefined && { scope }),
        ...(resource !== undefined && { resource })
      })
    )
    const request =
      client_id === undefined || secret === undefined
        ? form
        : HttpClientRequest.basicAuth(form, formEncoded(client_id), formEncoded(Redacted.value(secret)))
    const answer = exchange(client, request, maxBytes).pipe(
      Effect.mapError(fromExchange),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) })
    )
    return yield* Effect.fromResult(readToken(yield* answer, secret))
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
