import { Cache, Duration, Effect, Exit, Redacted, Struct } from "effect"
import * as OpenId from "openid-client"
import type { FoundAccount } from "@bowline/domain/peer/PeerError"
import { ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { ConfiguredAccount } from "../config/GatewayConfig.ts"
import { AccountDiscovery, placesOf } from "./AccountDiscovery.ts"
import type { Arrival } from "./ConnectedAccounts.ts"
import { type FoundClient, placeOf } from "./FoundServer.ts"
import { attempt, configured, derive, discover, makeFetch, OpenIdFailed } from "./OpenIdClient.ts"

/** How long what an issuer says of itself is not asked again. */
const freshFor = Duration.minutes(10)

/** What an authorization server gives. */
export interface Granted {
  readonly access_token: string
  readonly refresh_token?: string
  readonly scopes: ReadonlyArray<string>
  /** Seconds from now; null if the server does not say. */
  readonly lasts: number | null
}

/** `over`: the refresh token is not good any more, or may have been used. `kept`: it was not used. */
export type Refreshed =
  | { readonly _tag: "renewed"; readonly granted: Granted }
  | { readonly _tag: "over" | "kept"; readonly cause: OpenIdFailed }

/** An account of the configuration by its name; or what its server has said of it, with the client that the gateway is there. */
export interface AccountAt {
  readonly account: string
  readonly found?: FoundAccount | undefined
  readonly client?: FoundClient | undefined
}

/** What is asked for: scopes, and the resource that the tokens are for. */
type Asked = Pick<ConfiguredAccount, "resource" | "scopes">

/** A connection that was never there, by the codes of Node.js. */
const neverReached = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"])

/** Statuses with which a server says that it has not looked at a request. */
const notNow = new Set([429, 503])

/** What an error says, and those that caused it. */
const causesOf = (error: unknown): ReadonlyArray<object> => {
  const found: Array<object> = []
  for (let at = error; typeof at === "object" && at !== null && found.length < 10;) {
    found.push(at)
    at = "reason" in at ? at.reason : "cause" in at ? at.cause : undefined
  }
  return found
}

/** Whether a refresh token that got this can be used again. A refusal of the token itself has the code `invalid_grant`. */
const isUnused = ({ cause }: OpenIdFailed): boolean =>
  causesOf(cause).some((one) => {
    if (one instanceof OpenId.ResponseBodyError) return one.error !== "invalid_grant"
    if (one instanceof Response) return notNow.has(one.status)
    return "code" in one && typeof one.code === "string" && neverReached.has(one.code)
  })

/** What an error says, for the log. The library's errors have whole answers, which may hold tokens. */
export const saidOf = ({ cause }: OpenIdFailed): string => {
  const [first] = causesOf(cause)
  if (first instanceof OpenId.ResponseBodyError)
    return `${first.status} ${/^[a-z_]{1,64}$/.exec(first.error)?.[0] ?? ""}`
  if (first instanceof ExchangeError) return first.reason.message
  return first instanceof Error ? first.message : "It failed"
}

const isToken = (text: string): boolean => /^[\x21-\x7e]+$/.test(text)

/** The authorization servers of accounts, by their names, as the library speaks with them. */
export const make = Effect.fnUntraced(function* (accounts: ReadonlyMap<string, ConfiguredAccount>) {
  const fetchOwn = yield* makeFetch
  const discovery = yield* AccountDiscovery

  const find = Effect.fnUntraced(function* (name: string) {
    const account = accounts.get(name)
    if (account === undefined) return yield* Effect.die(new Error(`There is no account ${name}`))
    const { authorization_url, issuer, revocation_url, token_url } = account
    const endpoints = {
      ...(authorization_url !== undefined && { authorization_endpoint: authorization_url }),
      ...(token_url !== undefined && { token_endpoint: token_url }),
      ...(revocation_url !== undefined && { revocation_endpoint: revocation_url })
    }
    if (authorization_url !== undefined && token_url !== undefined) {
      const server = { issuer: issuer ?? new URL(token_url).origin, ...endpoints }
      return { account, server: configured(server, account, fetchOwn) }
    }
    const client = { ...account, issuer: issuer ?? "" }
    const found = yield* attempt(() => discover(client, fetchOwn)).pipe(
      Effect.catch(() => attempt(() => discover(client, fetchOwn, "oauth2")))
    )
    if (revocation_url === undefined) return { account, server: found }
    const { issuer: own } = found.serverMetadata()
    const metadata = { ...Struct.omit(found.serverMetadata(), ["supportsPKCE"]), issuer: own }
    return { account, server: configured({ ...metadata, ...endpoints }, account, fetchOwn) }
  })
  const cache = yield* Cache.makeWith(find, {
    capacity: Math.max(1, accounts.size),
    timeToLive: (exit) => (Exit.isSuccess(exit) ? freshFor : Duration.zero)
  })

  /** One that a server has named stays with the authorization server and the client that it had. */
  const lookUp = Effect.fnUntraced(function* ({ account: name, client, found }: AccountAt) {
    if (found === undefined) return yield* Cache.get(cache, name)
    if (discovery === undefined || client === undefined) {
      return yield* new OpenIdFailed({ cause: new Error(`The configuration has no account ${name}`) })
    }
    return { account: found, server: yield* discovery.serverOf(found, client) }
  })

  const callbackOf = ({ found }: AccountAt, base: string): string =>
    found === undefined || discovery === undefined ? placesOf(base).callback : discovery.callbackOf(found)

  const resourceOf = ({ resource }: Asked) => (resource === undefined ? {} : { resource })

  const toGranted = (
    { scopes }: Asked,
    answer: {
      readonly access_token: string
      readonly refresh_token?: string
      readonly scope?: string
      readonly expires_in?: number
      readonly token_type: string
    }
  ): Granted => {
    const { access_token, expires_in, refresh_token, scope } = answer
    if (answer.token_type !== "bearer" || !isToken(access_token)) throw new Error("The answer has no bearer token")
    return {
      access_token,
      ...(refresh_token !== undefined && { refresh_token }),
      scopes: scope === undefined ? scopes : scope.split(/[\s,]+/).filter((one) => one !== ""),
      lasts: expires_in ?? null
    }
  }

  return {
    /** Where to send the browser, and as which client. `secret` is what it keeps meanwhile. */
    authorizationUrl: Effect.fnUntraced(function* (at: AccountAt, base: string, secret: string) {
      const client = at.found && discovery && (yield* discovery.clientOf(at.found))
      const { account, server } = yield* lookUp({ ...at, client })
      const challenge = yield* Effect.promise(() => OpenId.calculatePKCECodeChallenge(derive(secret, "verifier")))
      const url = OpenId.buildAuthorizationUrl(server, {
        redirect_uri: callbackOf(at, base),
        ...(account.scopes.length > 0 && { scope: account.scopes.join(" ") }),
        // Servers give what outlives the login to those alone who have agreed to it.
        ...(account.scopes.includes("offline_access") && { prompt: "consent" }),
        code_challenge: challenge,
        code_challenge_method: "S256",
        state: derive(secret, "state"),
        ...resourceOf(account)
      })
      return { url, client }
    }),
    /** Takes what the browser has come back with. */
    redeem: Effect.fnUntraced(function* (at: AccountAt, { base, place, search }: Arrival, secret: string) {
      // The answer of another server than the one to which the browser was sent: its code must not go to this one.
      if (place !== (at.found && placeOf(at.found.issuer))) {
        return yield* new OpenIdFailed({ cause: new Error("It is the answer of another authorization server") })
      }
      const { account, server } = yield* lookUp(at)
      const url = new URL(`${callbackOf(at, base)}${search}`)
      return yield* attempt(async () => {
        const checks = { pkceCodeVerifier: derive(secret, "verifier"), expectedState: derive(secret, "state") }
        return toGranted(account, await OpenId.authorizationCodeGrant(server, url, checks, resourceOf(account)))
      })
    }),
    refresh: (at: AccountAt, token: Redacted.Redacted): Effect.Effect<Refreshed> =>
      Effect.matchEffect(lookUp(at), {
        onFailure: (cause) => Effect.succeed({ _tag: "kept", cause }),
        onSuccess: ({ account, server }) =>
          attempt(async () =>
            toGranted(account, await OpenId.refreshTokenGrant(server, Redacted.value(token), resourceOf(account)))
          ).pipe(
            Effect.match({
              onFailure: (cause): Refreshed => ({ _tag: isUnused(cause) ? "kept" : "over", cause }),
              onSuccess: (granted): Refreshed => ({ _tag: "renewed", granted })
            })
          )
      }),
    /** Says to the server that a token is not used any more (RFC 7009), if it has a place for that. */
    revoke: Effect.fnUntraced(function* (at: AccountAt, token: Redacted.Redacted, hint: string) {
      const { server } = yield* lookUp(at)
      if (server.serverMetadata().revocation_endpoint === undefined) return
      yield* attempt(() => OpenId.tokenRevocation(server, Redacted.value(token), { token_type_hint: hint }))
    })
  }
})
