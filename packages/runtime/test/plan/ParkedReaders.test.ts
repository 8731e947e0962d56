import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { say } from "@bowline/testing/provider/Turn"
import { pass, post, seen } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { agents, approve, get, onMemory, pays } from "./Parked.ts"
import { type Mortal, mortal, peer } from "./Mortal.ts"

const needsReader = { preferences: { on_disconnect: "cancel" } }

describe("a parked plan that ends when nobody reads it", () => {
  it.effect("keeps its readers, and is ended when the last one disconnects", () =>
    onMemory(
      Effect.gen(function* () {
        const process = yield* mortal({ script: [pays], peers: peer().peers })
        const events: Array<ReturnType<typeof seen>[number]> = []
        const { plan_id, reader } = yield* Effect.gen(function* () {
          const { frames, plan_id } = yield* process.on(post({ question: "?", agents, ...needsReader }))
          const reader = yield* Effect.forkChild(
            Stream.runForEach(frames, (item) => Effect.sync(() => events.push(...seen([item]))))
          )
          yield* pass("10 seconds", "1 second")
          assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
          yield* pass("40 seconds", "1 second")
          assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
          assert.isUndefined(reader.pollUnsafe())
          assert.isAtLeast(events.filter((event) => event === "ping").length, 3)
          return { plan_id, reader }
        }).pipe(Effect.scoped)
        yield* Fiber.interrupt(reader)
        yield* pass("4 seconds", "1 second")
        const ended = yield* get(process, plan_id)
        assert.deepInclude(ended, { state: "aborted" })
        assert.deepInclude(ended.error, { reason: "disconnect" })
      })
    )
  )

  it.effect("is ended by whoever had its last reader, once no other process has one", () =>
    onMemory(
      Effect.gen(function* () {
        const first = yield* mortal({ script: [pays], peers: peer().peers })
        const second = yield* mortal({ script: [], peers: peer().peers })
        const read = (process: Mortal, plan_id: PlanId) =>
          Effect.forkChild(
            Effect.scoped(
              Effect.flatMap(process.streams.read(anonymous, plan_id, 0), ({ frames }) => Stream.runDrain(frames))
            )
          )
        const { frames, plan_id } = yield* first.on(post({ question: "?", agents, ...needsReader }))
        const asking = yield* Effect.forkChild(Stream.runDrain(frames))
        yield* pass("10 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "waiting" })
        const other = yield* read(second, plan_id)
        yield* pass("1 second")
        yield* Fiber.interrupt(asking)
        yield* pass("30 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "waiting" })
        yield* Fiber.interrupt(other)
        yield* pass("15 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "aborted" })
      })
    )
  )

  it.effect("is ended by the next process that starts if its last reader's process has died", () =>
    onMemory(
      Effect.gen(function* () {
        const first = yield* mortal({ script: [pays], peers: peer().peers })
        const { frames, plan_id } = yield* first.on(post({ question: "?", agents, ...needsReader }))
        const asking = yield* Effect.forkChild(Stream.runDrain(frames))
        yield* pass("10 seconds", "1 second")
        first.kill()
        yield* Fiber.interrupt(asking)
        const second = yield* mortal({ script: [], peers: peer().peers })
        assert.deepInclude(yield* get(second, plan_id), { state: "waiting" })
        yield* pass("90 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "aborted" })
      })
    )
  )

  it.effect("is ended by a process that has run on if its last reader's process has died", () =>
    onMemory(
      Effect.gen(function* () {
        const first = yield* mortal({ script: [pays], peers: peer().peers })
        const second = yield* mortal({ script: [], peers: peer().peers })
        const { frames, plan_id } = yield* first.on(post({ question: "?", agents, ...needsReader }))
        const asking = yield* Effect.forkChild(Stream.runDrain(frames))
        yield* pass("10 seconds", "1 second")
        first.kill()
        yield* Fiber.interrupt(asking)
        yield* pass("30 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "waiting" })
        yield* pass("100 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "aborted" })
      })
    )
  )

  it.effect("is ended soon where it is woken just when its last reader has left", () =>
    onMemory(
      Effect.gen(function* () {
        const { peers } = peer(Effect.never)
        const first = yield* mortal({ script: [pays], peers })
        const second = yield* mortal({ script: [], peers })
        const { frames, plan_id } = yield* first.on(post({ question: "?", agents, ...needsReader }))
        const asking = yield* Effect.forkChild(Stream.runDrain(frames))
        yield* pass("10 seconds", "1 second")
        yield* Fiber.interrupt(asking)
        yield* approve(second, plan_id)
        yield* pass("15 seconds", "1 second")
        assert.deepInclude(yield* get(second, plan_id), { state: "aborted" })
      })
    )
  )

  it.effect("needs no reader where one has left it running", () =>
    onMemory(
      Effect.gen(function* () {
        const process = yield* mortal({ script: [pays, [say("done")]], peers: peer().peers })
        const plan_id = yield* Effect.gen(function* () {
          const { leaveRunning, plan_id } = yield* process.on(post({ question: "?", agents, ...needsReader }))
          yield* leaveRunning
          return plan_id
        }).pipe(Effect.scoped)
        yield* pass("10 minutes", "10 seconds")
        assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
        yield* approve(process, plan_id)
        yield* pass("2 minutes", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "completed" })
      })
    )
  )

  it.effect("is not parked while its reader may come back", () =>
    onMemory(
      Effect.gen(function* () {
        const process = yield* mortal({ script: [pays], peers: peer().peers })
        const preferences = { on_disconnect: "cancel", disconnect_grace_ms: 60_000 }
        const plan_id = yield* Effect.gen(function* () {
          const { plan_id } = yield* process.on(post({ question: "?", agents, preferences }))
          yield* pass("1 second")
          return plan_id
        }).pipe(Effect.scoped)
        yield* pass("50 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "running" })
        yield* pass("15 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "aborted" })
      })
    )
  )
})
