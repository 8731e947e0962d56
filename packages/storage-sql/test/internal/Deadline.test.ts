import { CallerName } from "@bowline/domain/caller/CallerName"
import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { PgClient } from "@effect/sql-pg"
import { assert, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Metric, Schedule, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { TestClock } from "effect/testing"
import { makeWithDeadline } from "../../src/internal/Deadline.ts"
import * as SqlStore from "../../src/SqlStore.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { sessionTtl } from "../stores.ts"

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

const open = Effect.map(Metric.snapshot, (metrics) =>
  metrics.flatMap(({ id, state }) => (id === "bowline.database.operations" && "value" in state ? [state.value] : []))
)

it.effect("interrupts a statement whose asker is interrupted before it waits for the answer", () =>
  Effect.gen(function* () {
    const withDeadline = yield* makeWithDeadline
    const interrupted = yield* Deferred.make<void>()
    let interruptAsker = () => {}
    const statement = Effect.andThen(
      Effect.sync(() => interruptAsker()),
      Effect.onInterrupt(Effect.never, () => Deferred.succeed(interrupted, undefined))
    )
    const asking = yield* Effect.forkChild(withDeadline(statement))
    interruptAsker = () => asking.interruptUnsafe()
    yield* Fiber.await(asking)
    yield* Deferred.await(interrupted)
    assert.deepStrictEqual(yield* open, [0])
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
)

it.effect("counts the statements that wait for their answer, or for a connection", () =>
  Effect.gen(function* () {
    const withDeadline = yield* makeWithDeadline
    const answer = yield* Deferred.make<void>()
    const answered = yield* Effect.forkChild(withDeadline(Deferred.await(answer)), { startImmediately: true })
    const late = yield* Effect.forkChild(Effect.flip(withDeadline(Effect.never)), { startImmediately: true })
    assert.deepStrictEqual(yield* open, [2])
    yield* Deferred.succeed(answer, undefined)
    yield* Fiber.join(answered)
    assert.deepStrictEqual(yield* open, [1])
    yield* TestClock.adjust("10 seconds")
    yield* Fiber.join(late)
    assert.deepStrictEqual(yield* open, [0])
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
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

const caller = CallerName.make("somebody")
const plan = PlanId.make("plan_00000000-0000-0000-0000-000000000000")

it.live("ends a statement that hangs when the stores close, while their connections are still open", () =>
  Effect.gen(function* () {
    const url = yield* migratedDatabase
    const pool = yield* Layer.build(PgClient.layer({ url, maxConnections: 5, applicationName: "pool" }))
    const scope = yield* Scope.make()
    const stores = yield* Layer.buildWithScope(SqlStore.layerNoDeps({ sessionTtl, isShared: true }), scope).pipe(
      Effect.provide(pool)
    )
    const sql = yield* PgClient.makeClient({ url })
    // A transaction would see the same activity all the time.
    const watcher = yield* PgClient.makeClient({ url })
    const untilWaiting = (count: number) =>
      Effect.repeat(
        watcher`select from pg_stat_activity where datname = current_database() and application_name = 'pool'
          and wait_event_type = 'Lock'`,
        { until: (waiting) => waiting.length === count, schedule: Schedule.spaced("5 millis") }
      )
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`lock table plans in access exclusive mode`
        const asking = yield* Effect.forkChild(Effect.flip(Context.get(stores, PlanStore).get(caller, plan)))
        yield* untilWaiting(1)
        yield* Scope.close(scope, Exit.void)
        const exit = asking.pollUnsafe()
        assert(exit !== undefined && Exit.isSuccess(exit))
        assert.strictEqual(exit.value._tag, "StorageError")
        yield* untilWaiting(0)
      })
    )
  }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
)
