import { Effect } from "effect"
import { createLocalJWKSet, exportJWK, generateKeyPair, type JWK, type JWTPayload, jwtVerify, SignJWT } from "jose"
import { once } from "node:events"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import Provider, { type Configuration } from "oidc-provider"

/** A key that signs, with its public part. */
export interface SigningKey {
  readonly kid: string
  readonly alg: string
  readonly jwk: JWK
}

export const newKey = (kid: string, alg = "RS256"): Effect.Effect<SigningKey> =>
  Effect.promise(async () => {
    const { privateKey } = await generateKeyPair(alg, { extractable: true })
    return { kid, alg, jwk: { ...(await exportJWK(privateKey)), kid, alg, use: "sig" } }
  })

/** The API that tokens are for, as the provider knows it. */
export const audience = "https://bowline.test/"

/** The client of services. Its tokens have its id as `sub`. */
export const service = { client_id: "desk", client_secret: "desk-secret" }

/** How many seconds such a token lives. */
const exchangedFor = 900

const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"

/** Gives a token for another API in exchange for one of this provider, with the same subject (RFC 8693). */
const exchangeTokens = (provider: Provider, keys: ReadonlyArray<SigningKey>): void => {
  const [key] = keys
  if (key === undefined) return
  const set = createLocalJWKSet({
    keys: keys.map(({ jwk: { alg, e, kid, kty, n } }) => ({ alg, e, kid, kty, n }) as JWK)
  })
  provider.registerGrantType(
    exchange,
    async (ctx) => {
      const { audience: wanted = "", subject_token = "" } = ctx.oidc.params as Readonly<Record<string, string>>
      const verified = await jwtVerify(subject_token, set, { issuer: provider.issuer, audience }).catch(() => undefined)
      const { client } = ctx.oidc
      if (verified === undefined || client === undefined) {
        ctx.status = 400
        ctx.body = { error: "invalid_request" }
        return
      }
      const claims = { iss: provider.issuer, sub: verified.payload.sub ?? "", aud: wanted, client_id: client.clientId }
      const expires = Math.floor(Date.now() / 1_000) + exchangedFor
      ctx.body = {
        access_token: await Effect.runPromise(sign(key, { ...claims, exp: expires })),
        issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
        token_type: "Bearer",
        expires_in: exchangedFor
      }
    },
    ["subject_token", "subject_token_type", "actor_token", "actor_token_type", "audience", "resource", "scope"]
  )
}

const configurationOf = (keys: ReadonlyArray<SigningKey>, more: Configuration): Configuration => ({
  jwks: { keys: keys.map(({ jwk }) => jwk) },
  clients: [
    {
      ...service,
      grant_types: ["client_credentials", exchange],
      redirect_uris: [],
      response_types: []
    }
  ],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        scope: "ask",
        audience,
        accessTokenFormat: "jwt",
        accessTokenTTL: 900,
        jwt: { sign: { alg: "RS256" } }
      })
    }
  },
  ...more
})

/**
 * A real OpenID provider on a socket of its own. `rotate` gives it other keys; `requests` are the paths that it was asked for. While it `isAway` it answers
 * nothing but 503.
 */
export const serve = Effect.fnUntraced(function* (first: ReadonlyArray<SigningKey>, more: Configuration = {}) {
  const state: { isAway: boolean; current: Provider | undefined } = { isAway: false, current: undefined }
  const requests: Array<string> = []
  const server = createServer((request, response) => {
    requests.push(new URL(request.url ?? "/", "http://x").pathname)
    if (state.isAway || state.current === undefined) return void response.writeHead(503).end()
    void state.current.callback()(request, response)
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => once(server.listen(0, "127.0.0.1"), "listening")),
    () =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )
  const { port } = server.address() as AddressInfo
  const issuer = `http://127.0.0.1:${port}`
  const rotate = (keys: ReadonlyArray<SigningKey>, now = more) =>
    Effect.sync(() => {
      const provider = new Provider(issuer, configurationOf(keys, now))
      exchangeTokens(provider, keys)
      state.current = provider
    })
  yield* rotate(first)
  return {
    issuer,
    requests,
    rotate,
    setAway: (isAway: boolean) => Effect.sync(() => void (state.isAway = isAway)),
    /** A token of the service, as it gets it. */
    token: Effect.promise(async () => {
      const body = new URLSearchParams({ grant_type: "client_credentials", resource: audience, scope: "ask" })
      const basic = Buffer.from(`${service.client_id}:${service.client_secret}`).toString("base64")
      const headers = { authorization: `Basic ${basic}` }
      const response = await fetch(`${issuer}/token`, { method: "POST", headers, body })
      const answer = (await response.json()) as { readonly access_token: string }
      return answer.access_token
    })
  }
})

/** A token that a key signs: what a provider would say, or an attacker. Times in seconds. */
export const sign = (
  { alg, jwk, kid }: SigningKey,
  claims: JWTPayload,
  header: Readonly<Record<string, unknown>> = {}
): Effect.Effect<string> =>
  Effect.promise(async () => {
    const { importJWK } = await import("jose")
    return new SignJWT(claims).setProtectedHeader({ alg, kid, ...header }).sign(await importJWK(jwk, alg))
  })
