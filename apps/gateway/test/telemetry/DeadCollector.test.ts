import { type Host, json, text } from "@bowline/testing/http/Host"
import * as MemoryNetwork from "@bowline/testing/http/MemoryNetwork"
import { Network } from "@bowline/testing/http/Network"
import { assert, describe, it } from "@effect/vitest"
import { Array, Effect, Exit, Fiber, Layer, Logger, Option, References, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import * as OtlpExport from "../../src/telemetry/OtlpExport.ts"

const batch = 10
const settings = {
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: `${batch}`,
  OTEL_METRICS_EXPORTER: "none",
  OTEL_LOGS_EXPORTER: "none"
}

/** An export to this collector, the warnings that it logs, and the spans that have reached the collector. */
const exportTo = Effect.fnUntraced(function* (host: Host | undefined, more: Readonly<Record<string, string>> = {}) {
  const network = yield* Network
  const served = host === undefined ? undefined : yield* network.serve(host)
  const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: served?.url ?? "http://nobody.test", ...settings, ...more }
  const config = yield* fromEnvironment(environment, false)
  const lines: Array<string> = []
  const logger = Logger.make<unknown, void>(({ message, fiber }) => {
    const { reason, signal } = fiber.getRef(References.CurrentLogAnnotations)
    lines.push(
      Array.ensure(message)
        .concat(signal, reason ?? [])
        .map(String)
        .join(" ")
    )
  })
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope, exit) => Scope.close(scope, exit))
  const context = yield* Layer.build(
    OtlpExport.layer(Option.getOrThrow(config.telemetry.exports), config.log.level).pipe(
      Layer.provideMerge(Logger.layer([logger]))
    )
  ).pipe(Scope.provide(scope))
  const spans = (count: number) =>
    Effect.forEach(Array.range(1, count), () => Effect.withSpan(Effect.void, "a span"), { discard: true }).pipe(
      Effect.provide(context)
    )
  return { lines, requests: served?.requests, scope, spans }
})

const silent: Host = () => Effect.never
const half: Host = () => Effect.succeed({ status: 200, headers: {}, body: Stream.never })
const busy: Host = () => Effect.succeed(text(429, "later", { "retry-after": "86400" }))
const broken: Host = () => Effect.succeed(text(500, "a secret of the collector"))

describe("a collector", () => {
  it.effect.each([
    ["cannot be reached", undefined, "The collector cannot be reached"],
    ["does not answer", silent, "The collector did not answer in time"],
    ["does not finish its answer", half, "The collector did not answer in time"],
    ["wants to be asked a day later", busy, "The collector answered 429"],
    ["is broken", broken, "The collector answered 500"]
  ] as const)("that %s costs one line of the log, and its spans are dropped", ([, host, reason]) =>
    Effect.gen(function* () {
      const { lines, requests, spans } = yield* exportTo(host)
      for (let minute = 0; minute < 5; minute++) {
        yield* spans(batch)
        yield* TestClock.adjust("1 minute")
      }
      assert.deepStrictEqual(lines, [`telemetry_export_failed traces ${reason}`])
      // Nothing is kept for later.
      assert.strictEqual(yield* requests?.open ?? Effect.succeed(0), 0)
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that hangs holds four exports at most, and what comes meanwhile is dropped", () =>
    Effect.gen(function* () {
      const { lines, requests, spans } = yield* exportTo(silent)
      yield* Effect.forEach(Array.range(1, 100), () => Effect.andThen(spans(batch), TestClock.adjust("1 millis")), {
        discard: true
      })
      assert.strictEqual(yield* requests?.open ?? Effect.succeed(0), 4)
      assert.deepStrictEqual(lines, ["telemetry_export_failed traces The collector is slower than the gateway"])
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that comes back gets the next spans, and the log says so", () =>
    Effect.gen(function* () {
      let isUp = false
      const { lines, requests, spans } = yield* exportTo(() => Effect.succeed(json(isUp ? 200 : 503, {})))
      yield* spans(batch)
      yield* TestClock.adjust("90 seconds")
      isUp = true
      yield* spans(1)
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(lines, [
        "telemetry_export_failed traces The collector answered 503",
        "telemetry_export_resumed traces"
      ])
      assert.include((yield* requests?.all ?? Effect.succeed([])).at(-1)?.body, "a span")
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )

  it.effect("that hangs holds up the end of the gateway for two seconds, whatever is exported", () =>
    Effect.gen(function* () {
      const all = { OTEL_METRICS_EXPORTER: "otlp", OTEL_LOGS_EXPORTER: "otlp" }
      const { requests, scope, spans } = yield* exportTo(silent, all)
      yield* spans(1)
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(closing)
      const paths = (yield* requests?.all ?? Effect.succeed([])).map(({ url }) => url.pathname)
      assert.includeMembers(paths, ["/v1/traces", "/v1/metrics"])
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )
})
