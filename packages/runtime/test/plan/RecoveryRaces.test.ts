import { anonymous } from "@bowline/domain/caller/CallerName"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { stall } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Option, Scope, Stream } from "effect"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { type PlanCommit, PlanStore } from "../../src/store/PlanStore.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { askBob, bob } from "./Bob.ts"
import { askAndKill, hi, mortal, peer, replayed, stays } from "./Mortal.ts"

const disturbed = (change: (store: PlanStore["Service"]) => Partial<PlanStore["Service"]>) =>
  Effect.map(PlanStore, (store) => ({ ...store, ...change(store) }))

const has = (batch: ReadonlyArray<PlanCommit>, tag: string) =>
  batch.some(({ changes }) => changes.some(({ _tag }) => _tag === tag))

const config = { shutdownGrace: Duration.seconds(1) }

describe("a remote task", () => {
  it.effect("is not cancelled by a process that is cut off from the database while another one resumes it", () => {
    const stuck = peer(Effect.never)
    const again = peer(Effect.never)
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers })
      const second = yield* mortal({ script: [[say("ok")]], peers: again.peers })
      const connection = yield* Scope.make()
      const { plan_id } = yield* Scope.provide(first.on(post({ question: "?", agents: [bob] })), connection)
      yield* pass("1 second")
      first.kill()
      yield* pass("25 seconds", "1 second")
      assert.strictEqual(again.calls[0]?.resumes?.taskId, "remote-1")
      const { frames } = yield* second.streams.read(anonymous, plan_id, 0)
      const reader = yield* Effect.forkChild(Stream.runDrain(frames))
      yield* Scope.close(connection, Exit.void)
      yield* pass("1 second")
      assert.isUndefined(reader.pollUnsafe())
      assert.deepStrictEqual(stuck.left, [true])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is cancelled when the database is back, by a process that was alone with it", () => {
    const stuck = peer(Effect.never)
    let isAway = false
    const away = Effect.fail(new StorageError({ reason: new Unavailable({ cause: "down" }) }))
    const unlessAway = <A>(effect: Effect.Effect<A, StorageError>) => Effect.suspend(() => (isAway ? away : effect))
    return Effect.gen(function* () {
      const store = yield* disturbed((store) => ({ commit: (...given) => unlessAway(store.commit(...given)) }))
      const leases = yield* LeaseStore
      const process = yield* mortal({ script: [askBob], peers: stuck.peers }).pipe(
        Effect.provideService(PlanStore, store),
        Effect.provideService(LeaseStore, { ...leases, renew: (...given) => unlessAway(leases.renew(...given)) })
      )
      const { plan_id } = yield* process.on(post({ question: "?", agents: [bob], ...stays }))
      yield* pass("1 second")
      isAway = true
      yield* pass("20 seconds", "1 second")
      yield* Effect.forkChild(process.plans.cancel(anonymous, plan_id))
      yield* pass("1 second")
      assert.deepStrictEqual([stuck.left, stuck.cancelled], [[true], []])
      isAway = false
      yield* pass("5 seconds", "1 second")
      assert.strictEqual((yield* process.plans.get(anonymous, plan_id)).error?.reason, "cancelled")
      assert.deepStrictEqual(stuck.cancelled, ["remote-1"])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is cancelled by a process that has lost its plan, if nobody else knows of it", () => {
    const stuck = peer(Effect.never)
    const slow: Partial<PeerClient["Service"]> = {
      call: (...given) => Effect.delay(stuck.peers.call?.(...given) ?? Effect.never, "3500 millis")
    }
    return Effect.gen(function* () {
      const leaving = yield* disturbed(() => ({ takeOver: () => Effect.succeed([]) }))
      const first = yield* Effect.provideService(mortal({ script: [askBob], peers: slow }), PlanStore, leaving)
      yield* mortal({ script: [[say("ok")]], peers: peer().peers })
      const { session_id } = yield* first.on(post({ question: "?", agents: [bob], ...stays }))
      yield* pass("1 second")
      yield* (yield* LeaseStore).release(session_id, 1)
      yield* pass("20 seconds", "1 second")
      assert.deepStrictEqual(stuck.left, [false])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is cancelled when its plan is settled, though the store's answer to that was lost", () => {
    const [known, unknown, ready] = [peer(Effect.never), peer(Effect.never, null), peer()]
    let calls = 0
    let answers = 0
    const both: Partial<PeerClient["Service"]> = {
      call: (...given) => (calls++ === 0 ? known : unknown).peers.call?.(...given) ?? Effect.never
    }
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [[...askBob, ...askBob]], peers: both })
      const forgetful = yield* disturbed((store) => ({
        commit: (...given) =>
          Effect.flatMap(store.commit(...given), (refused) =>
            answers++ === 0
              ? Effect.fail(new StorageError({ reason: new Unavailable({ cause: "gone" }) }))
              : Effect.succeed(refused)
          )
      }))
      const second = yield* mortal({ script: [], peers: ready.peers }).pipe(Effect.provideService(PlanStore, forgetful))
      const { plan_id } = yield* askAndKill(first, { agents: [bob] })
      yield* pass("40 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).state, "failed")
      assert.deepStrictEqual(ready.cancelled, ["remote-1"])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("whose time was over before it was taken over is asked for once more, and then cancelled", () => {
    const agents = [{ ...bob, skills: [{ id: "ask", timeout_ms: 10_000 }] }]
    const [stuck, again] = [peer(Effect.never), peer(Effect.never)]
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers })
      const second = yield* mortal({ script: [[stall]], peers: again.peers })
      const { plan_id } = yield* askAndKill(first, { agents })
      yield* pass("20 seconds", "1 second")
      assert.lengthOf(again.calls, 1)
      yield* pass("10 seconds", "1 second")
      assert.deepStrictEqual(again.left, [false])
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).stage, "provider")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })
})

describe("an end that somebody has asked for", () => {
  it.effect("is not lost with a plan that is being handed over", () =>
    Effect.gen(function* () {
      const slow = yield* disturbed((store) => ({
        commit: (batch) => Effect.delay(store.commit(batch), has(batch, "HandedOver") ? "2 seconds" : Duration.zero)
      }))
      const script = () => [say("half"), stall]
      const first = yield* mortal({ script, config }).pipe(Effect.provideService(PlanStore, slow))
      const second = yield* mortal({ script })
      const { plan_id } = yield* first.on(post({ question: "?", ...stays }))
      yield* pass("1 second")
      yield* Effect.forkChild(first.plans.drain)
      yield* pass("1500 millis")
      const cancelling = yield* Effect.forkChild(first.plans.cancel(anonymous, plan_id))
      yield* pass("10 seconds")
      assert.strictEqual((yield* Fiber.join(cancelling)).error?.reason, "cancelled")
      assert.strictEqual((yield* second.plans.get(anonymous, plan_id)).state, "aborted")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is not lost with the process of the plan that was to take its place", () =>
    Effect.gen(function* () {
      const mute = yield* disturbed(() => ({ list: () => Effect.never }))
      const first = yield* mortal({ script: () => [say("half"), stall] }).pipe(Effect.provideService(PlanStore, mute))
      const older = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      const preferences = { ...stays.preferences, on_busy: "interrupt" }
      yield* Effect.forkChild(first.on(post({ question: "2", session_id: "s", preferences })))
      yield* pass("1 second")
      first.kill()
      const second = yield* mortal({ script: () => [say("whole")] })
      yield* pass("30 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, older.plan_id)).error?.reason, "superseded")
      const { items } = yield* second.plans.list(anonymous, { states: ["completed"] }, { limit: 10 })
      assert.lengthOf(items, 1)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is not lost with the process that was about to carry it out", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      const first = yield* mortal({ script, dies: (batch) => (has(batch, "Settled") ? "before" : undefined) })
      const older = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      yield* pass("1 second")
      const preferences = { ...stays.preferences, on_busy: "interrupt" }
      yield* Effect.forkChild(first.on(post({ question: "2", session_id: "s", preferences })))
      yield* pass("1 second")
      const second = yield* mortal({ script: () => [say("whole")] })
      yield* pass("30 seconds", "1 second")
      assert.strictEqual((yield* second.plans.get(anonymous, older.plan_id)).error?.reason, "superseded")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})

describe("a process", () => {
  it.effect("that is shut down while it takes a plan over leaves that plan to the next one, too", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      const first = yield* mortal({ script })
      const { plan_id } = yield* askAndKill(first)
      let isTaken = false
      let asked = 0
      const late = yield* disturbed((store) => ({
        takeOver: (...given) =>
          Effect.tap(store.takeOver(...given), ({ length }) => {
            isTaken ||= length > 0
            return length > 0 ? Effect.sleep("2 seconds") : Effect.void
          })
      }))
      const second = yield* mortal({ script: () => (asked++, script()), config }).pipe(
        Effect.provideService(PlanStore, late)
      )
      while (!isTaken) yield* pass("100 millis")
      const drain = yield* Effect.forkChild(second.plans.drain)
      yield* pass("1500 millis")
      assert.isUndefined(drain.pollUnsafe())
      yield* pass("2 seconds")
      assert.isDefined(drain.pollUnsafe())
      assert.strictEqual(asked, 0)
      const third = yield* mortal({ script: () => [say("whole")] })
      assert.strictEqual(single(yield* replayed(third, plan_id), "final").text, "whole")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("asks no provider for a plan that another one has taken over while it waited", () => {
    let isAway = false
    let asked = 0
    const unlessAway = <A, E>(effect: Effect.Effect<A, E>) => Effect.suspend(() => (isAway ? Effect.never : effect))
    return Effect.gen(function* () {
      const leases = yield* LeaseStore
      const plans = yield* PlanStore
      const cutOff = yield* disturbed(() => ({
        takeOver: (...given) => unlessAway(plans.takeOver(...given)),
        commit: (batch) => Effect.delay(plans.commit(batch), "100 millis")
      }))
      const first = yield* mortal({ script: () => (asked++, [say("ok")]) }).pipe(
        Effect.provideService(PlanStore, cutOff),
        Effect.provideService(LeaseStore, { ...leases, renew: (...given) => unlessAway(leases.renew(...given)) })
      )
      const { session_id } = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      yield* pass("1 second")
      const fence = Option.getOrThrow(yield* leases.acquire(session_id, "other", Duration.minutes(1)))
      const { plan_id } = yield* first.on(post({ question: "2", session_id: "s", ...stays }))
      isAway = true
      yield* pass("20 seconds", "1 second")
      const taken = yield* plans.takeOver("other", Duration.seconds(15), 10)
      assert.deepStrictEqual(
        taken.map(({ plan }) => plan.plan_id),
        [plan_id]
      )
      isAway = false
      yield* leases.release(session_id, fence)
      yield* pass("10 seconds", "1 second")
      assert.strictEqual(asked, 1)
      assert.isTrue(Option.isSome(yield* leases.acquire(session_id, "other", Duration.minutes(1))))
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("sends the readers of a plan that waited there to the one that has it now, where they count", () => {
    let isAway = false
    return Effect.gen(function* () {
      const leases = yield* LeaseStore
      const first = yield* mortal({ script: [[say("one")]] }).pipe(
        Effect.provideService(LeaseStore, {
          ...leases,
          renew: (...given) => Effect.suspend(() => (isAway ? Effect.never : leases.renew(...given)))
        })
      )
      yield* mortal({ script: [[say("two")]] })
      const holder = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      yield* pass("1 second")
      const fence = Option.getOrThrow(yield* leases.acquire(holder.session_id, "other", Duration.minutes(10)))
      const { frames, plan_id } = yield* first.on(post({ question: "2", session_id: "s" }))
      const reader = yield* Effect.forkChild(Stream.runCollect(frames))
      isAway = true
      yield* pass("30 seconds", "1 second")
      isAway = false
      yield* pass("15 seconds", "1 second")
      assert.isDefined(reader.pollUnsafe(), "The reader does not know that the plan is elsewhere")
      assert.strictEqual((yield* Fiber.join(reader)).at(-1), "reconnect")
      const events = yield* Effect.flatMap(first.streams.read(anonymous, plan_id, 0), ({ frames }) =>
        Effect.forkChild(readAll(frames))
      )
      yield* pass("2 minutes", "1 second")
      yield* leases.release(holder.session_id, fence)
      yield* pass("10 seconds", "1 second")
      assert.strictEqual(single(yield* Fiber.join(events), "final").text, "two")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("asks no provider for the next step while it cannot renew its leases", () => {
    const slow = peer(Effect.as(Effect.sleep("20 seconds"), hi))
    let isAway = false
    let asked = 0
    const away = Effect.fail(new StorageError({ reason: new Unavailable({ cause: "down" }) }))
    const unlessAway = <A>(effect: Effect.Effect<A, StorageError>) => Effect.suspend(() => (isAway ? away : effect))
    return Effect.gen(function* () {
      const leases = yield* LeaseStore
      const plans = yield* disturbed((plans) => ({ commit: (...given) => unlessAway(plans.commit(...given)) }))
      const process = yield* mortal({ script: () => (asked++ === 0 ? askBob : [say("ok")]), peers: slow.peers }).pipe(
        Effect.provideService(PlanStore, plans),
        Effect.provideService(LeaseStore, { ...leases, renew: (...given) => unlessAway(leases.renew(...given)) })
      )
      const { plan_id } = yield* process.on(post({ question: "?", agents: [bob], ...stays }))
      yield* pass("1 second")
      isAway = true
      yield* pass("25 seconds", "1 second")
      const askedMeanwhile = asked
      isAway = false
      yield* pass("5 seconds", "1 second")
      assert.strictEqual(askedMeanwhile, 1)
      assert.strictEqual(single(yield* replayed(process, plan_id), "final").text, "ok")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("stores a refused call together with its end, or not at all", () => {
    let isTorn = false
    return Effect.gen(function* () {
      const process = yield* mortal({
        script: [Array.from({ length: 400 }, () => callTool("nobody", {})), [say("ok")]],
        dies: (batch) => {
          const tags = batch.flatMap(({ changes }) => changes.map(({ _tag }) => _tag))
          const count = (tag: string) => tags.filter((other) => other === tag).length
          isTorn ||= count("TaskStarted") !== count("TaskFinished")
          return undefined
        }
      })
      const { plan_id } = yield* process.on(post({ question: "?", ...stays }))
      const events = yield* replayed(process, plan_id)
      assert.lengthOf(all(events, "task.finished"), 400)
      assert.isFalse(isTorn)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })
})
