import { anonymous } from "@bowline/domain/caller/CallerName"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import * as Given from "@bowline/testing/unstable/store/Given"
import { layerOnStore, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import {
  Array as Arr,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Logger,
  Option,
  Result,
  Schedule,
  Stream
} from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { onPostgres } from "../stores.ts"

/** Each commit that inserts such events waits at its end for a lock that the test holds, however often it is cancelled. */
const holdCommits = Effect.fnUntraced(function* (when: string) {
  const sql = yield* SqlClient.SqlClient
  const connection = yield* sql.reserve
  const run = (text: string) => connection.executeUnprepared(text, [], undefined)
  yield* run("select pg_advisory_lock(7)")
  yield* sql`
create function hold() returns trigger language plpgsql as $$ begin
  loop
    begin
      perform pg_advisory_xact_lock(7);
      return null;
    exception when query_canceled then null;
    end;
  end loop;
end $$`
  yield* sql.unsafe(`
create constraint trigger hold after insert on events deferrable initially deferred
for each row when (${when}) execute function hold()`)
  return { release: run("select pg_advisory_unlock(7)") }
})

/**
 * Waits, on the real clock, until so many statements wait for a lock. The activity would still name one that has just got the lock it
 * waited for, as when a trigger is created beside it.
 */
const untilBlocked = (statements: number) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ readonly pid: number }>`
select pid from pg_locks join pg_stat_activity using (pid) where datname = current_database() and not granted`
  ).pipe(
    Effect.repeat({ until: (blocked) => blocked.length >= statements, schedule: Schedule.spaced("5 millis") }),
    TestClock.withLive
  )

type Gate = Deferred.Deferred<void>

describe("a batch that is written again while its first try is being committed", () => {
  it.effect("is stored once", () =>
    Effect.gen(function* () {
      const store = yield* PlanStore
      const sessions = yield* SessionStore
      const [held, ending] = [yield* Given.createHeld(), yield* Given.createHeld()]
      const { release } = yield* holdCommits("true")
      const batch = [
        Given.commitOf(
          held,
          [yield* Given.appended("one"), Given.started(yield* Given.newTask, "tool")],
          [Given.row(2, "step"), Given.row(3, "task.started")]
        ),
        Given.commitOf(
          ending,
          [yield* Given.appended("two"), Given.settled()],
          [Given.row(2, "final"), Given.row(3, "done")]
        )
      ]
      const first = yield* Effect.forkChild(store.commit(batch))
      yield* untilBlocked(1)
      const second = yield* Effect.forkChild(store.commit(batch))
      yield* untilBlocked(2)
      yield* release
      assert.deepStrictEqual(yield* Fiber.join(first), new Map())
      assert.deepStrictEqual(yield* Fiber.join(second), new Map())
      for (const stored of [held, ending]) {
        assert.deepStrictEqual(
          (yield* Given.eventsOf(stored)).map(({ seq }) => seq),
          [1, 2, 3]
        )
        assert.lengthOf(yield* sessions.history(stored.session_id), 1)
      }
      assert.strictEqual((yield* Given.get(ending)).state, "completed")
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )

  for (const [where, isLater] of [
    ["in that batch", false],
    ["later", true]
  ] as const) {
    it.effect(`ends a plan once, for its readers and in the store, when the end comes ${where}`, () => {
      const [begin, failed, end] = Array.from({ length: 3 }, () => Deferred.makeUnsafe<void>()) as [Gate, Gate, Gate]
      const logger = Logger.make(({ message }) => {
        if (Arr.ensure(message)[0] === "events_not_written") Deferred.doneUnsafe(failed, Exit.void)
      })
      const script = [
        [say("one "), until(Deferred.await(begin)), say("two"), ...(isLater ? [until(Deferred.await(end))] : [])]
      ]
      return Effect.gen(function* () {
        const plans = yield* Plans
        const { plan_id, frames } = yield* post({ question: "?" })
        const reading = yield* Effect.forkChild(readAll(frames))
        const { release } = yield* holdCommits("new.payload like '%two%' and new.event = 'text.delta'")
        yield* Deferred.succeed(begin, undefined)
        yield* untilBlocked(1)
        yield* TestClock.adjust("10 seconds")
        // The try ends behind what the cancelled connection still does. Time that passes before is none of the pause's.
        yield* Deferred.await(failed)
        yield* TestClock.adjust("1 second")
        yield* untilBlocked(2)
        yield* release
        yield* Deferred.succeed(end, undefined)
        const events = (yield* Fiber.join(reading)).filter((event) => event !== "ping")
        assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "completed")
        assert.strictEqual(single(events, "final").text, "one two")
        const replayed = yield* Stream.runCollect(plans.events(anonymous, plan_id))
        assert.deepStrictEqual(replayed, events)
      }).pipe(
        Effect.scoped,
        // Its renewals need no time of the clock.
        Effect.provide(
          layerOnStore({ script, config: { leaseTtl: Duration.hours(1) } }).pipe(
            Layer.provideMerge(onPostgres),
            Layer.provide(Logger.layer([logger]))
          )
        )
      )
    })
  }
})

describe("a plan whose session is taken while it is being created", () => {
  /** Creates a plan that holds its session, and does something else with the session while that is being committed. */
  const meanwhile = Effect.fnUntraced(function* <A, E, R>(given: Given.GivenPlan, other: Effect.Effect<A, E, R>) {
    const store = yield* PlanStore
    const plan = yield* Given.newPlan({ ...given, leaseTtl: Given.ttl })
    const { release } = yield* holdCommits("true")
    const first = yield* Effect.forkChild(store.create(plan, 32))
    yield* untilBlocked(1)
    const second = yield* Effect.forkChild(Effect.result(other))
    yield* untilBlocked(2)
    yield* release
    return { first: yield* Fiber.join(first), second: yield* Fiber.join(second) }
  })
  const newSession = Effect.all({
    owner: Given.newOwner,
    external_session_id: Given.newName,
    replica: Given.newReplica
  })

  it.effect("holds it for the whole time from then on, however long it has waited for the lock of its row", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const store = yield* PlanStore
      const session = yield* newSession
      const before = yield* Given.createHeld(session)
      yield* Given.finish(before)
      const connection = yield* sql.reserve
      const run = (text: string) => connection.executeUnprepared(text, [], undefined)
      yield* run("begin")
      yield* run(`select from sessions where id = '${before.session_id}' for update`)
      const plan = yield* Given.newPlan({ ...session, leaseTtl: Given.ttl })
      const creating = yield* Effect.forkChild(store.create(plan, 32))
      yield* untilBlocked(1)
      yield* run("create table unlocked as select clock_timestamp() as at")
      yield* run("commit")
      yield* Fiber.join(creating)
      const left = yield* sql<{ readonly is_whole: boolean }>`
select l.expires_at >= u.at + ${Duration.toMillis(Given.ttl)} * interval '1 millisecond' as is_whole
from leases l, unlocked u where l.session_id = ${before.session_id}`
      assert.deepStrictEqual(left, [{ is_whole: true }])
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )

  it.effect("is refused where it would not wait", () =>
    Effect.gen(function* () {
      const session = yield* newSession
      yield* Given.finish(yield* Given.createHeld(session))
      const preferences = { ...Given.preferences, on_busy: "reject" as const }
      const create = Given.create({ ...session, preferences, leaseTtl: Given.ttl })
      const { first, second } = yield* meanwhile(session, create)
      assert.strictEqual(first.fence, 2)
      assert.strictEqual(Result.isFailure(second) ? second.failure._tag : "created", "SessionBusy")
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )

  it.effect("waits for the first plan of a session that was not there before", () =>
    Effect.gen(function* () {
      const store = yield* PlanStore
      const session = yield* newSession
      const later = yield* Given.newPlan({ ...session, leaseTtl: Given.ttl })
      const { first, second } = yield* meanwhile(session, store.create(later, 32))
      assert.deepStrictEqual(second, Result.succeed({ ...first, created: false, fence: undefined }))
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )

  it.effect("keeps its lease when its own replica asks for the session without a plan", () =>
    Effect.gen(function* () {
      const leases = yield* LeaseStore
      const session = yield* newSession
      const known = yield* Given.createHeld(session)
      yield* Given.finish(known)
      const acquire = leases.acquire(known.session_id, session.replica, Given.ttl)
      const { first, second } = yield* meanwhile(session, acquire)
      assert.deepStrictEqual(second, Result.succeed(Option.none()))
      assert.strictEqual((yield* leases.renew(session.replica, Given.ttl)).held.get(known.session_id), first.fence)
    }).pipe(Effect.scoped, Effect.provide(onPostgres))
  )
})
