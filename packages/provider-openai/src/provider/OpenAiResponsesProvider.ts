import type { Provider } from "@bowline/runtime/provider/Provider"
import type { Layer } from "effect"
import type { HttpClient } from "effect/http"
import { providerLayer } from "./internal/ProviderLayer.ts"
import { toResponsesRequest } from "./internal/ResponsesRequest.ts"
import { ResponsesStream } from "./internal/ResponsesStream.ts"
import type { OpenAiServer } from "./OpenAiServer.ts"

/**
 * OpenAI's Responses behind the provider port. The server stores nothing: the history keeps the model's encrypted reasoning, and
 * the provider of the same name gets it again. The client must not retry.
 */
export const layer = (server: OpenAiServer): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  providerLayer(server, { path: "/responses", toBody: toResponsesRequest, answer: ResponsesStream })
