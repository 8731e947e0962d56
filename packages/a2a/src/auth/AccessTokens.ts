import type { AgentAuth } from "@bowline/domain/peer/Agent"
import { Auth, Protocol, Unreachable } from "@bowline/domain/peer/PeerError"
import { Cache, Duration, Effect, Exit, Option, Redacted, Schema } from "effect"
import { HttpClientRequest, type HttpClient } from "effect/http"
import { exchange, type Answer } from "../http/Exchange.ts"
import { ExchangeError, failure, fromStatus } from "../http/ExchangeError.ts"

/** Whose token, and where it comes from. */
export type Grant = AgentAuth & { readonly type: "oauth2_client_credentials" }

export interface AccessToken {
  readonly value: Redacted.Redacted
  /** For how long it is used. */
  readonly use: Duration.Duration
}

const maxBytes = 64 * 1024
const timeout = "10 seconds"

/** RFC 6749, section 5.1. Some servers write the seconds as a string. */
const TokenAnswer = Schema.fromJsonString(
  Schema.Struct({
    access_token: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]+$/u)),
    token_type: Schema.String.check(Schema.isPattern(/^bearer$/iu)),
    expires_in: Schema.optionalKey(
      Schema.NullOr(Schema.Union([Schema.Number, Schema.String.check(Schema.isPattern(/^\d{1,12}$/u))]))
    )
  })
)
const decodeToken = Schema.decodeUnknownOption(TokenAnswer)

/** RFC 6749, section 5.2: a word. Anything else could be a secret that the server repeats. */
const decodeRefusal = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ error: Schema.String.check(Schema.isPattern(/^[a-z_]{1,64}$/u)) }))
)

/** How long a token of so many seconds is used: a little shorter, since it has to arrive, too. */
export const useOf = (seconds: number | undefined): Duration.Duration =>
  seconds === undefined ? Duration.minutes(5) : Duration.seconds(Math.max(0, seconds - Math.min(30, seconds / 10)))

/** Nothing has reached the peer: the request for a token can be made again, unless the server has said no. */
const fromExchange = ({ after, reason }: ExchangeError): ExchangeError => {
  switch (reason._tag) {
    case "unreachable":
      return failure("unsent", new Unreachable({ message: `The token endpoint is away. ${reason.message}` }), after)
    case "egress_denied":
      return failure("refused", reason)
    default:
      return failure("refused", new Auth({ message: `The token endpoint gave no token. ${reason.message}` }))
  }
}

const timedOut = failure("unsent", new Unreachable({ message: "The token endpoint took longer than 10 seconds" }))

const tokenOf = (
  { after, body, status }: Answer,
  secret: Redacted.Redacted
): Effect.Effect<AccessToken, ExchangeError> => {
  if (status >= 200 && status < 300) {
    const answer = decodeToken(body)
    if (Option.isNone(answer)) {
      // What does not decode is not quoted: it may hold a token.
      return Effect.fail(
        failure("refused", new Protocol({ message: "The answer of the token endpoint is no bearer token" }))
      )
    }
    const { access_token, expires_in } = answer.value
    const seconds = expires_in == null ? undefined : Number(expires_in)
    return Effect.succeed({ value: Redacted.make(access_token), use: useOf(seconds) })
  }
  const message = `The token endpoint answered ${status}`
  if (fromStatus(status, "", after).verdict === "transient") {
    return Effect.fail(failure("unsent", new Unreachable({ message }), after))
  }
  const code = Option.filter(decodeRefusal(body), ({ error }) => !error.includes(Redacted.value(secret)))
  return Effect.fail(
    failure(
      "refused",
      new Auth({ message: message + Option.match(code, { onNone: () => "", onSome: ({ error }) => `: ${error}` }) })
    )
  )
}

/** As the parts of a form are encoded: RFC 6749, section 2.3.1. */
const formEncoded = (text: string): string => new URLSearchParams([["", text]]).toString().slice(1)

/**
 * Tokens of OAuth 2.0 by client credentials (RFC 6749, section 4.4), one for each grant: asked for once by all that wait,
 * within 10 seconds, and used until shortly before it expires, or for 5 minutes. `secretOf` finds the client's secret.
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
        ...(grant.scope !== undefined && { scope: grant.scope })
      })
    )
    const answer = exchange(client, request, maxBytes).pipe(
      Effect.mapError(fromExchange),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut) })
    )
    return yield* tokenOf(yield* answer, secret)
  })

  const tokens = yield* Cache.makeWith(ask, {
    capacity: 1_000,
    timeToLive: (exit) => (Exit.isSuccess(exit) ? exit.value.use : Duration.zero)
  })
  return {
    get: (grant: Grant): Effect.Effect<AccessToken, ExchangeError> => Cache.get(tokens, grant),
    /** Forgets a token that was refused. If there is a newer one already, that is kept. */
    drop: (grant: Grant, refused: AccessToken): Effect.Effect<void> =>
      Effect.asVoid(Cache.invalidateWhen(tokens, grant, (token) => token === refused))
  }
})

export type AccessTokens = Effect.Success<ReturnType<typeof make>>
