import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import {
  ConfigProvider,
  Duration,
  Effect,
  Layer,
  Logger,
  type LogLevel,
  Option,
  Redacted,
  References,
  Tracer
} from "effect"
import type { HttpClient } from "effect/http"
import { OtlpExporter, OtlpLogger, OtlpMetrics, OtlpSerialization, OtlpTracer } from "effect/observability"
import type { Export } from "../config/TelemetryConfig.ts"
import * as ExportClient from "./ExportClient.ts"
import * as LogLine from "./LogLine.ts"
import * as Sampler from "./Sampler.ts"

/** How long the end of the gateway may wait for a collector. */
const shutdownTimeout = Duration.seconds(2)

const serializations = { "http/protobuf": OtlpSerialization.layerProtobuf, "http/json": OtlpSerialization.layerJson }

/** The variables are read by the table of settings, and by nobody else. */
const noVariables = ConfigProvider.layer(ConfigProvider.fromUnknown({}))

/** Exports traces, metrics and logs by OTLP over HTTP, those of them that have a URL. Log lines of the level or above are exported beside the loggers that there are. */
export const layer = (config: Export, level: LogLevel.LogLevel): Layer.Layer<never, never, HttpClient.HttpClient> =>
  Layer.unwrap(Effect.map(UuidGenerator, (uuid) => layerOf(config, level, uuid())))

const layerOf = (
  config: Export,
  level: LogLevel.LogLevel,
  instance: string
): Layer.Layer<never, never, HttpClient.HttpClient> => {
  const { compression, headers, logs, protocol, sampler, spans, timeout, urls } = config
  // One for all signals of this process: without it a backend adds up the metrics of all replicas as those of one.
  const attributes = { "service.instance.id": instance, ...config.attributes }
  const optionsOf = (signal: keyof Export["urls"], url: string) => ({
    url,
    headers: Redacted.value(headers[signal]),
    compression,
    resource: { attributes },
    shutdownTimeout
  })
  const client = (signal: keyof Export["urls"]) => Layer.provide(ExportClient.layer({ signal, timeout }))

  const traces = Option.match(urls.traces, {
    onNone: () => Layer.empty,
    onSome: (url) => {
      const tracer = OtlpTracer.make({
        ...optionsOf("traces", url),
        exportInterval: spans.delay,
        maxBatchSize: spans.size
      })
      const sampled = Effect.map(tracer, (tracer) => Sampler.sample(tracer, sampler))
      return Layer.mergeAll(Layer.effect(Tracer.Tracer, sampled), Layer.succeed(References.TracerEnabled, true)).pipe(
        client("traces")
      )
    }
  })
  const metrics = Option.match(urls.metrics, {
    onNone: () => Layer.empty,
    onSome: (url) =>
      OtlpMetrics.layer({ ...optionsOf("metrics", url), exportInterval: config.metricInterval }).pipe(client("metrics"))
  })
  const lines = Option.match(urls.logs, {
    onNone: () => Layer.empty,
    onSome: (url) => {
      const logger = OtlpLogger.make({ ...optionsOf("logs", url), exportInterval: logs.delay, maxBatchSize: logs.size })
      const heeding = Effect.map(logger, (logger) => LogLine.atLeast(level, logger))
      return Logger.layer([heeding], { mergeWithExisting: true }).pipe(client("logs"))
    }
  })
  return Layer.mergeAll(traces, metrics, lines).pipe(
    Layer.provide([OtlpExporter.layerFlusher, serializations[protocol], noVariables])
  )
}
