import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Agent, type Dispatcher } from "@effect/platform-node/Undici"
import type { EgressPolicy } from "@bowline/runtime/unstable/egress/Egress"
import { TryLeave } from "@bowline/runtime/unstable/http/Exchange"
import { Sender } from "@bowline/runtime/unstable/provider/HttpAttempt"
import * as EgressRule from "@bowline/runtime/unstable/egress/EgressRule"
import * as TraceContext from "@bowline/runtime/unstable/telemetry/TraceContext"
import { Effect, Layer, Option } from "effect"
import { HttpClient, type HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { lookup } from "node:dns"
import type { PeerTls } from "../config/file/PeerTls.ts"
import * as EgressConnector from "../egress/EgressConnector.ts"
import * as SharedLookup from "./SharedLookup.ts"
import * as StreamedRequest from "./StreamedRequest.ts"

/** The gateway has its own timer for every wait. Those of the client would blame the wrong stage. */
const untimed: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler)

const unwanted = new Error("The request is not wanted any more")

/** What the options of a request carry besides: the dispatcher does not see the fiber of the request. */
interface Question {
  readonly tryLeave?: () => boolean
}

/** Asks whether a request may still leave, once there is a connection for it. */
const asked: Dispatcher.DispatcherComposeInterceptor =
  (dispatch) =>
  ({ tryLeave, ...options }: Dispatcher.DispatchOptions & Question, handler) => {
    if (tryLeave === undefined) return dispatch(options, handler)
    const begin = handler.onRequestStart?.bind(handler)
    handler.onRequestStart = (controller, context) => {
      begin?.(controller, context)
      if (!tryLeave()) controller.abort(unwanted)
    }
    return dispatch(options, handler)
  }

const asking = HttpClient.transformResponse(
  (response: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>) =>
    Effect.flatMap(TryLeave, (tryLeave) => {
      if (tryLeave === undefined) return response
      const options: Partial<Dispatcher.RequestOptions> & Question = { tryLeave }
      return Effect.provideService(response, NodeHttpClient.UndiciOptions, options)
    })
)

/** Tells the server of which trace a request is a part, unless the request says so itself. */
const traced = HttpClient.mapRequestEffect((request: HttpClientRequest.HttpClientRequest) =>
  "traceparent" in request.headers
    ? Effect.succeed(request)
    : Effect.map(TraceContext.current, (trace) => HttpClientRequest.setHeaders(request, trace))
)

const client = (make: () => Agent) =>
  Layer.provide(
    Layer.merge(
      // Not the client's own layer, which copies two contexts for every request.
      Layer.effect(
        HttpClient.HttpClient,
        Effect.map(NodeHttpClient.makeUndici, (client) => traced(asking(client)))
      ),
      Layer.effect(Sender, Effect.map(NodeHttpClient.Dispatcher, StreamedRequest.make))
    ),
    Layer.effect(
      NodeHttpClient.Dispatcher,
      Effect.map(
        Effect.acquireRelease(Effect.sync(make), (agent) => Effect.promise(() => agent.destroy())),
        (agent) => agent.compose(untimed, asked)
      )
    )
  )

// Names of callers, which may be many, take nothing away from those of the operator.
const lookupForCallers = SharedLookup.make(lookup)
const lookupForOperator = SharedLookup.make(lookup)

/** The HTTP client for providers, which the operator names. It has no timers, retries or redirects. */
export const layer = client(() => new Agent({ connect: { lookup: lookupForOperator } }))

/** The HTTP client for telemetry. It is a part of no trace, and its exporters have their own timers. */
export const layerOfTelemetry = Layer.fresh(NodeHttpClient.layerUndici)

const anywhere: EgressPolicy = {
  allow: ["0.0.0.0/0", "::/0"].flatMap((network) => Option.toArray(EgressRule.parse(network))),
  deny: [],
  allowsLocal: true
}

/** The same client for other hosts that the operator names, with the host's TLS configuration. It connects wherever it is told to. */
export const layerAnywhere = (tls: () => PeerTls) =>
  client(() => new Agent({ connect: EgressConnector.make(anywhere, tls, lookupForOperator) }))

/** The same client for hosts that callers name. It connects only where the policy allows, with the host's TLS configuration. */
export const layerWithin = (policy: EgressPolicy, tls: () => PeerTls) =>
  client(() => new Agent({ connect: EgressConnector.make(policy, tls, lookupForCallers) }))
