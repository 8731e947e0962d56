import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { pass, post, single } from "@bowline/testing/unstable/TestKit"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as Expiry from "../../src/plan/Expiry.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { FileStore } from "../../src/store/FileStore.ts"
import { InboxStore } from "../../src/store/InboxStore.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { SessionLock } from "../../src/lock/SessionLock.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { bob } from "./Bob.ts"
import { mortal, replayed, stays } from "./Mortal.ts"

const later = TestClock.setTime(Date.parse(Given.later))

const lockOf = (isOldest: boolean) =>
  Layer.mock(SessionLock, {
    replica: "replica_1",
    duties: () => ({ others: isOldest ? 0 : 1, mayPark: true, isOldest }),
    leaseTtl: () => undefined,
    isOverdue: () => false
  })

const inMemory = Expiry.layer.pipe(
  Layer.provide(lockOf(true)),
  Layer.provideMerge(MemoryStore.layerWith({ sessionTtl: Duration.hours(1) })),
  Layer.provide(Layer.effectDiscard(later))
)

const isThere = ({ plan, session_id }: Given.Stored) =>
  Effect.gen(function* () {
    return (yield* Given.failureOf((yield* SessionStore).find(plan.caller, session_id))) === undefined
  })

const now = Effect.map(Clock.currentTimeMillis, fromMillis)

describe("a session", () => {
  it.effect("is kept for its time after its last plan, and no longer", () =>
    Effect.gen(function* () {
      const held = yield* Given.createHeld()
      yield* Given.finish(held)
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* isThere(held), true)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(yield* isThere(held), false)
      assert.strictEqual((yield* Given.failureOf(Given.get(held)))?._tag, "NotFound")
      assert.deepStrictEqual(yield* Given.eventsOf(held), [])
    }).pipe(Effect.provide(inMemory))
  )

  it.effect("is kept for the plan that comes in time, as long as it waits or runs, and then again", () =>
    Effect.gen(function* () {
      const session = { owner: yield* Given.newOwner, external_session_id: yield* Given.newName }
      const held = yield* Given.createHeld(session)
      yield* Given.finish(held)
      yield* TestClock.adjust("59 minutes")
      const next = yield* Given.create({ ...session, created_at: yield* now })
      assert.strictEqual(next.session_id, held.session_id)
      yield* TestClock.adjust("3 hours")
      assert.strictEqual(yield* isThere(held), true)
      const running = yield* Given.hold(next)
      yield* TestClock.adjust("3 hours")
      assert.strictEqual(yield* isThere(held), true)
      yield* Given.finish(running)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual(yield* isThere(held), false)
    }).pipe(Effect.provide(inMemory))
  )
})

describe("a wait", () => {
  const skills = [{ id: "pay", approval: "always" }]
  const body = {
    question: "?",
    agents: [{ ...bob, skills }],
    preferences: { ...stays.preferences, wait_timeout_ms: 60_000 }
  }
  const script = [[callTool("bob_pay", { input: "7" })], [say("done")]]

  it.effect("is ended by the oldest replica, and by the next one when that is dead", () =>
    Effect.gen(function* () {
      const oldest = yield* mortal({ script: [] })
      const next = yield* mortal({ script })
      const { plan_id } = yield* next.on(post(body))
      yield* pass("30 seconds", "1 second")
      oldest.kill()
      // The time of a lease, and that until the next renewal.
      const events = yield* replayed(next, plan_id, "32 seconds")
      assert.deepInclude(single(events, "approval.resolved"), { note: "expired" })
      assert.strictEqual(single(events, "final").text, "done")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is ended by one replica of all", () => {
    let asked = 0
    return Effect.gen(function* () {
      const counting = Layer.effect(
        InboxStore,
        Effect.map(InboxStore, (inboxes) => ({
          ...inboxes,
          expire: Effect.suspend(() => {
            asked++
            return inboxes.expire
          })
        }))
      )
      const stores = Layer.provideMerge(counting, MemoryStore.layer)
      yield* Effect.gen(function* () {
        yield* Effect.forEach([1, 2, 3], () => mortal({ script: [] }))
        yield* pass("60 seconds", "1 second")
      }).pipe(Effect.provide(stores))
      assert.isAtMost(asked, 65)
      assert.isAtLeast(asked, 55)
    }).pipe(Effect.scoped)
  })
})

describe("the sweeper", () => {
  it.effect("continues in batches while there is more, and starts again every minute, also after a failure", () =>
    Effect.gen(function* () {
      const swept: Array<string> = []
      const unavailable = new StorageError({ reason: new Unavailable({ cause: "away" }) })
      const sweep = (at: string) =>
        Effect.suspend(() => {
          swept.push(at.slice(14, 21))
          return swept.length === 4 ? Effect.fail(unavailable) : Effect.succeed(swept.length < 3)
        })
      const sealLeft = () => Effect.succeed(false)
      const stores = Layer.mergeAll(
        Layer.mock(SessionStore, { sweep }),
        Layer.mock(FileStore, { sweep: () => Effect.succeed(false) }),
        Layer.mock(PlanStore, { sealLeft, isDurable: true }),
        lockOf(true)
      )
      yield* Layer.build(Layer.provide(Expiry.layer, stores))
      yield* TestClock.adjust("2 minutes")
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual(swept, ["00:00.0", "00:00.1", "00:00.2", "01:00.2", "02:00.2"])
    })
  )

  for (const [isOldest, batches, title] of [
    [true, 3, "seals what was left, in batches while there is more, and looks again every minute"],
    [false, 0, "leaves it to the oldest replica to seal what was left"]
  ] as const) {
    it.effect(title, () =>
      Effect.gen(function* () {
        let sealed = 0
        const sealLeft = () => Effect.sync(() => ++sealed % 3 !== 0)
        const sweep = () => Effect.succeed(false)
        const stores = Layer.mergeAll(
          Layer.mock(SessionStore, { sweep }),
          Layer.mock(FileStore, { sweep }),
          Layer.mock(PlanStore, { sealLeft, isDurable: true }),
          lockOf(isOldest)
        )
        yield* Layer.build(Layer.provide(Expiry.layer, stores))
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual(sealed, batches)
        yield* TestClock.adjust("31 seconds")
        assert.strictEqual(sealed, 2 * batches)
      })
    )
  }
})
