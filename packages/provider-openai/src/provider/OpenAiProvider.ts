import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import * as HttpAttempt from "@bowline/runtime/unstable/provider/HttpAttempt"
import { Provider, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import { toChatRequest } from "./internal/ChatRequest.ts"
import { ChatStream } from "./internal/ChatStream.ts"
import { toResponsesRequest } from "./internal/ResponsesRequest.ts"
import { ResponsesStream } from "./internal/ResponsesStream.ts"

/** A server of OpenAI, or one with the same API. */
export interface OpenAiOptions {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /** With `/v1`, or what the server has in its place. Requests keep its query. */
  readonly baseUrl: string
  /** Some servers need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}

interface Wire extends Pick<HttpAttempt.HttpWire, "answer"> {
  readonly path: string
  /** `provider` is the name of the provider. */
  readonly toBody: (request: ProviderRequest, provider: string) => object
}

const layerOf =
  (wire: Wire) =>
  (server: OpenAiOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
    Layer.effect(Provider, make(server, wire))

const make = Effect.fnUntraced(function* (server: OpenAiOptions, { answer, path, toBody }: Wire) {
  const { name = "openai", baseUrl, apiKey, headers = {} } = server
  const post = HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, path)).pipe(
    apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey),
    HttpClientRequest.setHeaders(headers)
  )
  const stream = yield* HttpAttempt.make({
    post,
    secrets: [
      ...(apiKey === undefined ? [] : [Redacted.value(apiKey)]),
      ...Object.values(headers),
      ...UrlSecrets.ofUrl(baseUrl)
    ],
    toBody: (request) => toBody(request, name),
    answer
  })
  return Provider.of({ name, server: HttpAttempt.serverOf(baseUrl), stream })
})

/** OpenAI's Chat Completions behind the provider port. The client must not retry. */
export const layerChat = layerOf({ path: "/chat/completions", toBody: toChatRequest, answer: ChatStream })

/**
 * OpenAI's Responses behind the provider port. The server stores nothing: the history keeps the model's encrypted reasoning, and
 * the provider of the same name gets it again. The client must not retry.
 *
 * @example
 * ```ts
 * import { layerResponses } from "@bowline/provider-openai/provider/OpenAiProvider"
 * import { Redacted } from "effect"
 *
 * export const OpenAi = layerResponses({ baseUrl: "https://api.openai.com/v1", apiKey: Redacted.make("sk-…") })
 * ```
 */
export const layerResponses = layerOf({ path: "/responses", toBody: toResponsesRequest, answer: ResponsesStream })
