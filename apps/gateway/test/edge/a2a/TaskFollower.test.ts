import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import type { PeerClient } from "@bowline/runtime/remote/PeerClient"
import type { Followed } from "@bowline/runtime/unstable/stream/PlanFollower"
import { stall } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Schema, Stream } from "effect"
import { follow } from "../../../src/edge/a2a/TaskFollower.ts"
import { type Change, open, services as taskServices } from "../../../src/edge/a2a/TaskReader.ts"

const handsBack: PeerClient["Service"]["call"] = ({ continues }, onEvent) =>
  onEvent({ _tag: "Accepted", remoteTaskId: "remote", remoteContextId: "context" }).pipe(
    Effect.as({
      state: continues === null ? ("input-required" as const) : ("completed" as const),
      content: "Rope",
      verified: "unknown" as const
    })
  )

const agents = [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }]
const turns = [[callTool("bob_ask", { input: "?" })], [say("ok")]]
const kit = TestKit.layer({ script: [...turns, ...turns], peers: { call: handsBack, cancel: () => Effect.void } })

describe("a subscriber", () => {
  it.effect("is never without a word for more than 10 s, though all that happens is not for its eyes", () =>
    Effect.gen(function* () {
      const services = yield* taskServices
      const { plan_id } = yield* TestKit.post({ question: "?", preferences: { on_disconnect: "continue" } })
      yield* TestKit.pass("1 second")
      const opened = yield* open(services, anonymous, plan_id, {})
      let heardAt = yield* Clock.currentTimeMillis
      let silence = 0
      const hear = Effect.map(Clock.currentTimeMillis, (now) => {
        silence = Math.max(silence, now - heardAt)
        heardAt = now
      })
      yield* Effect.forkScoped(Stream.runForEach(follow(services, opened), () => hear))
      const inbox = yield* Inbox
      const me = { caller: anonymous, isAdmin: false }
      for (let said = 0; said < 6; said++) {
        yield* inbox.accept(me, plan_id, { type: "text", text: "and?", when: "boundary", else: "ask" })
        yield* TestKit.pass("9 seconds", "1 second")
      }
      yield* hear
      assert.isAtMost(silence, 10_000)
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[stall]] })))
  )
})

/** A task that waits for its client, and what a patient subscriber gets of it, and how often it has asked the store. */
const waiting = Effect.gen(function* () {
  const own = yield* taskServices
  const { streams, tasks } = own
  let looks = 0
  const services = {
    ...own,
    tasks: {
      ...tasks,
      plans: (...asked: Parameters<typeof tasks.plans>) => {
        looks++
        return tasks.plans(...asked)
      }
    }
  }
  const ask = Effect.fnUntraced(function* (fields: object) {
    const request = yield* Schema.decodeUnknownEffect(PlanRequest)({
      question: "?",
      session_id: "s",
      agents,
      ...fields
    })
    const { frames, plan_id } = yield* streams.start({ caller: anonymous, request })
    yield* Effect.forkScoped(Stream.runDrain(frames))
    return plan_id
  })
  const task = yield* ask({ task_message: { message_id: "1", metadata: {} } })
  yield* TestKit.pass("1 second")
  const opened = yield* open(services, anonymous, task, {})
  assert.strictEqual(opened.fold.standing, "input-required")
  const items: Array<Followed<Change>> = []
  const following = follow(services, opened, { isPatient: true })
  yield* Effect.forkScoped(Stream.runForEach(following, (item) => Effect.sync(() => void items.push(item))))
  yield* TestKit.pass("1 second")
  const before = looks
  return { task, items, opened, services, ask, looks: () => looks - before }
})

describe("a subscriber of a task that waits", () => {
  it.effect("asks the store every few seconds, hears a ping each 10 s, and is woken when its client answers", () =>
    Effect.gen(function* () {
      const { ask, items, looks, opened, task } = yield* waiting
      yield* TestKit.pass("60 seconds", "1 second")
      assert.isAtMost(looks(), 18)
      assert.deepStrictEqual(
        items,
        Array.from({ length: 6 }, () => "ping" as const)
      )
      yield* ask({ task_message: { message_id: "2", metadata: {}, task_id: task } })
      yield* TestKit.pass("100 millis", "1 millis")
      assert.strictEqual(items.at(-1), "Over")
      assert.strictEqual(opened.fold.standing, "completed")
      const ids = items.flatMap((item) => (typeof item === "string" ? [] : [item.id]))
      assert.deepStrictEqual(ids, [...new Set(ids)])
      assert.isTrue(ids.every((id) => id.startsWith("1.")))
    }).pipe(Effect.scoped, Effect.provide(kit))
  )

  it.effect("is woken when its client cancels the task", () =>
    Effect.gen(function* () {
      const { items, opened, services, task } = yield* waiting
      const sessions = yield* Sessions
      yield* sessions.cancelTask(anonymous, task, yield* services.plans.get(anonymous, task))
      yield* TestKit.pass("100 millis", "1 millis")
      assert.strictEqual(items.at(-1), "Over")
      assert.strictEqual(opened.fold.standing, "canceled")
    }).pipe(Effect.scoped, Effect.provide(kit))
  )

  it.effect("is told that the gateway shuts down", () =>
    Effect.gen(function* () {
      const { items, services } = yield* waiting
      yield* Effect.forkChild(services.plans.drain)
      yield* TestKit.pass("100 millis", "1 millis")
      assert.strictEqual(items.at(-1), "Draining")
    }).pipe(Effect.scoped, Effect.provide(kit))
  )
})
