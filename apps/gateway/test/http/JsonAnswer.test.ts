import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { NotFound } from "@bowline/domain/plan/Refusal"
import * as Usage from "@bowline/domain/plan/Usage"
import { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { Plans } from "@bowline/runtime/plan/Plans"
import { type PlanFrame, toFrame } from "@bowline/runtime/unstable/store/EventRow"
import { type Followed, PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Fiber, Layer, Stream } from "effect"
import { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { prefersJson, waitFor } from "../../src/http/JsonAnswer.ts"
import * as ReadingAnswer from "../../src/http/ReadingAnswer.ts"

const ids = {
  plan_id: PlanId.make("plan_00000000-0000-4000-8000-000000000001"),
  session_id: SessionId.make("session_00000000-0000-4000-8000-000000000002")
}

describe("a caller that waits for one object", () => {
  it.effect("gets the id of its plan when the database is away, and nothing more than that of a bug", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const failing = (reason: StorageError["reason"]) => {
        const frames = Stream.fail(new StorageError({ reason }))
        const plan = { ...ids, frames, connect: () => () => undefined, leaveRunning: Effect.void }
        return Effect.flip(waitFor(plans, anonymous, plan))
      }
      assert.deepInclude(yield* failing(new Unavailable({ cause: "?" })), { code: "unavailable", plan_id: ids.plan_id })
      assert.strictEqual((yield* failing(new Rejected({ cause: "?" })))._tag, "StorageError")
    }).pipe(Effect.provide(Layer.mock(Plans, {})))
  )
})

describe("a caller that waits for a long time for one object", () => {
  const final = {
    stop_reason: "stop" as const,
    text: "late",
    usage: { input_tokens: 3, output_tokens: 1, cached_input_tokens: 0, reasoning_tokens: 0 },
    steps: 1,
    tool_calls: 0,
    duration_ms: 25_000
  }
  const used = { step: 1, attempt: 1, cost_usd: null, ...final.usage }

  /** What comes of a plan whose frames are these, and when: what is written by 9 s, by 10 s, and each 10 s from then on. */
  const read = (frames: Stream.Stream<Followed<PlanFrame>, StorageError>) =>
    Effect.gen(function* () {
      const answerWith = yield* ReadingAnswer.make
      const headers = { accept: "application/json" }
      const request = HttpServerRequest.fromWeb(new Request("http://gateway/plan", { method: "POST", headers }))
      const reading = {
        ...ids,
        frames: Stream.empty,
        connect: () => () => undefined,
        leaveRunning: Effect.void,
        replaced: Effect.void,
        isHere: () => true
      }
      const asking = yield* Effect.forkChild(answerWith(anonymous, Effect.succeed(reading), request), {
        startImmediately: true
      })
      yield* TestClock.adjust("9 seconds")
      const isEarly = asking.pollUnsafe() !== undefined
      yield* TestClock.adjust("1 second")
      const { body, headers: told, status } = yield* Fiber.join(asking)
      const texts: Array<string> = []
      if (body._tag === "Stream") {
        const writing = yield* Effect.forkChild(
          Stream.runForEach(Stream.orDie(Stream.decodeText(body.stream)), (text) =>
            Effect.sync(() => texts.push(text))
          ),
          { startImmediately: true }
        )
        yield* TestClock.adjust("20 seconds")
        yield* Fiber.join(writing)
      }
      return { isEarly, status, type: told["content-type"], texts, kind: body._tag }
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.mergeAll(
          Layer.mock(Plans, { get: () => Effect.fail(new NotFound({ what: "plan" })) }),
          Layer.mock(PlanFollower, {
            follow: () => ({ ...ids, frames, connect: () => () => undefined, leaveRunning: Effect.void })
          })
        )
      )
    )

  const behind = (duration: Duration.Input, items: Stream.Stream<Followed<PlanFrame>, StorageError>) =>
    Stream.concat(Stream.fromEffectDrain(Effect.sleep(duration)), items)
  const frame = (event: PlanEvent, seq = 1) => toFrame(seq, "2026-01-02T03:04:05.678Z", event)

  it.effect("gets the head of the answer within 10 s, a space each 10 s, and then the object", () =>
    Effect.gen(function* () {
      const end = Stream.make(frame({ event: "final", data: final }), "Over" as const)
      const { texts, ...answer } = yield* read(behind("25 seconds", end))
      assert.deepStrictEqual(answer, { isEarly: false, status: 200, type: "application/json", kind: "Stream" })
      assert.deepStrictEqual(texts.slice(0, -1), [" ", " "])
      assert.deepStrictEqual(JSON.parse(texts.join("")), { ...ids, state: "completed", final, usage: Usage.empty })
    })
  )

  it.effect("gets an object at once with its own status where the plan is over before", () =>
    Effect.gen(function* () {
      const end = Stream.make(frame({ event: "final", data: final }), "Over" as const)
      const answer = yield* read(behind("5 seconds", end))
      assert.deepInclude(answer, { isEarly: true, status: 200, kind: "Uint8Array", texts: [] })
    })
  )

  it.effect("is told in the object that the plan runs on, once it is too late for another status", () =>
    Effect.gen(function* () {
      const failing = Stream.fail(new StorageError({ reason: new Unavailable({ cause: "?" }) }))
      const begun = Stream.make(frame({ event: "usage", data: used }))
      const ends = { draining: Stream.make("Draining" as const), unavailable: failing }
      for (const [code, end] of Object.entries(ends)) {
        const { status, texts } = yield* read(Stream.concat(begun, behind("25 seconds", end)))
        const { error, ...result } = JSON.parse(texts.join("")) as { readonly error: object }
        assert.strictEqual(status, 200)
        assert.deepStrictEqual(result, { ...ids, state: "running", usage: final.usage })
        assert.deepInclude(error, { code, retryable: true, stage: null })
      }
    })
  )
})

describe("prefersJson", () => {
  it.each([
    [undefined, false],
    ["", false],
    ["*/*", false],
    ["text/html", false],
    ["text/event-stream", false],
    ["application/json", true],
    ["Application/JSON; charset=utf-8", true],
    ["application/*", true],
    ["application/json, text/plain, */*", true],
    ["text/event-stream, application/json", false],
    ["application/json, text/event-stream", true],
    ["application/json;q=0.5, text/event-stream", false],
    ["text/event-stream;q=0.5, application/json", true],
    ["application/json;q=0, */*", false],
    ["application/json;version=1;q=0.9, text/event-stream;q=0.8", true],
    ["text/event-stream, */*;q=0.1", false]
  ])("wants one object for %j: %s", (accept, expected) => {
    assert.strictEqual(prefersJson(accept), expected)
  })
})
