import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import * as HttpAttempt from "@bowline/runtime/unstable/provider/HttpAttempt"
import { Provider } from "@bowline/runtime/provider/Provider"
import { Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import { toMessagesRequest } from "./internal/MessagesRequest.ts"
import { MessagesStream } from "./internal/MessagesStream.ts"

/** A server that speaks Anthropic's Messages. */
export interface AnthropicOptions {
  /** What stands in front of the model in `provider/model`: `anthropic`, unless it is given. */
  readonly name?: string
  /** Without `/v1`. Requests keep its query. */
  readonly baseUrl: string
  /** Some servers need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}

/** Anthropic's Messages behind the provider port. The client must not retry. */
export const layer = (options: AnthropicOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))

const make = Effect.fnUntraced(function* (options: AnthropicOptions) {
  const { name = "anthropic", baseUrl, headers = {} } = options
  const key = options.apiKey === undefined ? {} : { "x-api-key": Redacted.value(options.apiKey) }
  const stream = yield* HttpAttempt.make({
    post: HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, "/v1/messages"), {
      headers: { "anthropic-version": "2023-06-01", ...key, ...headers }
    }),
    secrets: [...Object.values({ ...key, ...headers }), ...UrlSecrets.ofUrl(baseUrl)],
    toBody: (request) => toMessagesRequest(request, name),
    answer: MessagesStream
  })
  return Provider.of({ name, server: HttpAttempt.serverOf(baseUrl), stream })
})
