import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Record, Redacted } from "effect"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { formatProblem } from "../../src/config/setting/ConfigProblem.ts"
import { folderOf } from "./file/ConfigFolder.ts"

const exportsOf = (environment: Readonly<Record<string, string>>) =>
  Effect.map(fromEnvironment(environment, false), ({ telemetry }) => telemetry.exports)

const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318/" }

describe("TelemetryConfig", () => {
  it.effect.each([
    {},
    { ...collector, OTEL_SDK_DISABLED: "true" },
    { ...collector, OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "none", OTEL_LOGS_EXPORTER: "none" }
  ])("exports nothing with %j", (environment) =>
    Effect.gen(function* () {
      assert.isTrue(Option.isNone(yield* exportsOf(environment)))
    })
  )

  it.effect("sends each signal to its own URL, or else below that of the collector", () =>
    Effect.gen(function* () {
      const urls = Option.map(
        yield* exportsOf({
          ...collector,
          OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://logs.example/in",
          OTEL_METRICS_EXPORTER: "none"
        }),
        (exports) => exports.urls
      )
      assert.deepStrictEqual(
        urls,
        Option.some({
          traces: Option.some("http://127.0.0.1:4318/v1/traces"),
          metrics: Option.none(),
          logs: Option.some("http://logs.example/in")
        })
      )
    })
  )

  it.effect.each([
    [{}, "bowline"],
    [{ OTEL_RESOURCE_ATTRIBUTES: "service.name=of%20attributes" }, "of attributes"],
    [{ OTEL_RESOURCE_ATTRIBUTES: "service.name=of%20attributes", OTEL_SERVICE_NAME: "gate" }, "gate"]
  ] as const)("takes the name of the service from where it stands: with %j it is %s", ([given, name]) =>
    Effect.gen(function* () {
      const { attributes } = Option.getOrThrow(yield* exportsOf({ ...collector, ...given }))
      assert.strictEqual(attributes["service.name"], name)
    })
  )

  it.effect("reads headers as pairs, from a variable and from the file", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({
        "bowline.config.yaml": `telemetry: { headers: { x-key: "a%20b" }, endpoint: "http://127.0.0.1:1" }`
      })
      for (const given of [
        { ...collector, OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%20b" },
        { BOWLINE_CONFIG: `${folder}/bowline.config.yaml` }
      ]) {
        const headers = Option.map(yield* exportsOf(given), (exports) => Redacted.value(exports.headers.traces))
        assert.deepStrictEqual(headers, Option.some({ "x-key": "a b" }))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("sends the headers of a signal with that signal, and those of the collector with the others", () =>
    Effect.gen(function* () {
      const { headers } = Option.getOrThrow(
        yield* exportsOf({
          ...collector,
          OTEL_EXPORTER_OTLP_HEADERS: "x-key=all,x-other=1",
          OTEL_EXPORTER_OTLP_METRICS_HEADERS: "x-key=metrics"
        })
      )
      assert.deepStrictEqual(Record.map(headers, Redacted.value), {
        traces: { "x-key": "all", "x-other": "1" },
        metrics: { "x-key": "metrics" },
        logs: { "x-key": "all", "x-other": "1" }
      })
    })
  )

  it.effect.each([
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:planted-secret@127.0.0.1/"],
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1/?key=planted-secret"],
    ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "127.0.0.1:4317"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "planted-secret"],
    ["OTEL_EXPORTER_OTLP_HEADERS", "x-key=planted-secret%"],
    ["OTEL_EXPORTER_OTLP_LOGS_HEADERS", "planted-secret"],
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"],
    ["OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"],
    ["OTEL_LOGS_EXPORTER", "console"],
    ["OTEL_TRACES_SAMPLER", "jaeger_remote"],
    ["OTEL_TRACES_SAMPLER_ARG", "2"],
    ["OTEL_BSP_SCHEDULE_DELAY", "5s"],
    ["OTEL_RESOURCE_ATTRIBUTES", "name"]
  ] as const)("refuses %s=%s, and does not repeat it", ([name, text]) =>
    Effect.gen(function* () {
      const { problems } = yield* Effect.flip(fromEnvironment({ ...collector, [name]: text }, false))
      const [problem = "", ...others] = problems.map(formatProblem)
      assert.deepStrictEqual(others, [])
      assert.match(problem, new RegExp(`^${name}: Expected `))
      assert.notInclude(problem, "planted-secret")
    })
  )
})
