import * as HttpAttempt from "@bowline/runtime/provider/HttpAttempt"
import { Provider, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import type { OpenAiServer } from "../OpenAiServer.ts"

interface Wire extends Pick<HttpAttempt.HttpWire, "answer"> {
  readonly path: string
  /** `provider` is the name of the provider. */
  readonly toBody: (request: ProviderRequest, provider: string) => object
}

/** A provider for a server, on one of the server's wires. */
export const providerLayer = (server: OpenAiServer, wire: Wire): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(server, wire))

const make = Effect.fnUntraced(function* (server: OpenAiServer, { answer, path, toBody }: Wire) {
  const { name = "openai", baseUrl, apiKey, headers = {} } = server
  const post = HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, path)).pipe(
    apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey),
    HttpClientRequest.setHeaders(headers)
  )
  const stream = yield* HttpAttempt.make({
    post,
    secrets: [...(apiKey === undefined ? [] : [Redacted.value(apiKey)]), ...Object.values(headers)],
    toBody: (request) => toBody(request, name),
    answer
  })
  return Provider.of({ name, server: HttpAttempt.serverOf(baseUrl), stream })
})
