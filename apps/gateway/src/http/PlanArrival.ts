import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import type { Reading } from "@bowline/runtime/unstable/stream/LivePlan"
import * as Spans from "@bowline/runtime/unstable/telemetry/Spans"
import * as TraceContext from "@bowline/runtime/unstable/telemetry/TraceContext"
import { Effect } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { Writable } from "node:stream"
import type { ShortCut } from "../telemetry/StreamMetrics.ts"

/** The gateways that a plan has come through, as the headers say. */
export const routeOf = (headers: {
  readonly "x-bowline-hops"?: Route["hops"]
  readonly "x-bowline-via"?: Route["via"]
}): Route => ({ hops: headers["x-bowline-hops"] ?? 0, via: headers["x-bowline-via"] ?? [] })

/**
 * Joins the reader to the connection of its request, which the plan closes when it is overdue. Only that helps against a caller who does
 * not read: every write waits for it. Gives the reader's short cut to the connection.
 */
export const join = (
  { connect, shortCut }: Pick<Reading, "connect" | "shortCut">,
  request: HttpServerRequest.HttpServerRequest
): ShortCut<PlanFrame> => {
  const response = NodeHttpServerRequest.toServerResponse(request)
  const disconnect = connect(() => response.destroy())
  // In front of the server's own listener, which interrupts the request.
  response.prependOnceListener("close", () => {
    if (!response.writableFinished) disconnect()
  })
  const connection: Writable = response
  return { from: (write) => shortCut?.(write), to: (bytes) => connection.write(bytes) }
}

/** The arrival of a plan, in the trace of its caller. It ends with the head of the answer: the plan has a span of its own. */
const inSpan =
  (route: string) =>
  <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Spans.use(
      `POST ${route}`,
      () => ({ kind: "server", attributes: { "http.request.method": "POST", "http.route": route } }),
      (span) =>
        span === undefined
          ? handled
          : // What is refused is the caller's fault: the span has not failed.
            Effect.flatten(
              Effect.tap(Effect.exit(handled), (exit) =>
                Effect.sync(() => {
                  const type = Spans.errorTypeOf(exit)
                  if (type !== undefined) span.attribute("error.type", type)
                })
              )
            )
    )

/** Runs what starts a plan as a part of its caller's trace, if the caller has one, and in a span of its own. */
export const traced =
  (route: string, { headers }: HttpServerRequest.HttpServerRequest) =>
  <E, R>(handled: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    TraceContext.continued(headers)(inSpan(route)(handled))
