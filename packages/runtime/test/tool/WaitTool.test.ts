import { anonymous } from "@bowline/domain/caller/CallerName"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { all, layer, pass, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { mortal, peer, replayed, stays } from "../plan/Mortal.ts"

const admin = { caller: anonymous, isAdmin: true }
const text = { type: "text", text: "Go on.", when: "boundary", else: "ask" } as const
const waits = (input: object) => [callTool("wait", input)]
const preferences = { ...stays.preferences, may_wait: true }

/** What the model gets of its one call of the tool, and how long the plan takes. */
const outcomeOf = (input: object, within: string) =>
  Effect.gen(function* () {
    const { frames } = yield* post({ question: "?", preferences })
    const reader = yield* Effect.forkChild(Effect.map(Stream.runCollect(frames), seen))
    yield* pass(within as "1 second", "1 second")
    const events = yield* Fiber.join(reader)
    const [, second] = yield* (yield* ScriptedProvider).asked.all
    const [result = ""] = second === undefined ? [] : results(second)
    return { result, state: single(events, "task.finished").state, waiting: all(events, "waiting") }
  }).pipe(Effect.provide(layer({ script: [waits(input), [say("done")]] })), Effect.scoped)

describe("the tool `wait`", () => {
  it.effect("returns when its time has come, which may have passed", () =>
    Effect.gen(function* () {
      const { result, state, waiting } = yield* outcomeOf({ seconds: 90, why: "tea" }, "95 seconds")
      assert.deepStrictEqual([state, waiting], ["completed", []])
      const { at, because } = JSON.parse(result) as { readonly at: string; readonly because: string }
      assert.strictEqual(because, "timer")
      const late = Date.parse(at) - 90_000
      assert.isTrue(late >= 0 && late <= 2_000, at)
      const past = yield* outcomeOf({ until: "1969-12-31T00:00:00Z", why: "tea" }, "0 seconds")
      assert.deepInclude(JSON.parse(past.result), { because: "timer", at: "1970-01-01T00:01:35.000Z" })
      const later = yield* outcomeOf({ until: "1970-01-01T01:03:00+01:00", why: "tea" }, "88 seconds")
      assert.match(later.result, /"timer","at":"1970-01-01T00:03:0/)
    })
  )

  for (const input of [
    { why: "both", seconds: 5, until: "1970-01-01T00:00:05Z" },
    { why: "neither" },
    { why: "no time", until: "tomorrow" },
    { why: "too far", until: "1971-01-01T00:00:00Z" },
    { why: "too long", seconds: 2_592_001 }
  ]) {
    it.effect(`is invalid with ${input.why} of its fields`, () =>
      Effect.gen(function* () {
        assert.strictEqual((yield* outcomeOf(input, "3 seconds")).state, "invalid")
      })
    )
  }

  it.effect("is offered to no plan that may not wait", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?" })
      const events = seen(yield* Stream.runCollect(frames))
      assert.strictEqual(single(events, "task.finished").error?.message, 'There is no tool "wait"')
    }).pipe(Effect.provide(layer({ script: [waits({ seconds: 1, why: "tea" }), [say("done")]] })), Effect.scoped)
  )

  it.effect("has a name that no tool of the client may have", () =>
    Effect.gen(function* () {
      const refused = yield* Effect.flip(post({ question: "?", tools: [{ name: "wait", input_schema: {} }] }))
      assert.instanceOf(refused, InvalidRequest)
    }).pipe(Effect.provide(layer({ script: [] })), Effect.scoped)
  )

  it.effect("parks the plan at once, which its time wakes on another process", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: [waits({ seconds: 7_200, why: "tea" })], peers: peer().peers })
      const second = yield* mortal({ script: [[say("done")]], peers: peer().peers })
      const { plan_id } = yield* first.on(post({ question: "?", preferences }))
      yield* pass("1 second", "100 millis")
      assert.deepInclude(yield* first.plans.get(anonymous, plan_id), { state: "waiting", stage: "client" })
      first.kill()
      yield* pass("110 minutes", "10 minutes")
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { state: "waiting" })
      yield* pass("10 minutes", "10 minutes")
      const events = yield* replayed(second, plan_id, "10 seconds")
      assert.strictEqual(single(events, "woken").because, "timer")
      assert.strictEqual(single(events, "parked").wakes_at, "1970-01-01T02:00:00.000Z")
      assert.strictEqual(single(events, "task.finished").state, "completed")
      assert.strictEqual(single(events, "final").text, "done")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  for (const [title, parkAfter] of [
    ["parked", "5 seconds"],
    ["not parked", undefined]
  ] as const) {
    it.effect(`ends with a text, which the next step reads, of a plan that is ${title}`, () =>
      Effect.gen(function* () {
        const config = parkAfter === undefined ? { parkAfter } : {}
        const script = [waits({ seconds: 86_400, why: "tea" }), [say("done")]]
        const process = yield* mortal({ script, peers: peer().peers, config })
        const { plan_id } = yield* process.on(post({ question: "?", preferences }))
        yield* pass("10 seconds", "1 second")
        const { entry_id } = yield* process.inbox.accept(admin, plan_id, text)
        const events = yield* replayed(process, plan_id, "3 seconds")
        assert.strictEqual(single(events, "inbox.taken").entry_id, entry_id)
        assert.lengthOf(all(events, "woken"), parkAfter === undefined ? 0 : 1)
        const artifact = single(events, "task.artifact").content
        assert.match(JSON.stringify(artifact), /because.*text/)
        assert.strictEqual(single(events, "final").text, "done")
      }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
    )
  }
})
