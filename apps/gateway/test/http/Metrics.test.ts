import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { post, start } from "./RunningGateway.ts"

describe("the metrics of a gateway", () => {
  it.live("have no series for each model that callers invent", () =>
    Effect.gen(function* () {
      const script = [[say("a")], [say("b")], [say("c")]]
      const { url } = yield* start(script, { BOWLINE_MODEL: "openai/ours", BOWLINE_ALLOWED_MODELS: "*" })
      for (const model of ["openai/ours", "openai/made-up-1", "openai/made-up-2"]) {
        const answer = yield* post(`${url}/plan`, { question: "?", preferences: { model } })
        assert.strictEqual(answer.status, 200, answer.text)
      }
      const measured = yield* Metric.snapshot
      assert.deepStrictEqual(
        measured.flatMap((metric) =>
          metric.id === "bowline.provider.attempts" && metric.type === "Counter"
            ? [[metric.attributes?.["gen_ai.request.model"], metric.state.count]]
            : []
        ),
        [
          ["ours", 1],
          ["other", 2]
        ]
      )
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})
