import { Effect } from "effect"
import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from "jose"
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

const configurationOf = (keys: ReadonlyArray<SigningKey>, more: Configuration): Configuration => ({
  jwks: { keys: keys.map(({ jwk }) => jwk) },
  clients: [
    {
      ...service,
      grant_types: ["client_credentials"],
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
      state.current = new Provider(issuer, configurationOf(keys, now))
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
