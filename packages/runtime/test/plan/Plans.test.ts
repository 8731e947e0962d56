import { anonymous } from "@bowline/domain/caller/CallerName"
import { wait } from "@bowline/testing/http/Move"
import { say, think, usage } from "@bowline/testing/provider/Turn"
import { single, pass, post, readAll, seen, layer } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { askBob, bob, names, stuckPeers } from "./Bob.ts"

describe("Plans", () => {
  it.effect("answers with gapless frames that end in final and done", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "Hello?" })
      const items = yield* Stream.runCollect(frames)
      const events = seen(items)
      assert.deepStrictEqual(
        items.map((item) => (typeof item === "string" ? item : item.seq)),
        items.map((_, index) => index + 1)
      )
      assert.deepStrictEqual(names(events), [
        "session",
        "plan",
        "step",
        "reasoning.delta",
        "text.delta",
        "text.delta",
        "usage",
        "final",
        "done"
      ])
      const final = single(events, "final")
      assert.strictEqual(final.text, "Hello world")
      assert.strictEqual(final.usage.output_tokens, 7)
    }).pipe(
      Effect.provide(layer({ script: [[think("hm"), say("Hello"), say(" world"), usage({ output_tokens: 7 })]] })),
      Effect.scoped
    )
  )

  it.effect("runs a plan that names a configured model, and refuses one that names another", () =>
    Effect.gen(function* () {
      for (const model of ["scripted/model", "scripted/second"]) {
        const { frames } = yield* post({ question: "?", preferences: { model } })
        assert.strictEqual(single(yield* readAll(frames), "plan").model, model)
      }
      const refused = yield* Effect.flip(post({ question: "?", preferences: { model: "scripted/third" } }))
      assert.strictEqual(refused._tag, "InvalidRequest")
    }).pipe(
      Effect.provide(layer({ script: () => [say("ok")], config: { fallbackModels: ["scripted/second"] } })),
      Effect.scoped
    )
  )

  it.effect("is aborted when its last reader disconnects, and not before", () => {
    const { interruptedAt, peers } = stuckPeers()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const streams = yield* PlanStreams
      const caller = yield* Scope.make()
      const { plan_id } = yield* post({ question: "?", agents: [bob] }).pipe(Scope.provide(caller))
      const other = yield* Scope.make()
      yield* streams.read(anonymous, plan_id, 0).pipe(Scope.provide(other))
      yield* TestClock.adjust("1 second")
      yield* Scope.close(caller, Exit.void)
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "running")
      yield* Scope.close(other, Exit.void)
      yield* TestClock.adjust(0)
      assert.deepStrictEqual(interruptedAt, [2_000])
      const plan = yield* plans.get(anonymous, plan_id)
      assert.deepInclude(plan, { state: "aborted" })
      assert.deepInclude(plan.error, { reason: "disconnect", stage: "tool", retryable: false })
    }).pipe(Effect.provide(layer({ script: [askBob], peers })))
  })

  it.effect("runs on without a reader when the caller asked for it, and can be read from any seq later", () =>
    Effect.gen(function* () {
      const streams = yield* PlanStreams
      const { plan_id } = yield* Effect.scoped(post({ question: "?", preferences: { on_disconnect: "continue" } }))
      yield* TestClock.adjust("1 minute")
      const whole = yield* Effect.scoped(
        Effect.flatMap(streams.read(anonymous, plan_id, 0), ({ frames }) => Stream.runCollect(frames))
      )
      assert.strictEqual(single(seen(whole), "final").text, "ab")
      for (let after = 1; after < whole.length; after++) {
        const rest = yield* Effect.scoped(
          Effect.flatMap(streams.read(anonymous, plan_id, after), ({ frames }) => Stream.runCollect(frames))
        )
        assert.deepStrictEqual(rest, whole.slice(after))
      }
      const past = yield* Effect.scoped(streams.read(anonymous, plan_id, whole.length + 1)).pipe(Effect.flip)
      assert.strictEqual(past._tag, "InvalidRequest")
    }).pipe(Effect.provide(layer({ script: [[say("a"), wait("30 seconds"), say("b")]] })))
  )

  it.effect("is cancelled once, and stays as it ended", () => {
    const { peers } = stuckPeers()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* post({ question: "?", agents: [bob] })
      yield* TestClock.adjust("1 second")
      const cancelled = yield* plans.cancel(anonymous, plan_id)
      assert.deepInclude(cancelled.error, { code: "aborted", reason: "cancelled" })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* plans.cancel(anonymous, plan_id), cancelled)
    }).pipe(Effect.provide(layer({ script: [askBob], peers })), Effect.scoped)
  })

  it.effect("is cancelled also when it is stored, and does not run yet", () => {
    const { peers } = stuckPeers()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const posting = yield* Effect.forkChild(post({ question: "?", agents: [bob] }))
      yield* pass("1 second")
      const [stored] = (yield* plans.list(anonymous, {}, { limit: 1 })).items
      assert.isDefined(stored)
      const cancelling = yield* Effect.forkChild(plans.cancel(anonymous, stored.plan_id))
      yield* pass("5 seconds")
      assert.deepInclude((yield* Fiber.join(cancelling)).error, { code: "aborted", reason: "cancelled" })
      yield* Fiber.join(posting)
    }).pipe(
      Effect.provide(
        layer({
          script: [askBob],
          peers,
          disturb: ({ create }) => ({
            create: (plan, maxQueue) => Effect.tap(create(plan, maxQueue), Effect.sleep("3 seconds"))
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("says ping after 10 s of silence", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?" })
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(names(yield* Fiber.join(reader)), [
        "session",
        "plan",
        "step",
        "text.delta",
        "ping",
        "ping",
        "text.delta",
        "final",
        "done"
      ])
    }).pipe(Effect.provide(layer({ script: [[say("a"), wait("25 seconds"), say("b")]] })), Effect.scoped)
  )

  it.effect("lets running plans run on for the grace, then aborts them, and refuses new ones", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const posted = yield* Effect.forEach(["short", "long"], (question) => post({ question }))
      const readers = yield* Effect.forEach(posted, ({ frames }) => Effect.forkChild(readAll(frames)))
      const drained = yield* Effect.forkChild(plans.drain)
      yield* TestClock.adjust("10 seconds")
      assert.deepInclude(yield* Effect.flip(post({ question: "new" })), { code: "draining" })
      assert.isUndefined(drained.pollUnsafe())
      yield* TestClock.adjust("20 seconds")
      yield* Fiber.join(drained)
      const [one = [], two = []] = yield* Effect.forEach(readers, Fiber.join)
      assert.strictEqual(single(one, "final").text, "done")
      assert.deepInclude(single(two, "error"), { reason: "shutdown", retryable: true, stage: "provider" })
    }).pipe(
      Effect.provide(
        layer({
          script: ({ messages: [message] }) =>
            message?.role === "user" && message.text === "short"
              ? [wait("10 seconds"), say("done")]
              : [say("..."), wait("100 seconds")]
        })
      ),
      Effect.scoped
    )
  )
})
