import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import * as HttpAttempt from "@bowline/runtime/unstable/provider/HttpAttempt"
import { Provider, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { Config, Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import { toChatRequest } from "./internal/toChatRequest.ts"
import { ChatAnswerStream } from "./internal/ChatAnswerStream.ts"
import { toResponsesRequest } from "./internal/ResponsesRequest.ts"
import { ResponsesStream } from "./internal/ResponsesStream.ts"

/** A server of OpenAI, or one with the same API. */
export interface OpenAiOptions {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /**
   * With `/v1`, or what the server has in its place: `https://api.openai.com/v1`, unless it is given. Requests keep its query.
   */
  readonly baseUrl?: string
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
  (options: OpenAiOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
    Layer.effect(Provider, make(options, wire))

const layerConfigOf =
  (layer: (options: OpenAiOptions) => Layer.Layer<Provider, never, HttpClient.HttpClient>) =>
  (options: Config.Wrap<OpenAiOptions>): Layer.Layer<Provider, Config.ConfigError, HttpClient.HttpClient> =>
    Layer.unwrap(Effect.map(Config.unwrap(options), layer))

const make = Effect.fnUntraced(function* (options: OpenAiOptions, { answer, path, toBody }: Wire) {
  const { name = "openai", baseUrl = "https://api.openai.com/v1", apiKey, headers = {} } = options
  const post = HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, path)).pipe(
    apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey),
    HttpClientRequest.setHeaders(headers)
  )
  const attempt = yield* HttpAttempt.make({
    post,
    secrets: [
      ...(apiKey === undefined ? [] : [Redacted.value(apiKey)]),
      ...Object.values(headers),
      ...UrlSecrets.ofUrl(baseUrl)
    ],
    toBody: (request) => toBody(request, name),
    answer
  })
  return Provider.of({ name, server: HttpAttempt.serverOf(baseUrl), ...attempt })
})

/**
 * OpenAI's Chat Completions behind the provider port. The client must not retry. A `baseUrl` that is no http or https URL is a defect.
 *
 * @example
 * ```ts
 * import { layerChat, layerResponses } from "@bowline/provider-openai/provider/OpenAiProvider"
 * import { Redacted } from "effect"
 *
 * export const OpenAi = layerResponses({ apiKey: Redacted.make("sk-…") })
 * export const Local = layerChat({ name: "local", baseUrl: "http://127.0.0.1:8000/v1" })
 * ```
 */
export const layerChat = layerOf({ path: "/chat/completions", toBody: toChatRequest, answer: ChatAnswerStream })

/** As `layerChat`, with options that are read from the configuration. */
export const layerChatConfig = layerConfigOf(layerChat)

/**
 * OpenAI's Responses behind the provider port. The server stores nothing: the history keeps the model's encrypted reasoning, and
 * the provider of the same name gets it again. The client must not retry. A `baseUrl` that is no http or https URL is a defect.
 */
export const layerResponses = layerOf({ path: "/responses", toBody: toResponsesRequest, answer: ResponsesStream })

/**
 * As `layerResponses`, with options that are read from the configuration.
 *
 * @example
 * ```ts
 * import { layerResponsesConfig } from "@bowline/provider-openai/provider/OpenAiProvider"
 * import { Config } from "effect"
 *
 * export const OpenAi = layerResponsesConfig({ apiKey: Config.Redacted("OPENAI_API_KEY") })
 * ```
 */
export const layerResponsesConfig = layerConfigOf(layerResponses)
