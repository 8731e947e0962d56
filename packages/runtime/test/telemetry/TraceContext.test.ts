import { assert, describe, it } from "@effect/vitest"
import { Effect, References, Tracer } from "effect"
import * as Spans from "../../src/telemetry/Spans.ts"
import * as TraceContext from "../../src/telemetry/TraceContext.ts"

const traceId = "0af7651916cd43dd8448eb211c80319c"
const spanId = "b7ad6b7169203331"
const traceparent = `00-${traceId}-${spanId}-01`

const passedOn = (headers: Parameters<typeof TraceContext.continued>[0]) =>
  TraceContext.current.pipe(TraceContext.continued(headers))

describe("TraceContext", () => {
  it.effect.each([
    ["as it came", { traceparent }, { traceparent }],
    [
      "with what other systems have written into it",
      { traceparent, tracestate: "a=1,b=2" },
      { traceparent, tracestate: "a=1,b=2" }
    ],
    [
      "with the wish not to be sampled",
      { traceparent: `00-${traceId}-${spanId}-00` },
      { traceparent: `00-${traceId}-${spanId}-00` }
    ],
    [
      "of a later version, as version 00 and without flags of its own",
      { traceparent: `01-${traceId}-${spanId}-03-more` },
      { traceparent }
    ],
    ["without a state that is too long", { traceparent, tracestate: `a=${"1".repeat(512)}` }, { traceparent }]
  ] as const)("is passed on %s", ([, given, expected]) =>
    Effect.gen(function* () {
      assert.deepStrictEqual<object>(yield* passedOn(given), expected)
    })
  )

  it.effect.each([
    undefined,
    "",
    "x",
    traceparent.toUpperCase(),
    `00-${traceId}-${spanId}`,
    `00-${traceId}-${spanId}-01-more`,
    `ff-${traceId}-${spanId}-01`,
    `00-${"0".repeat(32)}-${spanId}-01`,
    `00-${traceId}-${"0".repeat(16)}-01`,
    `00-${traceId.slice(1)}-${spanId}-01`,
    `${traceparent}\n`
  ])("is ignored where it is malformed: %j", (traceparent) =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* passedOn({ traceparent, tracestate: "a=1" }), {})
    })
  )

  it.effect("names the open span, where spans are recorded", () =>
    Effect.gen(function* () {
      const seen = yield* Effect.all([TraceContext.current, Effect.currentSpan]).pipe(
        Spans.within("plan"),
        TraceContext.continued({ traceparent })
      )
      const [trace, span] = seen
      assert.deepStrictEqual(trace, { traceparent: `00-${traceId}-${span.spanId}-01` })
      assert.notStrictEqual(span.spanId, spanId)
    })
  )
})

describe("Spans", () => {
  it.effect("are not made, and nobody asks what they begin with, where no spans are recorded", () =>
    Effect.gen(function* () {
      const tracer = Tracer.make({ span: () => assert.fail("A span was made") })
      const trace = yield* TraceContext.current.pipe(
        Spans.within("plan", () => assert.fail("Somebody asked")),
        // Those of a library do not hide the trace either.
        Effect.withSpan("of a library"),
        TraceContext.continued({ traceparent }),
        Effect.provideService(Tracer.Tracer, tracer),
        Effect.provideService(References.TracerEnabled, false)
      )
      assert.deepStrictEqual(trace, { traceparent })
    })
  )
})
