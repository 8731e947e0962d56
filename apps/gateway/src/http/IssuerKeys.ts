import { exchange } from "@bowline/runtime/unstable/http/Exchange"
import { Clock, Duration, Effect, Fiber, FiberSet, Option, Schema } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import type { FileIssuer } from "../config/file/IssuerSchema.ts"

/** How long an identity provider may take for one answer, and how large it may be: it is trusted, but may fail. */
const timeout = "5 seconds"
const maxBytes = 1_048_576
const maxKeys = 1_000

/** How long nobody asks again for a key that is not there, after the last request: whoever sends tokens could have the gateway ask as often as it wants. */
const askedEvery = Duration.toMillis("30 seconds")

/** Older keys are asked for again beside the request that needs one: the identity provider may have taken some back. */
const freshFor = Duration.toMillis("10 minutes")

const Jwk = Schema.StructWithRest(
  Schema.Struct({
    kty: Schema.String,
    kid: Schema.optionalKey(Schema.String),
    use: Schema.optionalKey(Schema.String)
  }),
  [Schema.Record(Schema.String, Schema.Json)]
)
export type Jwk = typeof Jwk.Type

const Jwks = Schema.Struct({ keys: Schema.Array(Jwk).check(Schema.isMaxLength(maxKeys)) })
const Metadata = Schema.Struct({ issuer: Schema.String, jwks_uri: Schema.String })

const parse = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) =>
  Schema.decodeUnknownEffect(Schema.fromJsonString(schema))

/** The JSON at a URL. */
const fetchJson = Effect.fnUntraced(function* <S extends Schema.ConstraintDecoder<unknown>>(
  client: HttpClient.HttpClient,
  url: string,
  schema: S
) {
  const request = HttpClientRequest.get(url, { headers: { accept: "application/json" } })
  const { body, status } = yield* exchange(client, request, maxBytes)
  if (status !== 200) return yield* Effect.fail(`${url} answers ${status}`)
  return yield* parse(schema)(body)
}, Effect.timeout(timeout))

/** Where an issuer says what it is: OpenID Connect Discovery, then RFC 8414. */
const metadataUrls = (issuer: string): ReadonlyArray<string> => {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/+$/, "")
  return [
    `${origin}${path}/.well-known/openid-configuration`,
    `${origin}/.well-known/oauth-authorization-server${path}`
  ]
}

/** The keys of an issuer as they were read last. */
export interface KeySet {
  readonly keys: ReadonlyArray<Jwk>
  readonly kids: ReadonlySet<string>
  readonly at: number
}

/**
 * The public keys of an issuer, found by discovery. A key that is known needs no identity provider; one that is not is asked for, at most once in 30 s, for
 * all requests together.
 */
export const make = Effect.fnUntraced(function* ({ issuer, jwks_url, name }: FileIssuer) {
  const client = yield* HttpClient.HttpClient
  const fork = yield* FiberSet.makeRuntime<never, void>()
  let known: KeySet | undefined
  let askedAt = -Infinity
  let isAway = false
  let discovered = jwks_url
  let asking: Fiber.Fiber<void> | undefined

  const discover = Effect.gen(function* () {
    const [openid = "", oauth = ""] = metadataUrls(issuer)
    const found = yield* fetchJson(client, openid, Metadata).pipe(
      Effect.catch(() => fetchJson(client, oauth, Metadata))
    )
    if (found.issuer !== issuer) return yield* Effect.fail(`${openid} names another issuer`)
    return found.jwks_uri
  })

  const ask = Effect.gen(function* () {
    askedAt = yield* Clock.currentTimeMillis
    discovered ??= yield* discover
    const { keys } = yield* fetchJson(client, discovered, Jwks)
    const usable = keys.filter(({ kty, use = "sig" }) => use === "sig" && kty !== "oct")
    known = { keys: usable, kids: new Set(usable.flatMap(({ kid }) => kid ?? [])), at: yield* Clock.currentTimeMillis }
    isAway = false
  }).pipe(
    Effect.catchCause((cause) => {
      isAway = true
      discovered = jwks_url
      return Effect.annotateLogs(Effect.logWarning("identity_provider_failed", cause), { issuer: name })
    })
  )

  /** Asks, or waits for whoever asks already: who waits may leave, and others wait on. */
  const askOnce = Effect.suspend(() => {
    if (asking !== undefined) return Fiber.await(asking)
    const fiber = fork(ask)
    asking = fiber
    fiber.addObserver(() => (asking = undefined))
    return Fiber.await(fiber)
  })

  return {
    /** The keys, with this one if the issuer has it. None if nobody knows whether it has: `seconds` says when to ask again. */
    find: Effect.fnUntraced(function* (kid: string | undefined) {
      const isKnown = () => known !== undefined && (kid === undefined || known.kids.has(kid))
      const now = yield* Clock.currentTimeMillis
      const isDue = now - askedAt >= askedEvery
      if (isKnown()) {
        if (known !== undefined && now - known.at >= freshFor && isDue) fork(Effect.asVoid(askOnce))
      } else if (isDue || asking !== undefined) {
        yield* askOnce
      }
      const seconds = Math.max(1, Math.ceil((askedAt + askedEvery - now) / 1_000))
      return {
        seconds,
        set: known !== undefined && (isKnown() || !isAway) ? Option.some(known) : Option.none<KeySet>()
      }
    }),
    /** Asks again for the keys of a token that names none, unless that was done just now. Whether it was asked. */
    askAgain: Effect.gen(function* () {
      if ((yield* Clock.currentTimeMillis) - askedAt < askedEvery) return false
      yield* askOnce
      return !isAway
    })
  }
})
