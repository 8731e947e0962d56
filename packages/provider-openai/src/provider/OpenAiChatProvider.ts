import type { Provider } from "@bowline/runtime/provider/Provider"
import type { Layer } from "effect"
import type { HttpClient } from "effect/http"
import { toChatRequest } from "./internal/ChatRequest.ts"
import { ChatStream } from "./internal/ChatStream.ts"
import { providerLayer } from "./internal/ProviderLayer.ts"
import type { OpenAiServer } from "./OpenAiServer.ts"

/** OpenAI's Chat Completions behind the provider port. The client must not retry. */
export const layer = (server: OpenAiServer): Layer.Layer<Provider, never, HttpClient.HttpClient> =>
  providerLayer(server, { path: "/chat/completions", toBody: toChatRequest, answer: ChatStream })
