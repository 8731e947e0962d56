import { SessionId } from "@bowline/domain/session/Session"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { pass } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { type Duration, Effect, Exit, Fiber, Layer, Option, Scope } from "effect"
import { PlansConfig } from "../../src/config/PlansConfig.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import { SessionLock } from "../../src/lock/SessionLock.ts"
import * as Word from "../stream/Word.ts"
import { apart, measured } from "../telemetry/Measured.ts"

const session = SessionId.make("session_00000000-0000-0000-0000-000000000000")
const other = SessionId.make("session_00000000-0000-0000-0000-000000000001")
const away = new StorageError({ reason: new Unavailable({ cause: "down" }) })

/** The lock on a store that does as it is told. */
const setUp = () => {
  const state = {
    isAway: false,
    /** Whether another replica has every session. */
    isTaken: false,
    held: new Map<SessionId, number>(),
    /** The sessions of whose release the store tells this replica. */
    waitsFor: new Set<SessionId>(),
    renewals: 0,
    hasLeft: false,
    /** How long the store's answer to a renewal takes. */
    renewTakes: "0 seconds" as Duration.Input,
    /** How long the store takes for a release. */
    releaseTakes: "0 seconds" as Duration.Input,
    released: new Array<readonly [SessionId, number]>()
  }
  const leases = Layer.mock(LeaseStore, {
    acquire: (id, _replica, _ttl, isWaiting = false) =>
      Effect.sync(() => {
        if (isWaiting) state.waitsFor.add(id)
        if (state.isTaken) return Option.none()
        state.waitsFor.delete(id)
        state.held.set(id, 1)
        return Option.some(1)
      }),
    stopWaiting: (id) => Effect.sync(() => void state.waitsFor.delete(id)),
    renew: () =>
      Effect.suspend(() => {
        state.renewals++
        if (state.isAway) return Effect.fail(away)
        const held = new Map(state.held)
        return Effect.delay(Effect.succeed({ held, isOldest: true, mayPark: true, others: 0 }), state.renewTakes)
      }),
    leave: () => Effect.sync(() => void (state.hasLeft = true)),
    release: (id, fence) =>
      Effect.gen(function* () {
        yield* Effect.sleep(state.releaseTakes)
        state.held.delete(id)
        state.released.push([id, fence])
      })
  })
  const word = Word.make()
  const layer = SessionLock.layer.pipe(
    Layer.provide([leases, word.layer, PlansConfig.layer({ model: "scripted/model" })])
  )
  return { state, word, layer }
}

const listener = () => {
  const told = { queued: new Array<number>(), lost: 0 }
  return { told, onQueued: (position: number) => void told.queued.push(position), onLost: () => told.lost++ === 0 }
}

describe("SessionLock", () => {
  it.effect("renews every third of a lease, and tells who has lost one", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const { told, ...holder } = listener()
      yield* lock.acquire(session, holder)
      yield* pass("14 seconds", "1 second")
      assert.deepStrictEqual([state.renewals, told.lost], [3, 0])
      state.held.set(session, 2)
      yield* pass("5 seconds", "1 second")
      assert.strictEqual(told.lost, 1)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("counts the renewals that came in time, late or not at all, and the leases that are lost", () => {
    const { state, layer } = setUp()
    const renewals = (result: string) => measured("bowline.lease.renewals", { result })
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      yield* lock.acquire(session, listener())
      assert.strictEqual(yield* measured("bowline.leases.held"), 1)
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual([yield* renewals("in_time"), yield* renewals("failed")], [1, 0])
      state.isAway = true
      yield* pass("10 seconds", "1 second")
      const failed = yield* renewals("failed")
      assert.isAbove(failed, 1)
      state.isAway = false
      state.held.set(session, 2)
      yield* pass("3 seconds", "1 second")
      assert.deepStrictEqual([yield* renewals("late"), yield* renewals("failed")], [1, failed])
      assert.strictEqual(yield* measured("bowline.leases.lost"), 1)
    }).pipe(Effect.scoped, Effect.provide(layer), apart)
  })

  it.effect("releases a lease that nobody knows of", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      yield* SessionLock
      state.held.set(other, 7)
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual(state.released, [[other, 7]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells who holds a session that its lease is lost when this process gets another one on it", () => {
    const { layer, state } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const [first, second] = [listener(), listener()]
      yield* lock.adopt(session, 7, first.onLost)
      state.held.set(session, 9)
      yield* Effect.scoped(lock.adopt(session, 9, second.onLost))
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual([first.told.lost, second.told.lost, state.released], [1, 0, [[session, 9]]])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("takes a lease for lost that it hears of behind a later one of the same session", () => {
    const { layer, state } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const [first, second] = [listener(), listener()]
      yield* lock.adopt(session, 9, second.onLost)
      state.held.set(session, 9)
      yield* Effect.scoped(lock.adopt(session, 7, first.onLost))
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual([first.told.lost, second.told.lost, state.released], [1, 0, []])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("holds no lease whose adoption is never run", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      void lock.adopt(session, 7, () => true)
      state.held.set(session, 7)
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual(state.released, [[session, 7]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("lets who comes later wait behind those in the line, also after its first member has left", () => {
    const { layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const join = Effect.fnUntraced(function* () {
        const scope = yield* Scope.make()
        const { told, ...waiter } = listener()
        const fiber = yield* Effect.forkChild(Scope.provide(lock.acquire(session, waiter), scope))
        yield* pass("1 second", "1 second")
        return { told, fiber, leave: Scope.close(scope, Exit.void) }
      })
      const first = yield* join()
      const second = yield* join()
      yield* first.leave
      yield* pass("1 second", "1 second")
      const third = yield* join()
      assert.deepStrictEqual([second.told.queued, third.told.queued], [[1], [1]])
      assert.isUndefined(third.fiber.pollUnsafe())
      yield* second.leave
      yield* Fiber.join(third.fiber)
    }).pipe(Effect.provide(layer))
  })

  it.effect("goes on renewing while many leases that nobody knows of are given back slowly, each of them once", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const { told, ...holder } = listener()
      yield* lock.acquire(session, holder)
      const orphans = Array.from({ length: 40 }, (_, index) =>
        SessionId.make(`session_00000000-0000-0000-0001-${String(index).padStart(12, "0")}`)
      )
      state.releaseTakes = "4 seconds"
      for (const orphan of orphans) state.held.set(orphan, 7)
      yield* pass("6 seconds", "1 second")
      const { renewals } = state
      yield* pass("10 seconds", "1 second")
      state.releaseTakes = "0 seconds"
      assert.isFalse(lock.isOverdue())
      assert.isTrue(yield* lock.isSteady)
      assert.deepStrictEqual([state.renewals - renewals, told.lost], [2, 0])
      assert.deepStrictEqual(new Set(state.released.map(([id]) => id)), new Set(orphans))
      assert.strictEqual(state.released.length, orphans.length)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect(
    "keeps its plans while the database is away, and takes no other plans over for a while when it is back",
    () => {
      const { state, layer } = setUp()
      return Effect.gen(function* () {
        const lock = yield* SessionLock
        const { told, ...holder } = listener()
        yield* lock.acquire(session, holder)
        assert.isTrue(yield* lock.isSteady)
        state.isAway = true
        yield* pass("25 seconds", "1 second")
        assert.isFalse(yield* lock.isSteady)
        state.isAway = false
        yield* pass("2 seconds", "1 second")
        assert.isFalse(yield* lock.isSteady)
        yield* pass("6 seconds", "1 second")
        assert.isTrue(yield* lock.isSteady)
        assert.strictEqual(told.lost, 0)
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.effect("asks again at once for a session that another replica releases", () => {
    const { state, word, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const { told, ...waiter } = listener()
      state.isTaken = true
      const waiting = yield* Effect.forkChild(lock.acquire(session, waiter))
      yield* pass("1 second")
      assert.deepStrictEqual(told.queued, [1])
      state.isTaken = false
      word.tell({ _tag: "LeaseReleased", session_id: other })
      yield* pass("1 millis", "1 millis")
      assert.isUndefined(waiting.pollUnsafe())
      word.tell({ _tag: "LeaseReleased", session_id: session })
      assert.strictEqual(yield* Fiber.join(waiting), 1)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect(
    "has the store know what it waits for: from its first look in vain until it has the session, or waits no more",
    () => {
      const { state, word, layer } = setUp()
      return Effect.gen(function* () {
        const lock = yield* SessionLock
        const ask = Effect.scoped(lock.acquire(session, listener()))
        yield* ask
        assert.deepStrictEqual(state.waitsFor, new Set())
        state.isTaken = true
        const first = yield* Effect.forkChild(ask)
        yield* pass("1 millis")
        assert.deepStrictEqual(state.waitsFor, new Set([session]))
        yield* Fiber.interrupt(first)
        yield* pass("1 millis")
        assert.deepStrictEqual(state.waitsFor, new Set())
        const second = yield* Effect.forkChild(ask)
        yield* pass("1 millis")
        state.isTaken = false
        word.tell({ _tag: "LeaseReleased", session_id: session })
        yield* Fiber.join(second)
        assert.deepStrictEqual(state.waitsFor, new Set())
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("asks again without a notice, too: seldom, and often while no notices arrive", () => {
    const { state, word, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const wait = Effect.forkChild(Effect.scoped(lock.acquire(session, listener())))
      state.isTaken = true
      const slow = yield* wait
      yield* pass("1 second")
      state.isTaken = false
      yield* pass("3 seconds")
      assert.isUndefined(slow.pollUnsafe())
      yield* pass("1100 millis")
      assert.isDefined(slow.pollUnsafe())

      state.isTaken = true
      const quick = yield* wait
      yield* pass("1 second")
      word.listen(false)
      yield* pass("100 millis")
      state.isTaken = false
      yield* pass("300 millis")
      assert.isDefined(quick.pollUnsafe())
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("does not release the lease of a plan that is being taken over, and keeps it afterwards", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const { told, onLost } = listener()
      const holding = yield* Scope.make()
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* lock.expectLeases
          state.held.set(session, 7)
          yield* pass("6 seconds", "1 second")
          yield* Scope.provide(lock.adopt(session, 7, onLost), holding)
        })
      )
      yield* pass("10 seconds", "1 second")
      assert.deepStrictEqual([state.released, told.lost], [[], 0])

      state.isTaken = true
      const waiting = yield* Effect.forkChild(lock.acquire(session, listener()))
      yield* pass("1 second")
      state.isTaken = false
      yield* Scope.close(holding, Exit.void)
      yield* pass("1 millis", "1 millis")
      assert.deepStrictEqual(state.released, [[session, 7]])
      assert.strictEqual(yield* Fiber.join(waiting), 1)
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect("releases a lease that nobody knows of while others are always expected", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const [early, late] = [yield* Scope.make(), yield* Scope.make()]
      yield* Scope.provide(lock.expectLeases, early)
      state.held.set(session, 7)
      yield* pass("6 seconds", "1 second")
      yield* Scope.provide(lock.expectLeases, late)
      yield* pass("10 seconds", "1 second")
      assert.deepStrictEqual(state.released, [])
      yield* Scope.close(early, Exit.void)
      yield* pass("6 seconds", "1 second")
      assert.deepStrictEqual(state.released, [[session, 7]])
    }).pipe(Effect.scoped, Effect.provide(layer))
  })

  it.effect(
    "does not release a lease that has ended with its plan, and lets the next one in the line have the session",
    () => {
      const { state, layer } = setUp()
      return Effect.gen(function* () {
        const lock = yield* SessionLock
        const holding = yield* Scope.make()
        const fence = yield* Scope.provide(lock.acquire(session, listener()), holding)
        const waiting = yield* Effect.forkChild(Effect.scoped(lock.acquire(session, listener())))
        yield* pass("1 second")
        state.held.delete(session)
        yield* lock.forget(session, fence)
        assert.isUndefined(waiting.pollUnsafe())
        yield* Scope.close(holding, Exit.void)
        assert.deepStrictEqual(state.released, [])
        assert.strictEqual(yield* Fiber.join(waiting), 1)
      }).pipe(Effect.scoped, Effect.provide(layer))
    }
  )

  it.effect("is overdue when it could not renew its leases for as long as they last", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      state.isAway = true
      yield* pass("14 seconds", "1 second")
      assert.isFalse(lock.isOverdue())
      yield* pass("1 second")
      assert.isTrue(lock.isOverdue())
      state.isAway = false
      yield* pass("1 second")
      assert.isFalse(lock.isOverdue())
    }).pipe(Effect.provide(layer))
  })

  it.effect("counts the time of its leases from when it asked for them, however late the answer comes", () => {
    const { layer, state } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      state.renewTakes = "4 seconds"
      // It asks at 5 s, and hears at 9 s.
      yield* pass("9 seconds", "1 second")
      state.isAway = true
      yield* pass("10 seconds", "1 second")
      assert.isFalse(lock.isOverdue())
      yield* pass("1 second", "1 second")
      assert.isTrue(lock.isOverdue())
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells those in the line how far they are when a lease that came with its plan is over", () => {
    const { layer, state } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      const [first, last] = [listener(), listener()]
      state.isTaken = true
      yield* Effect.forkChild(Effect.scoped(lock.acquire(session, first)), { startImmediately: true })
      const adopted = yield* Scope.make()
      yield* Scope.provide(
        lock.adopt(session, 1, () => false),
        adopted
      )
      yield* Effect.forkChild(Effect.scoped(lock.acquire(session, last)), { startImmediately: true })
      assert.deepStrictEqual(last.told.queued, [2])
      yield* Scope.close(adopted, Exit.void)
      assert.deepStrictEqual(last.told.queued, [2, 1])
    }).pipe(Effect.provide(layer))
  })

  it.effect("renews nothing and acquires nothing once it has left", () => {
    const { state, layer } = setUp()
    return Effect.gen(function* () {
      const lock = yield* SessionLock
      yield* lock.leave
      assert.isTrue(state.hasLeft)
      const { renewals } = state
      const late = yield* Effect.forkChild(lock.acquire(session, listener()))
      yield* pass("20 seconds", "1 second")
      assert.strictEqual(state.renewals, renewals)
      assert.isUndefined(late.pollUnsafe())
      assert.isFalse(state.held.has(session))
    }).pipe(Effect.scoped, Effect.provide(layer))
  })
})
