import { Unreachable } from "@bowline/domain/peer/PeerError"
import { fromClient, textOf } from "@bowline/runtime/unstable/http/Exchange"
import { failure } from "@bowline/runtime/unstable/http/ExchangeError"
import { Data, Effect, Redacted } from "effect"
import { HttpBody, HttpClient, HttpClientRequest } from "effect/http"
import { createHmac } from "node:crypto"
import * as OpenId from "openid-client"

const timeoutSeconds = 5

/** What a server says of itself, of a client or of a token is far smaller. */
const maxBytes = 512 * 1024

const late = failure("transient", new Unreachable({ message: `No answer came within ${timeoutSeconds} s` }))

/** What the library has thrown. */
export class OpenIdFailed extends Data.TaggedError("OpenIdFailed")<{ readonly cause: unknown }> {}

export const attempt = <A>(ask: () => Promise<A>): Effect.Effect<A, OpenIdFailed> =>
  Effect.tryPromise({ try: ask, catch: (cause) => new OpenIdFailed({ cause }) })

/** One of the values of a way to an authorization server and back: they all follow from the secret that the browser keeps meanwhile. */
export const derive = (secret: string, what: string): string =>
  createHmac("sha256", secret).update(what).digest("base64url")

/** Whom the gateway is at an authorization server. */
export interface Client {
  readonly clientId: string
  readonly clientSecret: Redacted.Redacted | undefined
  /** How the client shows its secret: in the head of a request, unless it says so. */
  readonly isSecretInBody?: boolean
}

/** The library's requests go out as all of the gateway's own do. No redirect is followed. */
export const makeFetch = Effect.gen(function* () {
  const client = yield* HttpClient.HttpClient
  const run = Effect.runPromiseWith(yield* Effect.context())
  const fetchOwn: OpenId.CustomFetch = (url, { body, headers, method, signal }) => {
    const request = HttpClientRequest.make(method === "POST" ? "POST" : "GET")(url, { headers })
    const text = typeof body === "string" || body instanceof URLSearchParams ? body.toString() : ""
    const sent =
      text === "" ? request : HttpClientRequest.setBody(request, HttpBody.text(text, headers["content-type"]))
    const answered = Effect.gen(function* () {
      const response = yield* Effect.mapError(client.execute(sent), fromClient)
      const answer = yield* textOf(response, maxBytes)
      const isEmpty = response.status === 204 || response.status === 304
      return new Response(isEmpty ? null : answer, { status: response.status, headers: { ...response.headers } })
    })
    return run(
      Effect.timeoutOrElse(answered, { duration: `${timeoutSeconds} seconds`, orElse: () => Effect.fail(late) }),
      signal === undefined ? {} : { signal }
    )
  }
  return fetchOwn
})

const authOf = ({ clientSecret, isSecretInBody = false }: Client) => {
  if (clientSecret === undefined) return OpenId.None()
  const secret = Redacted.value(clientSecret)
  return isSecretInBody ? OpenId.ClientSecretPost(secret) : OpenId.ClientSecretBasic(secret)
}

/** What an issuer says of itself, by OpenID Connect or by RFC 8414. */
export const discover = (
  { issuer, ...client }: Client & { readonly issuer: string },
  fetchOwn: OpenId.CustomFetch,
  algorithm: "oidc" | "oauth2" = "oidc"
): Promise<OpenId.Configuration> =>
  OpenId.discovery(new URL(issuer), client.clientId, undefined, authOf(client), {
    algorithm,
    [OpenId.customFetch]: fetchOwn,
    timeout: timeoutSeconds,
    // The operator wrote http: the provider is on the same machine, or behind a tunnel.
    // oxlint-disable-next-line typescript/no-deprecated -- it is marked so to be noticed
    ...(issuer.startsWith("http:") && { execute: [OpenId.allowInsecureRequests] })
  })

/** An authorization server of which the operator says where its endpoints are. */
export const configured = (
  server: OpenId.ServerMetadata,
  client: Client,
  fetchOwn: OpenId.CustomFetch
): OpenId.Configuration => {
  const made = new OpenId.Configuration(server, client.clientId, undefined, authOf(client))
  made[OpenId.customFetch] = fetchOwn
  made.timeout = timeoutSeconds
  // oxlint-disable-next-line typescript/no-deprecated -- it is marked so to be noticed
  if (String(server.token_endpoint).startsWith("http:")) OpenId.allowInsecureRequests(made)
  return made
}
