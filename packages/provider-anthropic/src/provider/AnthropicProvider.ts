import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import * as HttpAttempt from "@bowline/runtime/unstable/provider/HttpAttempt"
import { Provider } from "@bowline/runtime/provider/Provider"
import { Config, Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import { toMessagesRequest } from "./internal/MessagesRequest.ts"
import { MessagesStream } from "./internal/MessagesStream.ts"

/** A server that speaks Anthropic's Messages. */
export interface AnthropicOptions {
  /** What stands in front of the model in `provider/model`: `anthropic`, unless it is given. */
  readonly name?: string
  /** Without `/v1`: `https://api.anthropic.com`, unless it is given. Requests keep its query. */
  readonly baseUrl?: string
  /** Some servers need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Anthropic's Messages behind the provider port. The client must not retry. A `baseUrl` that is no http or https URL is a defect.
 *
 * @example
 * ```ts
 * import { layer } from "@bowline/provider-anthropic/provider/AnthropicProvider"
 * import { Redacted } from "effect"
 *
 * export const Anthropic = layer({ apiKey: Redacted.make("sk-ant-…") })
 * ```
 */
export const layer = (options: AnthropicOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))

/** As `layer`, with options that are read from the configuration. */
export const layerConfig = (
  options: Config.Wrap<AnthropicOptions>
): Layer.Layer<Provider, Config.ConfigError, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.map(Config.unwrap(options), layer))

const make = Effect.fnUntraced(function* (options: AnthropicOptions) {
  const { name = "anthropic", baseUrl = "https://api.anthropic.com", headers = {} } = options
  const key = options.apiKey === undefined ? {} : { "x-api-key": Redacted.value(options.apiKey) }
  const attempt = yield* HttpAttempt.make({
    post: HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, "/v1/messages"), {
      headers: { "anthropic-version": "2023-06-01", ...key, ...headers }
    }),
    secrets: [...Object.values({ ...key, ...headers }), ...UrlSecrets.ofUrl(baseUrl)],
    toBody: (request) => toMessagesRequest(request, name),
    answer: MessagesStream
  })
  return Provider.of({ name, server: HttpAttempt.serverOf(baseUrl), ...attempt })
})
