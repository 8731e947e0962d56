import { assert, describe, it } from "@effect/vitest"
import { Config, ConfigProvider, Effect, Exit, Fiber, Layer, Queue, Redacted, Schedule, Stream } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import type { StreamEvent } from "../../src/Bowline.ts"
import { BowlineClient, type BowlineClientOptions } from "../../src/effect/BowlineClient.ts"
import { answered, json, makeGateway, openStream, planId, problem, settle, stream } from "../Gateway.ts"

const frames = answered("Hel", "lo")
const all = frames.map((_, i) => i + 1)
const question = { question: "Which knot?" }

/** Runs a test against a scripted gateway. `cut` waits for the next time a stream is cut. */
const against = <A, E>(
  options: Partial<BowlineClientOptions>,
  test: (
    given: ReturnType<typeof makeGateway> & {
      readonly client: BowlineClient["Service"]
      readonly cut: Effect.Effect<Extract<StreamEvent, { type: "cut" }>>
    }
  ) => Effect.Effect<A, E>
) =>
  Effect.gen(function* () {
    const gateway = makeGateway()
    const cuts = yield* Queue.unbounded<Extract<StreamEvent, { type: "cut" }>>()
    const onEvent = (event: StreamEvent) => {
      if (event.type === "cut") Queue.offerUnsafe(cuts, event)
    }
    const layer = Layer.provide(
      BowlineClient.layer({ baseUrl: "http://gateway", onEvent, ...options }),
      Layer.succeed(FetchHttpClient.Fetch, gateway.fetch)
    )
    return yield* Effect.gen(function* () {
      const client = yield* BowlineClient
      // The event is told before the sleep begins.
      const cut = Effect.tap(Queue.take(cuts), () => Effect.promise(settle))
      return yield* test({ ...gateway, client, cut })
    }).pipe(Effect.provide(layer))
  })

describe("BowlineClient", () => {
  it.effect("waits on Effect's clock: for silence, and between two attempts", () =>
    against({}, ({ answer, client, cut }) =>
      Effect.gen(function* () {
        answer(openStream(...frames.slice(0, 3)).response, problem(503, "unavailable"), stream(...frames.slice(3)))
        const reading = yield* Effect.forkChild(Stream.runCollect(client.plan(question)))
        yield* Effect.promise(settle)
        yield* TestClock.adjust("29999 millis")
        yield* TestClock.adjust("1 millis")
        const silence = yield* cut
        assert.strictEqual(silence.error.code, "silence")
        assert.isBelow(silence.delayMs, 500)
        yield* TestClock.adjust("500 millis")
        const refused = yield* cut
        assert.strictEqual(refused.error.code, "unavailable")
        assert.isBelow(refused.delayMs, 1_000)
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(
          (yield* Fiber.join(reading)).map(({ id }) => id),
          all
        )
      })
    )
  )

  it.effect("gives up after 30 s of Effect's clock where nothing has answered, else after 15 minutes", () =>
    against({ schedule: Schedule.spaced("1 minute") }, ({ answer, client, cut }) =>
      Effect.gen(function* () {
        const away = Array.from({ length: 20 }, () => new TypeError("fetch failed"))
        answer(...away.slice(0, 1))
        const never = yield* Effect.forkChild(Effect.flip(Stream.runDrain(client.plan(question))))
        yield* cut
        yield* TestClock.adjust("30 seconds")
        assert.deepInclude(yield* Fiber.join(never), { code: "unreachable", retryable: true })

        answer(stream(...frames.slice(0, 3)), ...away)
        const reading = yield* Effect.forkChild(Effect.flip(Stream.runDrain(client.plan(question))))
        for (let minute = 0; minute < 15; minute++) {
          const { delayMs } = yield* cut
          assert.strictEqual(delayMs, 60_000)
          yield* TestClock.adjust("1 minute")
        }
        const error = yield* Fiber.join(reading)
        assert.deepInclude(error, { code: "incomplete", retryable: true })
      })
    )
  )

  it.effect("waits as its schedule says, anew after each good frame, and ends with it", () =>
    against(
      { schedule: Schedule.max([Schedule.exponential("1 second"), Schedule.recurs(2)]) },
      ({ answer, client, cut }) =>
        Effect.gen(function* () {
          answer(stream(...frames.slice(0, 3)), new TypeError("fetch failed"), stream(...frames.slice(3, 4)))
          answer(...Array.from({ length: 3 }, () => new TypeError("fetch failed")))
          const reading = yield* Effect.forkChild(Effect.flip(Stream.runDrain(client.plan(question))))
          const delays: Array<number> = []
          for (let i = 0; i < 4; i++) {
            const { delayMs } = yield* cut
            delays.push(delayMs)
            yield* TestClock.adjust(delayMs)
          }
          assert.deepStrictEqual(delays, [1_000, 2_000, 1_000, 2_000])
          assert.strictEqual((yield* Fiber.join(reading)).code, "incomplete")
        })
    )
  )

  it.effect("cancels the plan when its reader is interrupted, and when it has had enough", () =>
    against({}, ({ answer, asked, client }) =>
      Effect.gen(function* () {
        const cancels = () => asked.filter(({ path }) => path === `/plans/${planId}/cancel`).length
        const open = openStream(...frames.slice(0, 3))
        answer(open.response, json({}))
        const reading = yield* Effect.forkChild(Stream.runDrain(client.plan(question)))
        yield* Effect.promise(settle)
        yield* Fiber.interrupt(reading)
        yield* Effect.promise(settle)
        assert.strictEqual(cancels(), 1)
        assert.isTrue(open.isCancelled())

        answer(openStream(...frames.slice(0, 3)).response, json({}))
        yield* Stream.runDrain(Stream.take(client.plan(question), 2))
        yield* Effect.promise(settle)
        assert.strictEqual(cancels(), 2)
      })
    )
  )

  it.effect("leaves a plan alone that says so, and one that it only reads", () =>
    against({}, ({ answer, asked, client }) =>
      Effect.gen(function* () {
        const opened = [openStream(...frames.slice(0, 3)), openStream(...frames.slice(0, 3))]
        answer(...opened.map(({ response }) => response))
        const request = { ...question, preferences: { on_disconnect: "continue" } } as const
        yield* Stream.runDrain(Stream.take(client.plan(request), 2))
        yield* Stream.runDrain(Stream.take(client.attach(planId), 2))
        yield* Effect.promise(settle)
        assert.strictEqual(asked.length, 2)
        assert.deepStrictEqual(
          opened.map((one) => one.isCancelled()),
          [true, true]
        )
      })
    )
  )

  it.effect("makes every other request, and aborts it when it is interrupted", () =>
    against({ apiKey: Redacted.make("key") }, ({ answer, asked, client }) =>
      Effect.gen(function* () {
        answer(
          json({ plan_id: planId }),
          json({ plans: [1], next_cursor: "two" }),
          json({ plans: [2], next_cursor: null })
        )
        const plan = yield* client.use((bowline, signal) => bowline.plans.get(planId, { signal }))
        assert.strictEqual(plan.plan_id, planId)
        const plans = yield* Stream.runCollect(client.list((bowline) => bowline.plans.list()))
        assert.deepStrictEqual<ReadonlyArray<unknown>>(plans, [1, 2])
        assert.strictEqual(asked[0]?.headers.get("authorization"), "Bearer key")

        answer(problem(404, "not_found"))
        const error = yield* Effect.flip(client.use((bowline) => bowline.plans.get(planId)))
        assert.deepInclude(error, { _tag: "BowlineError", code: "not_found" })

        answer(() => new Promise<Response>(() => {}))
        const asking = yield* Effect.forkChild(client.use((bowline, signal) => bowline.plans.get(planId, { signal })))
        yield* Effect.promise(settle)
        assert.isTrue(Exit.hasInterrupts(yield* Effect.andThen(Fiber.interrupt(asking), Fiber.await(asking))))
        yield* Effect.promise(settle)
        assert.isTrue(asked.at(-1)?.signal.aborted)

        answer(() => new Promise<Response>(() => {}))
        const listing = yield* Effect.forkChild(Stream.runDrain(client.list((bowline) => bowline.plans.list())))
        yield* Effect.promise(settle)
        assert.isFalse(asked.at(-1)?.signal.aborted)
        yield* Fiber.interrupt(listing)
        yield* Effect.promise(settle)
        assert.isTrue(asked.at(-1)?.signal.aborted)
      })
    )
  )

  it.effect("leaves nothing unhandled behind its scope", () =>
    Effect.gen(function* () {
      const { answer, fetch } = makeGateway()
      answer(json({ plan_id: planId }))
      const client = yield* BowlineClient.make({
        baseUrl: "http://gateway",
        schedule: Schedule.spaced("1 second")
      }).pipe(Effect.scoped, Effect.provideService(FetchHttpClient.Fetch, fetch))
      const plan = yield* client.use((bowline) => bowline.plans.get(planId))
      assert.strictEqual(plan.plan_id, planId)
      // Vitest fails for a rejection that nobody handles.
      yield* Effect.promise(settle)
    })
  )

  it.effect("reads its options from the configuration", () =>
    Effect.gen(function* () {
      const { answer, asked, fetch } = makeGateway()
      answer(json({}))
      const layer = BowlineClient.layerConfig({
        baseUrl: Config.String("BOWLINE_URL"),
        apiKey: Config.Redacted("BOWLINE_API_KEY")
      }).pipe(
        Layer.provide([
          Layer.succeed(FetchHttpClient.Fetch, fetch),
          ConfigProvider.layer(ConfigProvider.fromUnknown({ BOWLINE_URL: "http://gateway", BOWLINE_API_KEY: "key" }))
        ])
      )
      yield* Effect.provide(
        Effect.flatMap(BowlineClient, (client) => client.use((bowline) => bowline.plans.get(planId))),
        layer
      )
      assert.strictEqual(asked[0]?.path, `/plans/${planId}`)
      assert.strictEqual(asked[0]?.headers.get("authorization"), "Bearer key")
    })
  )
})
