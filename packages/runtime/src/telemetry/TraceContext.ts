import { Context, Effect, Option, Tracer } from "effect"
import type { Route } from "../remote/PeerClient.ts"

/** A place in a trace, as the headers of W3C Trace Context write it (https://www.w3.org/TR/trace-context/). */
export type TraceContext = NonNullable<Route["trace"]>

/** What other systems have written into the trace context of a plan; "" if nothing. It is passed on as it came. */
const TraceState = Context.Reference<string>("@bowline/runtime/telemetry/TraceState", { defaultValue: () => "" })

/** A later version may append fields to those of version 00. */
const shape = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

const maxState = 512

const spanOf = (traceparent: string): Tracer.ExternalSpan | undefined => {
  const [, version, traceId, spanId, flags = "", more] = shape.exec(traceparent) ?? []
  if (traceId === undefined || spanId === undefined || (version === "00" && more !== undefined)) return undefined
  return Tracer.externalSpan({ traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 })
}

/** Runs the effect as a part of the caller's trace. Ignores a `traceparent` that is malformed, and the `tracestate` with it. */
export const continued =
  ({ traceparent, tracestate = "" }: { readonly [header: string]: string | undefined }) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> => {
    const span = traceparent === undefined ? undefined : spanOf(traceparent)
    if (span === undefined) return effect
    const traced = Effect.withParentSpan(effect, span)
    const isPassedOn = tracestate !== "" && tracestate.length <= maxState
    return isPassedOn ? Effect.provideService(traced, TraceState, tracestate) : traced
  }

/** The span that others may know of: one that is not recorded stands for the one above it. */
const known = (span: Tracer.AnySpan | undefined): Tracer.AnySpan | undefined =>
  span !== undefined && Context.get(span.annotations, Tracer.DisablePropagation)
    ? known(span._tag === "Span" ? Option.getOrUndefined(span.parent) : undefined)
    : span

/** The open span of a fiber's context, if it is a part of a trace. */
export const openSpan = (context: Context.Context<never>): Tracer.AnySpan | undefined =>
  known(Context.getOrUndefined(context, Tracer.ParentSpan))

/** The place in a trace at which a fiber is, if it is a part of one. */
export const of = (context: Context.Context<never>): TraceContext | undefined => {
  const span = openSpan(context)
  if (span === undefined) return undefined
  const { sampled, spanId, traceId } = span
  const tracestate = Context.get(context, TraceState)
  const traceparent = `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`
  return tracestate === "" ? { traceparent } : { traceparent, tracestate }
}

/** The place in a trace at which the running fiber is: the headers of its requests. Empty if it is no part of a trace. */
export const current: Effect.Effect<Partial<TraceContext>> = Effect.withFiber(({ context }) =>
  Effect.succeed(of(context) ?? {})
)
