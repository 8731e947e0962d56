import { Option, Redacted } from "effect"
import manifest from "../../package.json" with { type: "json" }
import { pairsOf } from "./setting/TelemetrySettings.ts"
import type { Values } from "./setting/Settings.ts"

/** What is exported, where to, and when. */
export interface Export {
  /** The URLs that get the signals that are exported. */
  readonly urls: { readonly [Signal in keyof typeof signals]: Option.Option<string> }
  readonly headers: { readonly [Signal in keyof typeof signals]: Redacted.Redacted<Readonly<Record<string, string>>> }
  readonly protocol: Values["otlpProtocol"]
  readonly compression: Values["otlpCompression"]
  /** Milliseconds. */
  readonly timeout: number
  readonly sampler: { readonly name: Values["tracesSampler"]; readonly ratio: number }
  readonly spans: Batches
  readonly logs: Batches
  /** Milliseconds between two exports of metrics. */
  readonly metricInterval: number
  /** Of the resource. */
  readonly attributes: Readonly<Record<string, string>>
}

interface Batches {
  /** Milliseconds between two exports. */
  readonly delay: number
  /** So many are exported at once. */
  readonly size: number
}

/** What of the plans can be seen from outside, beside the lines of the log. */
export interface TelemetryConfig {
  /** Whether spans have what callers, models and tools say. */
  readonly content: boolean
  /** Whether spans and metrics follow the newest conventions for generative AI, see `GenAi.Latest`. */
  readonly isLatest: boolean
  /** Where people look at a trace: a URL with `{trace_id}` in it. */
  readonly traceUrl: string | undefined
  /** None if nothing is exported. */
  readonly exports: Option.Option<Export>
}

const signals = {
  traces: ["tracesExporter", "otlpTracesEndpoint", "otlpTracesHeaders"],
  metrics: ["metricsExporter", "otlpMetricsEndpoint", "otlpMetricsHeaders"],
  logs: ["logsExporter", "otlpLogsEndpoint", "otlpLogsHeaders"]
} as const

const urlOf = (values: Values, signal: keyof typeof signals): Option.Option<string> => {
  const [exporter, endpoint] = signals[signal]
  if (values[exporter] === "none") return Option.none()
  const { otlpEndpoint: base } = values
  return Option.fromUndefinedOr(values[endpoint] ?? (base && `${base.replace(/\/+$/, "")}/v1/${signal}`))
}

const headersOf = (values: Values, signal: keyof typeof signals) => {
  const [, , own] = signals[signal]
  const headers = values[own] ?? values.otlpHeaders
  return Redacted.make(headers === undefined ? {} : pairsOf(Redacted.value(headers)))
}

const exportOf = (values: Values): Option.Option<Export> => {
  const urls = { traces: urlOf(values, "traces"), metrics: urlOf(values, "metrics"), logs: urlOf(values, "logs") }
  if (values.telemetryDisabled || Object.values(urls).every(Option.isNone)) return Option.none()
  const { resourceAttributes: attributes } = values
  return Option.some({
    urls,
    headers: {
      traces: headersOf(values, "traces"),
      metrics: headersOf(values, "metrics"),
      logs: headersOf(values, "logs")
    },
    protocol: values.otlpProtocol,
    compression: values.otlpCompression,
    timeout: values.otlpTimeout,
    sampler: { name: values.tracesSampler, ratio: values.tracesSamplerArg },
    spans: { delay: values.spanDelay, size: values.spanBatch },
    logs: { delay: values.logDelay, size: values.logBatch },
    metricInterval: values.metricInterval,
    attributes: {
      "service.name": "bowline",
      "service.version": manifest.version,
      ...(attributes === undefined ? {} : pairsOf(attributes)),
      ...(values.serviceName === undefined ? {} : { "service.name": values.serviceName })
    }
  })
}

export const telemetryOf = (values: Values): TelemetryConfig => ({
  content: values.telemetryContent,
  isLatest: values.conventions.includes("gen_ai_latest_experimental"),
  traceUrl: values.traceUrl,
  exports: exportOf(values)
})
