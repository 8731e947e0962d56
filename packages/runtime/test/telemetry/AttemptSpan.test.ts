import { reset, stall, wait } from "@bowline/testing/http/Move"
import { callTool, doneOnly, error, say, usage } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Array, Cause, Effect, Exit, Fiber, Layer, Logger, Metric, Option, References, Tracer } from "effect"
import { TestClock } from "effect/testing"
import * as NamedModels from "../../src/config/NamedModels.ts"
import { bob } from "../plan/Bob.ts"

/** Runs a plan to its end, and gives what was traced, what was measured and what was logged. */
const observed = Effect.fnUntraced(function* (
  options: Parameters<typeof TestKit.layer>[0],
  body: object = {},
  metrics: Layer.Layer<never> = Layer.empty
) {
  const spans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (given) => {
      const span = new Tracer.NativeSpan(given)
      spans.push(span)
      return span
    }
  })
  const run = Effect.gen(function* () {
    const { frames } = yield* TestKit.post({ question: "?", ...body })
    const reader = yield* Effect.forkChild(TestKit.readAll(frames))
    yield* TestClock.adjust("10 minutes")
    const events = yield* Fiber.join(reader)
    return { events, measured: yield* Metric.snapshot }
  })
  const lines: Array<object> = []
  const logger = Logger.make<unknown, void>(({ message, fiber }) => {
    const [line] = Array.ensure(message)
    const { plan_id, session_id, caller, ...annotations } = fiber.getRef(References.CurrentLogAnnotations)
    lines.push({ line, isOfPlan: [plan_id, session_id, caller].every((id) => typeof id === "string"), ...annotations })
  })
  const { events, measured } = yield* run.pipe(
    Effect.scoped,
    Effect.provide(Layer.provideMerge(TestKit.layer(options), [Logger.layer([logger]), metrics])),
    Effect.provideService(Tracer.Tracer, tracer),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )
  return { events, measured, spans, lines }
})

const parentOf = (span: Tracer.Span): string | undefined =>
  Option.getOrUndefined(Option.map(span.parent, (parent) => ("name" in parent ? parent.name : parent.spanId)))

const attributesOf = (span: Tracer.Span | undefined) => Object.fromEntries(span?.attributes ?? [])

/** What was counted under a name, by its labels. */
const counted = (measured: ReadonlyArray<Metric.Metric.Snapshot>, id: string) =>
  measured.flatMap((metric) =>
    metric.id === id && metric.type === "Counter"
      ? [[Object.values(metric.attributes ?? {}).join(" "), metric.state.count] as const]
      : []
  )

const sums = (measured: ReadonlyArray<Metric.Metric.Snapshot>, id: string) =>
  measured.flatMap((metric) =>
    metric.id === id && metric.type === "Histogram"
      ? [
          [
            Object.entries(metric.attributes ?? {})
              .map(([, value]) => value)
              .join(" "),
            metric.state.count,
            metric.state.sum
          ]
        ]
      : []
  )

const tokens = { input_tokens: 12, output_tokens: 5, cached_input_tokens: 8, reasoning_tokens: 3 }

describe("AttemptSpan", () => {
  it.effect("traces a plan down to its attempts, by the names of OpenTelemetry", () =>
    Effect.gen(function* () {
      const peers = {
        call: () => Effect.succeed({ state: "completed" as const, content: "hi", verified: "unknown" as const })
      }
      const script = [
        [error(503)],
        [wait("2 seconds"), callTool("bob_ask", { input: "hi" }), usage(tokens)],
        [say("x"), doneOnly]
      ]
      const { spans } = yield* observed({ script, peers }, { agents: [bob] })
      assert.deepStrictEqual(
        spans
          .filter(({ name }) => ["plan", "step", "chat model"].includes(name))
          .map((span) => [span.name, parentOf(span)]),
        [
          ["plan", undefined],
          ["step", "plan"],
          ["chat model", "step"],
          ["chat model", "step"],
          ["step", "plan"],
          ["chat model", "step"]
        ]
      )
      const [failed, called, inferred] = spans.filter(({ name }) => name === "chat model")
      const asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "model",
        "bowline.credential.id": "scripted-1"
      }
      assert.strictEqual(failed?.kind, "client")
      assert.deepStrictEqual(attributesOf(failed), { ...asked, "bowline.attempt": 1, "error.type": "server_error" })
      assert.isTrue(failed?.status._tag === "Ended" && failed.status.exit._tag === "Failure")
      assert.deepStrictEqual(attributesOf(called), {
        ...asked,
        "bowline.attempt": 2,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.response.time_to_first_chunk": 2,
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.usage.reasoning.output_tokens": 3
      })
      assert.deepInclude(attributesOf(inferred), { "bowline.attempt": 1, "bowline.finish.inferred": true })
      assert.deepStrictEqual(
        spans.filter(({ name }) => name === "step").map((span) => attributesOf(span)),
        [{ "bowline.step": 1 }, { "bowline.step": 2 }]
      )
    })
  )

  it.effect("ends the span of an attempt that its plan does not wait for", () =>
    Effect.gen(function* () {
      const { spans, measured } = yield* observed(
        { script: [[say("x"), stall]] },
        { preferences: { timeout_ms: 60_000 } }
      )
      const [attempt] = spans.filter(({ name }) => name === "chat model")
      assert.strictEqual(attempt?.status._tag, "Ended")
      assert.deepInclude(attributesOf(attempt), { "error.type": "aborted" })
      assert.deepStrictEqual(counted(measured, "bowline.provider.attempts"), [["scripted model aborted", 1]])
    })
  )

  it.effect("has the type of a defect, and nothing of what it says", () =>
    Effect.gen(function* () {
      const { spans, events } = yield* observed({
        script: () => {
          throw new Error("planted in the message", { cause: new Error("planted in the cause") })
        }
      })
      assert.deepInclude(TestKit.single(events, "error"), { code: "internal" })
      const ended = spans.map(({ name, status, attributes }) => ({
        name,
        type: attributes.get("error.type"),
        text:
          status._tag === "Ended" && Exit.isFailure(status.exit)
            ? Cause.prettyErrors(status.exit.cause, { includeCauseInStack: true }).map((error) => [
                error.message,
                error.stack
              ])
            : undefined
      }))
      assert.notInclude(JSON.stringify(ended), "planted")
      assert.deepStrictEqual(
        ended.map(({ name, type }) => [name, type]),
        [
          ["plan", "internal"],
          ["step", "defect"],
          ["chat model", "defect"]
        ]
      )
    })
  )
})

describe("ProviderMetrics", () => {
  it.effect("count attempts, retries and what became of them, by provider, model and reason", () =>
    Effect.gen(function* () {
      const { measured } = yield* observed({
        script: ({ model }) => [wait("1 second"), error(model === "model" ? 500 : 429)],
        config: { fallbackModels: ["scripted/other"], maxRetries: 1 }
      })
      assert.deepStrictEqual(counted(measured, "bowline.provider.attempts"), [
        ["scripted model server_error", 2],
        ["scripted other rate_limited", 2]
      ])
      assert.deepStrictEqual(counted(measured, "bowline.provider.retries"), [
        ["scripted model server_error", 2],
        ["scripted other rate_limited", 1]
      ])
      assert.deepStrictEqual(counted(measured, "bowline.provider.failovers"), [["scripted model server_error", 1]])
      assert.deepStrictEqual(counted(measured, "bowline.provider.retries_exhausted"), [
        ["scripted other rate_limited", 1]
      ])
      assert.deepStrictEqual(counted(measured, "bowline.credentials.blocked"), [["scripted other rate_limited", 1]])
      assert.deepStrictEqual(counted(measured, "bowline.provider.retracts"), [])
    })
  )

  it.effect("count all unknown models together", () =>
    Effect.gen(function* () {
      const { measured } = yield* observed(
        {
          script: ({ model }) => (model === "third" ? [say("ok"), usage(tokens)] : [error(500)]),
          config: { fallbackModels: ["scripted/second", "scripted/third"], maxRetries: 0 }
        },
        {},
        NamedModels.layer(new Set(["scripted/model"]))
      )
      assert.deepStrictEqual(counted(measured, "bowline.provider.attempts"), [
        ["scripted model server_error", 1],
        ["scripted other server_error", 1],
        ["scripted other", 1]
      ])
      assert.deepStrictEqual(counted(measured, "bowline.provider.failovers"), [
        ["scripted model server_error", 1],
        ["scripted other server_error", 1]
      ])
      assert.deepStrictEqual(sums(measured, "gen_ai.client.token.usage"), [
        ["{token} scripted other chat input", 1, 12],
        ["{token} scripted other chat output", 1, 5]
      ])
    })
  )

  it.effect("measure how long attempts took, until their first content and in all, and their tokens", () =>
    Effect.gen(function* () {
      const { measured } = yield* observed({
        script: [
          [wait("1 second"), say("x"), wait("2 seconds"), usage(tokens), stall],
          [wait("3 seconds"), say("y"), wait("1 second"), usage(tokens)]
        ]
      })
      assert.deepStrictEqual(sums(measured, "gen_ai.client.operation.duration"), [
        ["s scripted model chat idle_timeout", 1, 121],
        ["s scripted model chat", 1, 4]
      ])
      assert.deepStrictEqual(sums(measured, "gen_ai.client.operation.time_to_first_chunk"), [
        ["s scripted model chat", 2, 4]
      ])
      assert.deepStrictEqual(sums(measured, "gen_ai.client.token.usage"), [
        ["{token} scripted model chat input", 2, 24],
        ["{token} scripted model chat output", 2, 10]
      ])
      assert.deepStrictEqual(counted(measured, "bowline.provider.retracts"), [["scripted model idle_timeout", 1]])
    })
  )
})

describe("the log of a step", () => {
  it.effect("has a line for each retry, one for a credential blocked, and one when the retries are exhausted", () =>
    Effect.gen(function* () {
      const { lines, events } = yield* observed({
        script: [[error(429)], [reset], [error(503)]],
        config: { maxRetries: 2 }
      })
      const [first, second] = TestKit.all(events, "retry")
      const asked = { isOfPlan: true, model: "scripted/model" }
      const credential = "scripted-1"
      assert.deepStrictEqual(lines.slice(0, -1), [
        { ...asked, line: "credential_blocked", error_type: "rate_limited", scope: "credential_model", credential },
        {
          ...asked,
          line: "provider_retry",
          error_type: "rate_limited",
          attempt: 1,
          delay_ms: first?.delay_ms,
          credential
        },
        {
          ...asked,
          line: "provider_retry",
          error_type: "transport_reset",
          attempt: 2,
          delay_ms: second?.delay_ms,
          credential
        },
        { ...asked, line: "provider_retries_exhausted", error_type: "server_error", attempts: 3 }
      ])
      assert.deepInclude(lines.at(-1), { line: "plan_failed", code: "provider_server_error" })
    })
  )

  it.effect("has no line of retries for a request that no attempt would have mended", () =>
    Effect.gen(function* () {
      const { lines, measured } = yield* observed({ script: [[error(400)]] })
      assert.deepStrictEqual(
        lines.map((line) => "line" in line && line.line),
        ["plan_failed"]
      )
      assert.deepStrictEqual(counted(measured, "bowline.provider.retries_exhausted"), [])
    })
  )
})
