import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { pass, post, single } from "@bowline/testing/unstable/TestKit"
import { assert, it } from "@effect/vitest"
import { Duration, Effect, Option, Tracer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import * as TraceContext from "../../src/telemetry/TraceContext.ts"
import { mortal, replayed, stays } from "../plan/Mortal.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const caller = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: "a=1" }

it.effect("a plan that another process resumes stays in the trace of its caller", () => {
  const plans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      if (options.name === "plan") plans.push(span)
      return span
    }
  })
  return Effect.gen(function* () {
    const first = yield* mortal({ script: () => [stall], config: { shutdownGrace: Duration.seconds(5) } })
    const second = yield* mortal({ script: () => [say("whole")] })
    const { plan_id } = yield* first
      .on(post({ question: "?", session_id: "s", ...stays }))
      .pipe(TraceContext.continued(caller))
    yield* pass("1 second")
    const drained = yield* Effect.forkChild(first.plans.drain)
    yield* pass("6 seconds", "1 second")
    assert.isDefined(drained.pollUnsafe())
    assert.strictEqual(single(yield* replayed(second, plan_id, "1 second"), "final").text, "whole")
    assert.deepStrictEqual(
      plans.map(({ attributes, parent }) => [
        Option.getOrUndefined(Option.map(parent, ({ traceId }) => traceId)),
        attributes.get("bowline.resumed") ?? false
      ]),
      [
        [traceId, false],
        [traceId, true]
      ]
    )
  }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer), Effect.provideService(Tracer.Tracer, tracer))
})
