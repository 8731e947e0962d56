import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Agent, type Dispatcher } from "@effect/platform-node/Undici"
import type { EgressPolicy } from "@bowline/runtime/egress/Egress"
import { Effect, Layer } from "effect"
import type { PeerTls } from "../file/PeerTls.ts"
import * as EgressConnector from "../egress/EgressConnector.ts"

/** The gateway has timers of its own for every wait: the client's would blame the wrong stage. */
const untimed: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)

const client = (make: () => Agent) =>
  // Fresh: a graph has two of them, which must not become one.
  Layer.provide(
    Layer.fresh(NodeHttpClient.layerUndiciNoDispatcher),
    Layer.effect(
      NodeHttpClient.Dispatcher,
      Effect.map(
        Effect.acquireRelease(Effect.sync(make), (agent) => Effect.promise(() => agent.destroy())),
        (agent) => agent.compose(untimed)
      )
    )
  )

/** The HTTP client towards what the operator names, such as providers: no timers, no retries, no redirects. */
export const layer = client(() => new Agent())

/** The same towards all that callers name. It connects to what the policy allows, with what is configured for the host. */
export const layerWithin = (policy: EgressPolicy, tls: PeerTls) =>
  client(() => new Agent({ connect: EgressConnector.make(policy, tls) }))
