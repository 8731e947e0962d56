import * as HttpAttempt from "@bowline/runtime/provider/HttpAttempt"
import { Provider } from "@bowline/runtime/provider/Provider"
import { Effect, Layer, Redacted } from "effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import { toChatRequest } from "./internal/ChatRequest.ts"
import { ChatStream } from "./internal/ChatStream.ts"

/** A server of OpenAI's Chat Completions, or of a copy of them. */
export interface OpenAiChatOptions {
  /** What stands in front of the model in `provider/model`: `openai`, unless it is given. */
  readonly name?: string
  /** With `/v1`, or what the server has in its place. A query is kept. */
  readonly baseUrl: string
  /** A server of one's own may need none. */
  readonly apiKey?: Redacted.Redacted
  readonly headers?: Readonly<Record<string, string>>
}

/** OpenAI's Chat Completions behind the provider port. The client must not retry. */
export const layer = (options: OpenAiChatOptions): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  Layer.effect(Provider, make(options))

const make = Effect.fnUntraced(function* ({ name, baseUrl, apiKey, headers = {} }: OpenAiChatOptions) {
  const post = HttpClientRequest.post(HttpAttempt.endpoint(baseUrl, "/chat/completions")).pipe(
    apiKey === undefined ? (request) => request : HttpClientRequest.bearerToken(apiKey),
    HttpClientRequest.setHeaders(headers)
  )
  const stream = yield* HttpAttempt.make({
    post,
    secrets: [...(apiKey === undefined ? [] : [Redacted.value(apiKey)]), ...Object.values(headers)],
    toBody: toChatRequest,
    answer: ChatStream
  })
  return Provider.of({ name: name ?? "openai", stream })
})
