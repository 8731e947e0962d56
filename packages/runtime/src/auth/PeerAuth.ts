import type { CallerName } from "@bowline/domain/caller/CallerName"
import { type AgentAuth, variablesOf } from "@bowline/domain/peer/Agent"
import { AccountRequired, Auth, type FoundAccount, Unreachable } from "@bowline/domain/peer/PeerError"
import { EnvironmentSecrets } from "../config/EnvironmentSecrets.ts"
import { Clock, Effect, Option, Redacted } from "effect"
import type { HttpClient } from "effect/http"
import { failure, type ExchangeError } from "../http/ExchangeError.ts"
import { Redaction } from "../http/Redaction.ts"
import { AccountGrants } from "./AccountGrants.ts"
import { CallerTokens, OnBehalfOf } from "./CallerTokens.ts"
import { GatewayIdentity, type Identity } from "./GatewayIdentity.ts"
import * as AccessTokens from "./AccessTokens.ts"
import type { AccessToken } from "./TokenAnswer.ts"

export type Headers = Readonly<Record<string, string>>

/** Proves to a peer who asks. */
export interface PeerAuth {
  /** The headers of a request with exactly this body. They hold secrets. */
  readonly headers: (body: string) => Effect.Effect<Headers, ExchangeError>
  /** Drops a token that got a 401 with this `WWW-Authenticate`. Says whether the request is worth making once more. */
  readonly renew: (challenge?: string) => Effect.Effect<boolean, ExchangeError>
  /** Knows the tokens of all headers so far. */
  readonly redaction: Redaction
}

const withToken = (token: Redacted.Redacted): Headers => ({ authorization: `Bearer ${Redacted.value(token)}` })

const fixed = (headers: Headers): PeerAuth => ({
  headers: () => Effect.succeed(headers),
  renew: () => Effect.succeed(false),
  redaction: new Redaction().addAuthorization(headers["authorization"])
})

const signed = ({ did, signRequest }: Identity, headers: Headers): PeerAuth => ({
  headers: (body) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const timestamp = Math.floor(now / 1_000)
      return {
        ...headers,
        "x-did": did,
        "x-did-timestamp": String(timestamp),
        "x-did-signature": signRequest(body, timestamp)
      }
    }),
  renew: () => Effect.succeed(false),
  redaction: new Redaction().addAuthorization(headers["authorization"])
})

const granted = (tokens: AccessTokens.AccessTokens, grant: AccessTokens.Grant): PeerAuth => {
  const redaction = new Redaction()
  let last: AccessToken | undefined
  return {
    headers: () =>
      Effect.map(tokens.get(grant), (token) => {
        last = token
        const headers = withToken(token.value)
        redaction.addAuthorization(headers["authorization"])
        return headers
      }),
    renew: () => Effect.as(last === undefined ? Effect.void : tokens.drop(grant, last), true),
    redaction
  }
}

const notGranted = (account: string, found?: FoundAccount) =>
  failure(
    "refused",
    new AccountRequired({
      account,
      found,
      message: `The caller has not granted what the gateway needs at the account ${account}. The plan goes on once the caller has`
    })
  )

/** Where a server is that is called with what its caller has granted, and as whom. */
interface Lender {
  readonly url: string
  readonly account: string
  readonly isFound: boolean
  readonly caller: CallerName | undefined
}

/** What the caller has granted at an account. Where the configuration does not name it, the server is asked without a token first: its 401 says where to get one. */
const lent = (
  { find, refuse, token }: (typeof AccountGrants)["Service"],
  { account, caller, isFound, url }: Lender
): PeerAuth => {
  const redaction = new Redaction()
  let last: Redacted.Redacted | undefined
  const own = caller === undefined ? Effect.succeedNone : token(caller, account)
  return {
    headers: Effect.fnUntraced(function* () {
      last = Option.getOrUndefined(yield* own)
      if (last === undefined) return isFound && caller !== undefined ? {} : yield* notGranted(account)
      const headers = withToken(last)
      redaction.addAuthorization(headers["authorization"])
      return headers
    }),
    renew: Effect.fnUntraced(function* (challenge) {
      if (caller !== undefined && last !== undefined) yield* refuse(caller, account, last)
      // The caller may have granted something meanwhile.
      if (!isFound || Option.isSome(yield* own)) return true
      return yield* notGranted(account, yield* find(url, challenge))
    }),
    redaction
  }
}

const unsent = (message: string) => failure("unsent", new Auth({ message: `${message}: nothing was sent` }))

/**
 * The credentials for agents. Where a variable is not set or not allowed, or the gateway has no identity, the error names it
 * and nothing is sent.
 */
export const make = Effect.fnUntraced(function* (client: HttpClient.HttpClient) {
  const secrets = yield* EnvironmentSecrets
  const identity = yield* GatewayIdentity

  const secretOf = Effect.fnUntraced(function* (name: string): Effect.fn.Return<Redacted.Redacted, ExchangeError> {
    const secret = yield* secrets.get(name)
    if (Option.isSome(secret)) return secret.value
    const why = secrets.isAllowed(name) ? "is not set" : "is not on the list of allowed variables"
    return yield* unsent(`The variable ${name} ${why}`)
  })
  const callers = yield* CallerTokens
  const grants = yield* AccountGrants
  const tokens = yield* AccessTokens.make(client, {
    secretOf,
    tokenOf: (caller) =>
      Effect.mapError(callers.newest(caller), () =>
        failure("unsent", new Unreachable({ message: "The database, which has the caller's token, does not answer" }))
      )
  })

  /** A header holds visible characters of ASCII. */
  const bearer = (token: Redacted.Redacted, where: string): Effect.Effect<Headers, ExchangeError> =>
    /^[\x21-\x7e]+$/.test(Redacted.value(token))
      ? Effect.succeed(withToken(token))
      : Effect.fail(unsent(`${where} is not a token of visible ASCII characters`))
  const bearerOf = (name: string) => Effect.flatMap(secretOf(name), (token) => bearer(token, `The variable ${name}`))

  return {
    /** For requests to this URL. An OAuth token is asked for with the `resource` that it is for, if that is given. Who acts for a caller does so for the one that this is asked `OnBehalfOf`. */
    forAgent: Effect.fnUntraced(function* (
      auth: AgentAuth,
      url: string,
      resource?: string
    ): Effect.fn.Return<PeerAuth, ExchangeError> {
      switch (auth.type) {
        case "none":
          return fixed({})
        case "bearer":
          return fixed(yield* bearer(auth.token, "The token"))
        case "bearer_env":
          return fixed(yield* bearerOf(auth.env_var))
        case "did_signed": {
          if (Option.isNone(identity)) {
            return yield* unsent(
              "The gateway has no identity to sign with: BOWLINE_DID_SEED (identity.seed in the file) is not set"
            )
          }
          const { token_env_var } = auth
          return signed(identity.value, token_env_var === undefined ? {} : yield* bearerOf(token_env_var))
        }
        case "oauth2_client_credentials":
          yield* secretOf(auth.client_secret_env_var)
          return granted(tokens, resource === undefined ? auth : { ...auth, resource })
        case "account":
          return lent(grants, { url, ...grants.accountAt(auth.account, url), caller: yield* OnBehalfOf })
        case "token_exchange":
          for (const [, name] of variablesOf(auth)) yield* secretOf(name)
          return granted(tokens, {
            ...auth,
            ...(resource !== undefined && auth.resource === undefined && { resource }),
            caller: yield* OnBehalfOf
          })
      }
    })
  }
})

export type PeerAuths = Effect.Success<ReturnType<typeof make>>
