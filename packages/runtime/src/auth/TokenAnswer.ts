import { Auth, Protocol, Unreachable } from "@bowline/domain/peer/PeerError"
import { Duration, Option, Redacted, Result, Schema } from "effect"
import type { Answer } from "../http/Exchange.ts"
import { type ExchangeError, failure, fromStatus } from "../http/ExchangeError.ts"

export interface AccessToken {
  readonly value: Redacted.Redacted
  /** How long the gateway uses it. */
  readonly use: Duration.Duration
}

/** RFC 6749, section 5.1. Some servers write the seconds as a string. */
const decodeToken = Schema.decodeUnknownOption(
  Schema.fromJsonString(
    Schema.Struct({
      access_token: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]+$/u)),
      token_type: Schema.String.check(Schema.isPattern(/^bearer$/iu)),
      expires_in: Schema.optionalKey(
        Schema.NullOr(Schema.Union([Schema.Number, Schema.String.check(Schema.isPattern(/^\d{1,12}$/u))]))
      )
    })
  )
)

/** RFC 6749, section 5.2: one word. Anything else may be a secret that the server repeats. */
const decodeRefusal = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ error: Schema.String.check(Schema.isPattern(/^[a-z_]{1,64}$/u)) }))
)

/** A little shorter than the token lives, since it has to arrive in time. */
const useOf = (seconds: number): Duration.Duration =>
  Duration.seconds(Math.max(0, seconds - Math.min(30, seconds / 10)))

const refused = (reason: Auth | Protocol) => Result.fail(failure("refused", reason))

/**
 * The token in the answer of a token endpoint, or why there is none: `auth` with OAuth's code where the client is refused,
 * `unreachable` where the endpoint may answer later. The message quotes nothing else of the answer, which may hold a token or
 * the client's secret.
 */
export const readToken = (
  { after, body, status }: Answer,
  secret: Redacted.Redacted | undefined
): Result.Result<AccessToken, ExchangeError> => {
  if (status >= 200 && status < 300) {
    const answer = decodeToken(body)
    if (Option.isNone(answer)) {
      return refused(new Protocol({ message: "The answer of the token endpoint is no bearer token" }))
    }
    const { access_token, expires_in } = answer.value
    const use = expires_in == null ? Duration.minutes(5) : useOf(Number(expires_in))
    return Result.succeed({ value: Redacted.make(access_token), use })
  }
  const message = `The token endpoint answered ${status}`
  if (fromStatus(status, "", after).verdict === "transient") {
    return Result.fail(failure("unsent", new Unreachable({ message }), after))
  }
  const refusal = decodeRefusal(body)
  const isSafe =
    Option.isSome(refusal) && (secret === undefined || !refusal.value.error.includes(Redacted.value(secret)))
  return refused(new Auth({ message: isSafe ? `${message}: ${refusal.value.error}` : message }))
}
