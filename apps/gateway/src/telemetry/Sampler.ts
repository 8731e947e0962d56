import { Option, Tracer } from "effect"
import type { Export } from "../config/TelemetryConfig.ts"

/** Whether a trace is in the share that is recorded. Every process decides the same about the same trace. */
const isIn = (traceId: string, ratio: number): boolean => Number.parseInt(traceId.slice(-14), 16) / 2 ** 56 < ratio

/** Whether a span is recorded that begins in this process, by the samplers of OpenTelemetry. `parent` is the caller's span, if it has one. */
const isSampled = (
  { name, ratio }: Export["sampler"],
  traceId: string,
  parent: Tracer.ExternalSpan | undefined
): boolean => {
  if (name.startsWith("parentbased_") && parent !== undefined) return parent.sampled
  if (name.endsWith("traceidratio")) return isIn(traceId, ratio)
  return name.endsWith("always_on")
}

/** Statements to the database are no spans: there are dozens in each plan. */
const isStatement = (name: string): boolean => name.startsWith("sql.")

/** Records what the sampler wants to be recorded. Below a span of this process the same holds as for that span. */
export const sample = (tracer: Tracer.Tracer, sampler: Export["sampler"]): Tracer.Tracer =>
  Tracer.make({
    span: (options) => {
      if (isStatement(options.name)) return tracer.span({ ...options, sampled: false })
      const parent = Option.getOrUndefined(options.parent)
      if (parent?._tag === "Span") return tracer.span({ ...options, sampled: parent.sampled })
      const span = tracer.span({ ...options, sampled: true })
      return isSampled(sampler, span.traceId, parent) ? span : tracer.span({ ...options, sampled: false })
    },
    context: tracer.context
  })
