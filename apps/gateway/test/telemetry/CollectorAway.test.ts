import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { post } from "../http/RunningGateway.ts"
import { start } from "../plan/GatewayProcess.ts"

/** Everything is exported at once, and nothing but the end of the process ends an export. */
const eager = {
  OTEL_BSP_SCHEDULE_DELAY: "1",
  OTEL_BLRP_SCHEDULE_DELAY: "1",
  OTEL_METRIC_EXPORT_INTERVAL: "1",
  OTEL_EXPORTER_OTLP_TIMEOUT: "86400000"
}

/** A gateway with this collector. It completes plans until the collector has failed it, and is then told to end. */
const run = Effect.fnUntraced(function* (collector: string, hasFailed: (log: string) => Effect.Effect<boolean>) {
  const provider = yield* (yield* Network).serve(yield* ChatHost.make(() => [say("the answer")]))
  const gateway = yield* start({
    ...eager,
    BOWLINE_DATA_DIR: "memory:",
    BOWLINE_MODEL: "openai/scripted",
    OPENAI_BASE_URL: `${provider.url}/v1`,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector
  })
  const ask = Effect.gen(function* () {
    const { body } = yield* post(`${gateway.url}/plan`, { question: "?" })
    assert.deepInclude(body["final"], { text: "the answer" })
    return yield* hasFailed(gateway.lines.join("\n"))
  })
  yield* Effect.repeat(ask, { until: (failed) => failed, schedule: Schedule.spaced("50 millis") })
  yield* ask
  return yield* gateway.kill("SIGTERM")
})

const signals = ["traces", "metrics", "logs"]

describe("a gateway", () => {
  it.live("completes its plans and ends with the exit code 0 though its collector is away, or never answers", () =>
    Effect.gen(function* () {
      const away = run("http://127.0.0.1:1", (log) =>
        Effect.succeed(signals.every((signal) => log.includes(`"signal":"${signal}"`)))
      )
      const { requests, url } = yield* (yield* Network).serve(() => Effect.never)
      const silent = run(url, () =>
        Effect.map(requests.all, (all) =>
          signals.every((signal) => all.some(({ url }) => url.pathname === `/v1/${signal}`))
        )
      )
      const codes = yield* Effect.all({ away, silent }, { concurrency: 2 })
      assert.deepStrictEqual(codes, { away: 0, silent: 0 })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
