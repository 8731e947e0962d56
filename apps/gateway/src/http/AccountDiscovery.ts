import { Auth, type FoundAccount, Unreachable } from "@bowline/domain/peer/PeerError"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { excerpt, ExchangeError, failure } from "@bowline/runtime/unstable/http/ExchangeError"
import { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import { seal, type SealingKey, unseal } from "@bowline/runtime/unstable/store/Sealing"
import {
  type AuthorizationServerMetadata,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  extractWWWAuthenticateParams,
  type FetchLike,
  registerClient
} from "@modelcontextprotocol/client"
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { createHash } from "node:crypto"
import type * as OpenId from "openid-client"
import type { GatewayConfig } from "../config/GatewayConfig.ts"
import { isLoopback } from "../config/setting/ReadSettings.ts"
import { accountOf, FoundClient, placeOf, readResource, refuseServer, revocationOf, scopesOf } from "./FoundServer.ts"
import { configured, makeFetch, OpenIdFailed } from "./OpenIdClient.ts"

/** How long what a server says of itself is not asked again, and of how many. */
const freshFor = Duration.minutes(10)
const maxServers = 1_000

/** How long the client of a registration is used for new grants. A grant keeps the client that it was given to. */
const clientLasts = Duration.toMillis("1 hour")

/** How long one replica may take to register, and others do not try again what has failed. */
const registrationLasts = Duration.toMillis("6 seconds")
const lookEvery = Duration.millis(100)

/** Nobody's name. What the store has of it are the clients that the gateway is at authorization servers. */
const nobody = CallerName.make(":clients")

const Registration = Schema.fromJsonString(
  Schema.Union([
    Schema.Struct({ client: FoundClient, until: Schema.Number }),
    Schema.Struct({ problem: Schema.String, until: Schema.Number })
  ])
)
const decodeRegistration = Schema.decodeUnknownOption(Registration)
const encodeRegistration = Schema.encodeSync(Registration)

/** Finds the authorization servers of accounts that the configuration does not name. Undefined, unless it allows that. */
export const AccountDiscovery = Context.Reference<
  | {
      /** What the server at a URL says of the account that it wants, which has answered 401 with this `WWW-Authenticate`. */
      readonly find: (url: string, challenge: string | undefined) => Effect.Effect<FoundAccount, ExchangeError>
      /** The host where a person logs in. */
      readonly hostOf: (found: FoundAccount) => Effect.Effect<string, OpenIdFailed>
      /** The client that the gateway is there now. One replica registers it, where that has to be. */
      readonly clientOf: (found: FoundAccount) => Effect.Effect<FoundClient, OpenIdFailed>
      /** The server, as the library speaks with it. */
      readonly serverOf: (found: FoundAccount, client: FoundClient) => Effect.Effect<OpenId.Configuration, OpenIdFailed>
      /** Where the server sends the browser back to. */
      readonly callbackOf: (found: FoundAccount) => string
    }
  | undefined
>("@bowline/gateway/http/AccountDiscovery", { defaultValue: () => undefined })

/** Of the gateway's own places, those of a client. `place` is that of a server that was found. */
export const placesOf = (root: string, place?: string) => {
  const end = place === undefined ? "" : `/${place}`
  return { client: `${root}/accounts/client${end}`, callback: `${root}/accounts/callback${end}` }
}

/** What the gateway says of itself as a client. */
export const metadataOf = (callback: string) => ({
  client_name: "Bowline",
  redirect_uris: [callback],
  grant_types: ["authorization_code", "refresh_token"],
  response_types: ["code"],
  application_type: isLoopback(new URL(callback).hostname) ? "native" : "web"
})

const problem = (message: string) => new OpenIdFailed({ cause: new Error(message) })

/** Why a request of the library has failed below it, if so. */
const exchangeErrorIn = (cause: unknown): ExchangeError | undefined => {
  if (cause instanceof ExchangeError) return cause
  return cause instanceof Error ? exchangeErrorIn(cause.cause) : undefined
}

/** What has failed, for people. No secret is sent before there is a client. */
const saidOf = ({ cause }: OpenIdFailed): string =>
  excerpt(exchangeErrorIn(cause)?.reason.message ?? (cause instanceof Error ? cause.message : String(cause)))

/** As the call ends that has got the 401. */
const toExchangeError = (failed: OpenIdFailed): ExchangeError => {
  const below = exchangeErrorIn(failed.cause)?.reason
  if (below?._tag === "egress_denied") return failure("refused", below)
  const message = `The server wants an account, and the gateway cannot find out which. ${saidOf(failed)}`
  return below?._tag === "unreachable"
    ? failure("unsent", new Unreachable({ message, code: below.code }))
    : failure("refused", new Auth({ message, status: 401 }))
}

/** How the client shows its secret: as the server says, and without one where that is all that it takes. */
const methodOf = ({
  token_endpoint_auth_methods_supported: known = ["client_secret_basic"]
}: AuthorizationServerMetadata) =>
  ["client_secret_basic", "client_secret_post", "none"].find((one) => known.includes(one))

const make = Effect.fnUntraced(function* ({ a2a: { publicUrl }, port }: GatewayConfig["Service"], key: SealingKey) {
  const fetchOwn = yield* makeFetch
  const store = yield* AccountStore
  const root = (publicUrl ?? `http://localhost:${port}`).replace(/\/+$/, "")

  /** Has the protocol's client ask. Its requests end with whoever wants to know. */
  const ask = <A>(asking: (fetch: FetchLike) => Promise<A>): Effect.Effect<A, OpenIdFailed> =>
    Effect.tryPromise({
      try: (signal) =>
        asking((url, { body, headers, method = "GET" } = {}) =>
          fetchOwn(String(url), {
            body: typeof body === "string" ? body : undefined,
            headers: Object.fromEntries(new Headers(headers)),
            method,
            redirect: "manual",
            signal
          })
        ),
      catch: (cause) => new OpenIdFailed({ cause })
    })

  const servers = yield* Cache.makeWith(
    Effect.fnUntraced(function* (issuer: string) {
      const server = yield* ask((fetchFn) => discoverAuthorizationServerMetadata(issuer, { fetchFn }))
      if (server === undefined) return yield* problem(`The authorization server ${issuer} says nothing of itself`)
      const refusal = refuseServer(issuer, server)
      return refusal === undefined ? server : yield* problem(`The authorization server ${issuer}: ${refusal}`)
    }),
    { capacity: maxServers, timeToLive: (exit) => (Exit.isSuccess(exit) ? freshFor : Duration.zero) }
  )

  const register = Effect.fnUntraced(function* (issuer: string, callback: string) {
    const server = yield* Cache.get(servers, issuer)
    const method = methodOf(server)
    if (server.registration_endpoint === undefined) {
      return yield* problem(
        `The authorization server ${issuer} registers no clients${server.client_id_metadata_document_supported === true ? ", and takes those that describe themselves at an https URL, which needs BOWLINE_PUBLIC_URL" : ""}. Name the account in the configuration (accounts in the file), with a client_id`
      )
    }
    if (method === undefined) return yield* problem(`The authorization server ${issuer} takes no secret of a client`)
    const clientMetadata = { ...metadataOf(callback), token_endpoint_auth_method: method }
    // oxlint-disable-next-line typescript/no-deprecated -- for servers that do not read a document yet, as it says
    const given = yield* ask((fetchFn) => registerClient(issuer, { metadata: server, clientMetadata, fetchFn }))
    const { client_id, client_secret, client_secret_expires_at: ends = 0, token_endpoint_auth_method = method } = given
    const now = yield* Clock.currentTimeMillis
    return {
      client: {
        client_id,
        ...(client_secret !== undefined && token_endpoint_auth_method !== "none" && { client_secret }),
        ...(token_endpoint_auth_method === "client_secret_post" && { isSecretInBody: true })
      },
      until: Math.min(now + clientLasts, ends === 0 ? Infinity : ends * 1_000)
    }
  })

  /** The client of a registration. One replica registers at a time; what has failed a moment ago has failed for the others, too. */
  const registered = Effect.fnUntraced(function* (issuer: string) {
    const { callback } = placesOf(root, placeOf(issuer))
    const belonging = `account_client ${issuer} ${callback}`
    const look = Effect.gen(function* () {
      const [kept] = yield* store.grants(nobody, callback)
      const opened = Option.flatMap(Option.fromNullishOr(kept), ({ sealed }) => unseal(sealed, belonging, key))
      const now = yield* Clock.currentTimeMillis
      return Option.filter(Option.flatMap(opened, decodeRegistration), ({ until }) => until > now)
    })
    const registerInTurn = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const turn = createHash("sha256").update(belonging).digest("base64url")
      if (!(yield* store.useOnce(turn, { now, until: now + registrationLasts }))) return Option.none()
      // Another replica may have ended while this one looked.
      const before = yield* look
      if (Option.isSome(before)) return before
      const done = yield* register(issuer, callback).pipe(
        Effect.catch((failed) =>
          Effect.map(Clock.currentTimeMillis, (now) => ({ problem: saidOf(failed), until: now + registrationLasts }))
        )
      )
      const kept = { sealed: seal(encodeRegistration(done), belonging, key), scopes: [], expires_at: done.until }
      yield* store.connect({ owner: nobody, account: callback }, { ...kept, now: yield* Clock.currentTimeMillis })
      return Option.some(done)
    })
    for (;;) {
      const before = yield* look
      const found = Option.isSome(before) ? before : yield* registerInTurn
      if (Option.isSome(found)) {
        return "client" in found.value ? found.value.client : yield* problem(found.value.problem)
      }
      yield* Effect.sleep(lookEvery)
    }
  })

  const clientOf = Effect.fnUntraced(function* ({ issuer }: FoundAccount): Effect.fn.Return<FoundClient, OpenIdFailed> {
    const server = yield* Cache.get(servers, issuer)
    const isDescribed = server.client_id_metadata_document_supported === true && root.startsWith("https:")
    if (isDescribed) return { client_id: placesOf(root, placeOf(issuer)).client }
    return yield* Effect.catchTag(registered(issuer), "StorageError", (cause) =>
      Effect.fail(new OpenIdFailed({ cause }))
    )
  })

  return {
    find: Effect.fnUntraced(function* (url: string, challenge: string | undefined) {
      const headers = challenge === undefined ? {} : { "www-authenticate": challenge }
      const { resourceMetadataUrl, scope } = extractWWWAuthenticateParams(new Response(null, { headers }))
      const account = accountOf(url)
      // What is asked here is asked from within the gateway's network.
      if (resourceMetadataUrl !== undefined && resourceMetadataUrl.origin !== new URL(url).origin) {
        return yield* problem("What its 401 names as resource_metadata is not on its own origin")
      }
      const options = resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }
      const told = yield* ask((fetchFn) => discoverOAuthProtectedResourceMetadata(account, options, fetchFn))
      const read = readResource(url, told)
      if (typeof read === "string") return yield* problem(read)
      const scopes = scopesOf(scope, told, yield* Cache.get(servers, read.issuer))
      if (scopes === undefined) return yield* problem("The scopes that it wants are none, or too many")
      const found = { ...read, scopes }
      yield* clientOf(found)
      return found
    }, Effect.mapError(toExchangeError)),
    hostOf: ({ issuer }: FoundAccount) =>
      Effect.map(Cache.get(servers, issuer), ({ authorization_endpoint }) => new URL(authorization_endpoint).host),
    clientOf,
    serverOf: Effect.fnUntraced(function* ({ issuer }: FoundAccount, client: FoundClient) {
      const server = yield* Cache.get(servers, issuer)
      const { authorization_endpoint, token_endpoint } = server
      const revocation_endpoint = revocationOf(server)
      const { authorization_response_iss_parameter_supported: sendsIss } = server
      return configured(
        {
          issuer: server.issuer,
          authorization_endpoint,
          token_endpoint,
          ...(revocation_endpoint !== undefined && { revocation_endpoint }),
          ...(sendsIss === true && { authorization_response_iss_parameter_supported: true })
        },
        {
          clientId: client.client_id,
          clientSecret: client.client_secret === undefined ? undefined : Redacted.make(client.client_secret),
          isSecretInBody: client.isSecretInBody === true
        },
        fetchOwn
      )
    }),
    callbackOf: ({ issuer }: FoundAccount) => placesOf(root, placeOf(issuer)).callback
  }
})

/** What finds accounts. Its HTTP client connects only where the egress rules allow: servers name the places. */
export const layer = (config: GatewayConfig["Service"]) =>
  Layer.effect(
    AccountDiscovery,
    Option.match(config.secretKey, {
      onNone: () =>
        Effect.die(new Error("Accounts are discovered, and there is no key that encrypts what callers grant")),
      onSome: (key) => make(config, key)
    })
  )
