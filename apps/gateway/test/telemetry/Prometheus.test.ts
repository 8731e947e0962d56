import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { ask } from "../http/RawExchange.ts"
import { post, send, start } from "../http/RunningGateway.ts"
import { scrape } from "./Scrape.ts"

const apart = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))

const hostile = counter({ name: "test.hostile", description: "A back\\slash\nand a line", labels: { text: "any" } })

describe("GET /metrics", () => {
  it.live("is text that Prometheus reads, whatever stands in a label or a description", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("a")]])
      yield* post(`${url}/plan`, { question: "?" })
      const text = 'a "quoted" \\ back\\slash,\nand {a} line'
      yield* hostile.update(2, { text })
      const { families, value } = yield* scrape(url)
      assert.strictEqual(value("test_hostile_total", { text }), 2)
      assert.strictEqual(families.get("test_hostile_total")?.help, "A back\\slash\nand a line")
      assert.strictEqual(value("gen_ai_client_operation_duration_seconds_count", { gen_ai_operation_name: "chat" }), 1)
      assert.isAbove(value("process_resident_memory_bytes") ?? 0, 10_000_000)
      assert.isAbove(value("process_cpu_seconds_total") ?? 0, 0)
      assert.strictEqual(value("bowline_refused_total", { reason: "host" }), 0)
    }).pipe(apart)
  )

  it.live("needs the key of a caller, where there are keys", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_API_KEYS: "prometheus=a-key" })
      assert.strictEqual((yield* send(`${url}/metrics`)).status, 401)
      assert.strictEqual((yield* send(`${url}/metrics`, { headers: { authorization: "Bearer a-key" } })).status, 200)
    }).pipe(apart)
  )

  it.live("needs no key if the operator says so, and everything else does", () =>
    Effect.gen(function* () {
      const settings = { BOWLINE_METRICS_PUBLIC: "true", BOWLINE_RATE_LIMIT: "1/1h" }
      const { url } = yield* start([], { BOWLINE_API_KEYS: "ann=a-key", ...settings })
      // Nor is it counted: whoever reads it is no caller.
      for (let reads = 0; reads < 3; reads++) yield* scrape(url)
      assert.strictEqual((yield* send(`${url}/plans`)).status, 401)
    }).pipe(apart)
  )

  it.live("is not for pages of strangers, also without a key", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { BOWLINE_METRICS_PUBLIC: "true" })
      assert.strictEqual((yield* ask(url, "GET /metrics HTTP/1.1", "Host: evil.example")).status, 403)
      assert.strictEqual((yield* scrape(url)).value("bowline_refused_total", { reason: "host" }), 1)
    }).pipe(apart)
  )
})
