import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { makeWithDeadline } from "../../src/internal/Deadline.ts"

it.effect(
  "treats a statement without an answer for 10 s as a database that is away, and does not wait for its end",
  () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const withDeadline = yield* Scope.provide(makeWithDeadline, scope)
      const silent = Effect.never.pipe(Effect.onInterrupt(() => Effect.never))
      const asking = yield* Effect.forkChild(Effect.flip(withDeadline(silent)), { startImmediately: true })
      yield* TestClock.adjust("9999 millis")
      assert.isUndefined(asking.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      assert.strictEqual((yield* Fiber.join(asking)).reason._tag, "unavailable")

      // Nor does the layer wait for it for ever.
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(closing)
    })
)

it.effect("interrupts a statement that nobody waits for any more", () =>
  Effect.gen(function* () {
    const withDeadline = yield* makeWithDeadline
    const interrupted = yield* Deferred.make<void>()
    const statement = Effect.onInterrupt(Effect.never, () => Deferred.succeed(interrupted, undefined))
    const asking = yield* Effect.forkChild(withDeadline(statement), { startImmediately: true })
    yield* Fiber.interrupt(asking)
    yield* Deferred.await(interrupted)
  })
)

it.effect("ends each statement before what its layer stands on is closed", () =>
  Effect.gen(function* () {
    const log: Array<string> = []
    const note = (line: string) => Effect.sync(() => void log.push(line))
    const scope = yield* Scope.make()
    yield* Scope.addFinalizer(scope, note("the pool is closed"))
    const withDeadline = yield* Scope.provide(makeWithDeadline, scope)
    const statement = Effect.onInterrupt(Effect.never, () => Effect.delay(note("the statement has ended"), "1 second"))
    const asking = yield* Effect.forkChild(Effect.flip(withDeadline(statement)), { startImmediately: true })
    yield* Effect.forkChild(Scope.close(scope, Exit.void), { startImmediately: true })
    yield* TestClock.adjust("1 second")
    assert.deepStrictEqual(log, ["the statement has ended", "the pool is closed"])
    assert.strictEqual((yield* Fiber.join(asking)).reason._tag, "unavailable")
  })
)
