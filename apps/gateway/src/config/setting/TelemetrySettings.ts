import { Option, Schema } from "effect"
import { listSetting, optional, setting } from "./Setting.ts"
import { expecting, integer, list, oneOf, trueOrFalse } from "./SettingText.ts"

/** A key in the query would stand in logs, and a password in front of the host, too. */
const isCollector = (text: string): boolean => {
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username + url.password + url.search + url.hash === ""
}

const collector = Schema.String.check(Schema.makeFilter(isCollector)).pipe(
  expecting("Expected an http or https URL without a user and a query; a key goes into OTEL_EXPORTER_OTLP_HEADERS")
)

/** The `javascript:` of a link would run in the page. */
const isTemplate = (text: string): boolean =>
  text.includes("{trace_id}") && /^https?:$/.test(URL.parse(text.replaceAll("{trace_id}", "0"))?.protocol ?? "")

const traceUrl = Schema.String.check(Schema.makeFilter(isTemplate)).pipe(
  expecting("Expected an http or https URL with {trace_id} in it")
)

const decoded = Option.liftThrowable(decodeURIComponent)

const isDecodable = (text: string): boolean => /^[\x20-\x7e]*$/.test(text) && Option.isSome(decoded(text))

const isPairs = (name: RegExp) => (text: string) =>
  text.split(",").every((pair) => {
    const at = pair.indexOf("=")
    return at > 0 && name.test(pair.slice(0, at).trim()) && isDecodable(pair.slice(at + 1))
  })

/** The pairs of `name=value,name2=value2`. The values are percent-encoded. */
export const pairsOf = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    text.split(",").map((pair) => {
      const at = pair.indexOf("=")
      return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())]
    })
  )

const headers = Schema.RedactedFromValue(
  Schema.String.check(Schema.makeFilter(isPairs(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/)))
).pipe(expecting("Expected name=value,name2=value2 with percent-encoded values"))

const attributes = Schema.String.check(Schema.makeFilter(isPairs(/^[\x21-\x7e]+$/))).pipe(
  expecting("Expected name=value,name2=value2 with percent-encoded values")
)

const ratio = Schema.FiniteFromString.check(Schema.isBetween({ minimum: 0, maximum: 1 })).pipe(
  expecting("Expected a number between 0 and 1")
)

const milliseconds = integer(1, 86_400_000)

const exporter = (signal: "traces" | "metrics" | "logs") =>
  setting(oneOf(["otlp", "none"]), {
    variable: `OTEL_${signal.toUpperCase()}_EXPORTER`,
    path: ["telemetry", `${signal}_exporter`],
    default: "otlp",
    doc: `\`otlp\`, or \`none\`: exports no ${signal}`
  })

const headersOf = (signal: "traces" | "metrics" | "logs") =>
  optional(headers, {
    variable: `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_HEADERS`,
    path: ["telemetry", `${signal}_headers`],
    secret: true,
    list: true,
    unset: "those for the collector",
    doc: `\`name=value,name2=value2\`: the only headers for the URL that gets the ${signal}`
  })

const endpoint = (signal: "traces" | "metrics" | "logs") =>
  optional(collector, {
    variable: `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`,
    path: ["telemetry", `${signal}_endpoint`],
    unset: `\`/v1/${signal}\` of the collector; without one, none`,
    doc: `the URL that gets the ${signal}, as it is`
  })

/** What of traces, metrics and logs leaves the gateway, and where it goes. The variables are those of OpenTelemetry. */
export const telemetrySettings = {
  telemetryContent: setting(trueOrFalse, {
    path: ["telemetry", "content"],
    default: "false",
    doc: "whether spans have questions, answers, arguments and results of plans, see [telemetry](telemetry.md#content)"
  }),
  conventions: listSetting(list(Schema.String, "Expected a comma list"), {
    variable: "OTEL_SEMCONV_STABILITY_OPT_IN",
    path: ["telemetry", "conventions"],
    doc: "with `gen_ai_latest_experimental`, spans and metrics have the names of [the newest conventions](telemetry.md#the-newest-conventions); other values are ignored"
  }),
  traceUrl: optional(traceUrl, {
    path: ["telemetry", "trace_url"],
    unset: "none: no links",
    doc: "where people look at a trace, such as `http://127.0.0.1:16686/trace/{trace_id}`: pages of the console link to it"
  }),
  telemetryDisabled: setting(trueOrFalse, {
    variable: "OTEL_SDK_DISABLED",
    path: ["telemetry", "disabled"],
    default: "false",
    doc: "whether nothing is exported, whatever else is set"
  }),
  otlpEndpoint: optional(collector, {
    variable: "OTEL_EXPORTER_OTLP_ENDPOINT",
    path: ["telemetry", "endpoint"],
    unset: "none: nothing is exported",
    doc: "the URL of the collector of [telemetry](telemetry.md), such as `http://127.0.0.1:4318`"
  }),
  otlpTracesEndpoint: endpoint("traces"),
  otlpMetricsEndpoint: endpoint("metrics"),
  otlpLogsEndpoint: endpoint("logs"),
  otlpHeaders: optional(headers, {
    variable: "OTEL_EXPORTER_OTLP_HEADERS",
    path: ["telemetry", "headers"],
    secret: true,
    list: true,
    unset: "none",
    doc: "`name=value,name2=value2`: headers for the collector, such as its key"
  }),
  otlpTracesHeaders: headersOf("traces"),
  otlpMetricsHeaders: headersOf("metrics"),
  otlpLogsHeaders: headersOf("logs"),
  otlpProtocol: setting(oneOf(["http/protobuf", "http/json"]), {
    variable: "OTEL_EXPORTER_OTLP_PROTOCOL",
    path: ["telemetry", "protocol"],
    default: "http/protobuf",
    doc: "`http/protobuf`, `http/json`"
  }),
  otlpCompression: setting(oneOf(["none", "gzip"]), {
    variable: "OTEL_EXPORTER_OTLP_COMPRESSION",
    path: ["telemetry", "compression"],
    default: "none",
    doc: "`none`, `gzip`"
  }),
  otlpTimeout: setting(milliseconds, {
    variable: "OTEL_EXPORTER_OTLP_TIMEOUT",
    path: ["telemetry", "timeout"],
    default: "10000",
    doc: "milliseconds for one export, its retries included"
  }),
  tracesExporter: exporter("traces"),
  metricsExporter: exporter("metrics"),
  logsExporter: exporter("logs"),
  tracesSampler: setting(
    oneOf([
      "always_on",
      "always_off",
      "traceidratio",
      "parentbased_always_on",
      "parentbased_always_off",
      "parentbased_traceidratio"
    ]),
    {
      variable: "OTEL_TRACES_SAMPLER",
      path: ["telemetry", "sampler"],
      default: "parentbased_always_on",
      doc: "which traces are recorded, see [sampling](telemetry.md#sampling)"
    }
  ),
  tracesSamplerArg: setting(ratio, {
    variable: "OTEL_TRACES_SAMPLER_ARG",
    path: ["telemetry", "sampler_arg"],
    default: "1",
    doc: "the share of traces that the samplers with a ratio record, 0..1"
  }),
  spanDelay: setting(milliseconds, {
    variable: "OTEL_BSP_SCHEDULE_DELAY",
    path: ["telemetry", "span_delay"],
    default: "5000",
    doc: "milliseconds between two exports of spans"
  }),
  spanBatch: setting(integer(1, 10_000), {
    variable: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    path: ["telemetry", "span_batch"],
    default: "512",
    doc: "so many spans are exported at once"
  }),
  logDelay: setting(milliseconds, {
    variable: "OTEL_BLRP_SCHEDULE_DELAY",
    path: ["telemetry", "log_delay"],
    default: "1000",
    doc: "milliseconds between two exports of log lines"
  }),
  logBatch: setting(integer(1, 10_000), {
    variable: "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    path: ["telemetry", "log_batch"],
    default: "512",
    doc: "so many log lines are exported at once"
  }),
  metricInterval: setting(milliseconds, {
    variable: "OTEL_METRIC_EXPORT_INTERVAL",
    path: ["telemetry", "metric_interval"],
    default: "60000",
    doc: "milliseconds between two exports of metrics"
  }),
  serviceName: optional(Schema.String, {
    variable: "OTEL_SERVICE_NAME",
    path: ["telemetry", "service_name"],
    unset: "`service.name` of `OTEL_RESOURCE_ATTRIBUTES`; without one, `bowline`",
    doc: "`service.name` of all that is exported"
  }),
  resourceAttributes: optional(attributes, {
    variable: "OTEL_RESOURCE_ATTRIBUTES",
    path: ["telemetry", "resource_attributes"],
    list: true,
    unset: "none",
    doc: "`name=value,name2=value2`: more attributes of all that is exported"
  })
}

const known: ReadonlySet<string> = new Set(
  Object.values(telemetrySettings).map((setting) => ("variable" in setting ? setting.variable : ""))
)

/** Tells whether a variable is OpenTelemetry's, but has no effect here. */
export const isUnheeded = (variable: string): boolean => variable.startsWith("OTEL_") && !known.has(variable)
