import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Agent, type Dispatcher } from "@effect/platform-node/Undici"
import { Effect, Layer } from "effect"

/** The gateway has timers of its own for every wait: the client's would blame the wrong stage. */
const untimed: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)

const dispatcher = Layer.effect(
  NodeHttpClient.Dispatcher,
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => new Agent()),
      (agent) => Effect.promise(() => agent.destroy())
    ),
    (agent) => agent.compose(untimed)
  )
)

/** The HTTP client towards providers and peers: no timers, no retries, no redirects. */
export const layer = Layer.provide(NodeHttpClient.layerUndiciNoDispatcher, dispatcher)
