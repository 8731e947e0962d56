import { PlanId } from "@bowline/domain/plan/Plan"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { type Heard, Notices } from "@bowline/runtime/unstable/store/Notices"
import * as Given from "@bowline/testing/unstable/store/Given"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Logger, Option, Queue, Schedule, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { Publisher } from "../../src/notice/Publisher.ts"
import * as SqlNotices from "../../src/notice/SqlNotices.ts"
import * as SqlLeaseStore from "../../src/session/SqlLeaseStore.ts"
import { cutWire } from "../postgres/cutWire.ts"
import { migratedDatabase } from "../postgres/freshDatabase.ts"
import { onPostgres } from "../stores.ts"

const plan_id = PlanId.make("plan_00000000-0000-0000-0000-000000000001")
const advanced = { _tag: "Advanced", plan_id } as const

/** Another process, which listens until its scope closes, with what it hears. */
const listener = Effect.gen(function* () {
  const { config } = yield* PgClient.PgClient
  const other = SqlNotices.layer.pipe(Layer.provideMerge(PgClient.layer({ ...config, maxConnections: 1 })))
  const context = yield* Layer.build(
    Layer.fresh(SqlLeaseStore.layer({ isShared: true }).pipe(Layer.provideMerge(other)))
  )
  const notices = Context.get(context, Notices)
  const heard = yield* Queue.unbounded<Heard>()
  yield* notices.subscribe((item) => Queue.offerUnsafe(heard, item))
  return { notices, heard, leases: Context.get(context, LeaseStore), channel: Context.get(context, Publisher).channel }
})

const untilListening = ({ notices }: { readonly notices: Notices["Service"] }) =>
  Effect.sync(() => notices.isListening()).pipe(
    Effect.repeat({ until: (isListening) => isListening, schedule: Schedule.spaced("5 millis") })
  )

/** Skips what it hears of others until then. */
const untilHeard = (heard: Queue.Queue<Heard>, tag: Heard["_tag"]) =>
  Queue.take(heard).pipe(Effect.repeat({ until: ({ _tag }) => _tag === tag }))

const listening = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql<{ readonly pid: number }>`
select pid from pg_stat_activity where datname = current_database() and query ilike 'listen%'`
)

type HeldPlan = Effect.Success<ReturnType<typeof Given.createHeld>>

/** The ways in which a session becomes free. */
const releases = [
  [
    "with the end of its plan",
    Given.createHeld(),
    (held: HeldPlan) => Given.write(held, [Given.settled(), { _tag: "Released" }])
  ],
  [
    "by itself",
    Effect.gen(function* () {
      const stored = yield* Given.create()
      return { ...stored, fence: yield* Given.acquire(stored.session_id, stored.plan.replica) }
    }),
    ({ fence, session_id }: HeldPlan) => Effect.flatMap(LeaseStore, (leases) => leases.release(session_id, fence))
  ]
] as const

const onRealClock = { excludeTestServices: true }

layer(onPostgres, onRealClock)("notices on Postgres", (it) => {
  it.effect("arrive in another process in their order, however many there are", () =>
    Effect.gen(function* () {
      const other = yield* listener
      yield* untilListening(other)
      yield* Queue.clear(other.heard)
      const plan_ids = Array.from({ length: 100 }, () => plan_id)
      const said = [
        advanced,
        { _tag: "Reading", replica: "a", plan_ids },
        { _tag: "Left", replica: "a", plan_ids }
      ] as const
      yield* (yield* Notices).publish(said)
      assert.deepStrictEqual(yield* Queue.takeN(other.heard, 3), [...said])
    }).pipe(Effect.scoped)
  )

  it.effect("are heard again after the connection broke, and everybody is told to look when it did", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const other = yield* listener
      yield* untilListening(other)
      for (let times = 0; times < 3; times++) {
        yield* Queue.clear(other.heard)
        const backends = yield* listening
        yield* Effect.forEach(backends, ({ pid }) => sql`select pg_terminate_backend(${pid})`)
        assert.strictEqual((yield* Queue.take(other.heard))._tag, "ListeningChanged")
        assert.strictEqual((yield* Queue.take(other.heard))._tag, "ListeningChanged")
        assert.isTrue(other.notices.isListening())
        yield* (yield* Notices).publish([advanced])
        assert.deepStrictEqual(yield* Queue.take(other.heard), advanced)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("are listened to on one connection, which is closed with the process", () =>
    Effect.gen(function* () {
      // The connection of the tests themselves was broken above.
      yield* untilListening({ notices: yield* Notices })
      const before = (yield* listening).map(({ pid }) => pid)
      const scope = yield* Scope.make()
      yield* Effect.flatMap(Scope.provide(listener, scope), untilListening)
      const [own, ...others] = (yield* listening).filter(({ pid }) => !before.includes(pid))
      assert.isDefined(own)
      assert.deepStrictEqual(others, [])
      yield* Scope.close(scope, Exit.void)
      yield* Effect.repeat(listening, {
        until: (backends) => backends.every(({ pid }) => pid !== own?.pid),
        schedule: Schedule.spaced("5 millis")
      })
    })
  )

  it.effect("do not hold up the end of the process when the server does not answer any more", () =>
    Effect.gen(function* () {
      // The connection of the tests themselves was broken above.
      yield* untilListening({ notices: yield* Notices })
      const before = (yield* listening).map(({ pid }) => pid)
      const scope = yield* Scope.make()
      yield* Effect.flatMap(Scope.provide(listener, scope), untilListening)
      const own = (yield* listening).find(({ pid }) => !before.includes(pid))
      // A signal to the process 0 would go to the tests themselves.
      assert(own !== undefined)
      const signal = (name: NodeJS.Signals) => Effect.sync(() => process.kill(own.pid, name))
      yield* Effect.acquireRelease(signal("SIGSTOP"), () => signal("SIGCONT"))
      yield* Scope.close(scope, Exit.void)
    }).pipe(Effect.scoped)
  )

  it.effect("tell of a plan that somebody wants to end", () =>
    Effect.gen(function* () {
      const other = yield* listener
      yield* untilListening(other)
      yield* Queue.clear(other.heard)
      const { plan_id } = (yield* Given.create()).plan
      yield* (yield* PlanStore).requestAbort(plan_id, "cancelled")
      assert.deepStrictEqual(yield* Queue.take(other.heard), { _tag: "AbortRequested", plan_id })
    }).pipe(Effect.scoped)
  )

  for (const [what, held, release] of releases) {
    it.effect(`tell of a session that was released ${what} the replica that waits for it, and no other one`, () =>
      Effect.gen(function* () {
        const stored = yield* held
        const { session_id } = stored
        const [waiting, idle] = [yield* listener, yield* listener]
        for (const [replica, { leases }] of [["waits", waiting] as const, ["idle", idle] as const]) {
          yield* leases.renew(replica, Given.ttl)
        }
        yield* Effect.forEach([waiting, idle], untilListening)
        assert.isTrue(Option.isNone(yield* waiting.leases.acquire(session_id, "waits", Given.ttl, true)))
        // It waits for another one, too, and has ceased to wait for this one.
        assert.isTrue(Option.isNone(yield* idle.leases.acquire(session_id, "idle", Given.ttl, true)))
        yield* idle.leases.stopWaiting(session_id, "idle")
        yield* Effect.forEach([waiting, idle], ({ heard }) => Queue.clear(heard))
        yield* release(stored)
        assert.deepStrictEqual(yield* Queue.take(waiting.heard), { _tag: "LeaseReleased", session_id })
        assert.isTrue(Option.isSome(yield* waiting.leases.acquire(session_id, "waits", Given.ttl, true)))
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select waits_for from replicas where id in ('waits', 'idle')`, [
          { waits_for: [] },
          { waits_for: [] }
        ])
        yield* (yield* Notices).publish([advanced])
        assert.deepStrictEqual(yield* Queue.take(idle.heard), advanced)
        assert.deepStrictEqual(yield* Queue.take(waiting.heard), advanced)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("tell all replicas of a session that was released while one of the version before is alive", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const other = yield* listener
      yield* untilListening(other)
      const held = yield* Given.createHeld()
      yield* sql`insert into replicas (id, expires_at) values ('former', now() + interval '1 minute')`
      yield* Queue.clear(other.heard)
      yield* Given.write(held, [Given.settled(), { _tag: "Released" }])
      assert.deepStrictEqual(yield* Queue.take(other.heard), { _tag: "LeaseReleased", session_id: held.session_id })
      yield* sql`delete from replicas where id = 'former'`
    }).pipe(Effect.scoped)
  )

  it.effect("are published while every connection of the pool is in use", () =>
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const other = yield* listener
      yield* untilListening(other)
      yield* Queue.clear(other.heard)
      const notices = yield* Notices
      yield* Effect.replicateEffect(sql.reserve, 5)
      yield* notices.publish([advanced])
      assert.deepStrictEqual(yield* Queue.take(other.heard), advanced)
    }).pipe(Effect.scoped)
  )

  it.effect("tell of a plan that waited and is handed over, and not of one that runs still", () =>
    Effect.gen(function* () {
      const other = yield* listener
      yield* untilListening(other)
      yield* Queue.clear(other.heard)
      yield* Given.write(yield* Given.createHeld(), [{ _tag: "HandedOver" }])
      yield* (yield* Notices).publish([advanced])
      assert.deepStrictEqual(yield* Queue.take(other.heard), advanced)
      yield* Given.write(yield* Given.create(), [{ _tag: "HandedOver" }])
      assert.deepStrictEqual(yield* Queue.take(other.heard), { _tag: "PlansLeft" })
    }).pipe(Effect.scoped)
  )

  it.effect("tell that a replica has ended, if another one is alive", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const leases = yield* LeaseStore
      const other = yield* listener
      yield* untilListening(other)
      yield* Queue.clear(other.heard)
      const { replica } = (yield* Given.createHeld()).plan
      yield* sql`delete from replicas where id <> ${replica}`
      yield* leases.leave(replica)
      yield* (yield* Notices).publish([advanced])
      assert.deepStrictEqual(yield* Queue.take(other.heard), advanced)
      yield* leases.renew("replica_b", Given.ttl)
      // It has nothing to leave but its word that it lives.
      yield* leases.leave(replica)
      assert.deepStrictEqual(yield* Queue.take(other.heard), { _tag: "PlansLeft" })
    }).pipe(Effect.scoped)
  )

  it.effect("ignore what a newer version says", () =>
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const other = yield* listener
      yield* untilListening(other)
      yield* sql.notify("bowline", '{"_tag":"Unheard"}')
      yield* (yield* Notices).publish([advanced])
      assert.deepStrictEqual(yield* untilHeard(other.heard, "Advanced"), advanced)
    }).pipe(Effect.scoped)
  )
})

/** A listener behind a wire that can drop notices. Answers of the server come in real time, everything else in virtual time. */
const listenerOnWire = Effect.gen(function* () {
  const wire = yield* cutWire(yield* migratedDatabase)
  const own = PgClient.makeClient({ url: wire.url }).pipe(Effect.provide(Reactivity.layer))
  return { wire, listener: Effect.provideServiceEffect(listener, PgClient.PgClient, own) }
})

const afterHeartbeat = TestClock.adjust("5 seconds")

describe("a replica that does not hear its own notices", () => {
  it.effect("stops listening within 7 s although its connection is open, and listens again when they arrive", () =>
    Effect.gen(function* () {
      const { wire, listener } = yield* listenerOnWire
      const other = yield* listener
      yield* TestClock.withLive(untilListening(other))
      yield* Queue.clear(other.heard)
      const isDropped = yield* wire.dropNotices
      yield* TestClock.adjust("2 seconds")
      yield* isDropped
      assert.isTrue(other.notices.isListening())
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* Queue.take(other.heard))._tag, "ListeningChanged")
      assert.isFalse(other.notices.isListening())

      yield* wire.passNotices
      yield* TestClock.adjust("100 millis")
      assert.strictEqual((yield* Queue.take(other.heard))._tag, "ListeningChanged")
      assert.isTrue(other.notices.isListening())
      yield* other.notices.publish([advanced])
      assert.deepStrictEqual(yield* Queue.take(other.heard), advanced)
    })
  )

  it.effect("warns once for each loss, however often it tries to listen again", () =>
    Effect.gen(function* () {
      const warnings: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => warnings.push(message))])
      const { wire, listener } = yield* listenerOnWire
      const other = yield* Effect.provide(listener, logger)
      for (const losses of [1, 2]) {
        yield* TestClock.withLive(untilListening(other))
        yield* Queue.clear(other.heard)
        let isDropped = yield* wire.dropNotices
        yield* afterHeartbeat
        for (const wait of [100, 100, 200]) {
          yield* isDropped
          isDropped = yield* wire.dropNotices
          yield* afterHeartbeat
          yield* TestClock.adjust(wait)
        }
        yield* isDropped
        assert.lengthOf(warnings, losses)
        yield* wire.passNotices
        yield* afterHeartbeat
        yield* afterHeartbeat
      }
    })
  )

  it.effect("does not listen where LISTEN is accepted and nothing arrives, and tries again within 5 s each time", () =>
    Effect.gen(function* () {
      const { wire, listener } = yield* listenerOnWire
      let isDropped = yield* wire.dropNotices
      const other = yield* listener
      for (const wait of [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]) {
        yield* isDropped
        assert.isFalse(other.notices.isListening())
        isDropped = yield* wire.dropNotices
        yield* afterHeartbeat
        yield* TestClock.adjust(wait)
      }
      assert.strictEqual(yield* Queue.size(other.heard), 0)
      yield* isDropped
      yield* wire.passNotices
      yield* afterHeartbeat
      yield* afterHeartbeat
      assert.strictEqual((yield* Queue.take(other.heard))._tag, "ListeningChanged")
      assert.isTrue(other.notices.isListening())
    })
  )
})
