import { assert, describe, it } from "@effect/vitest"
import { json, text } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { becomes, completes, stays, stuck, works } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import * as Trouble from "@bowline/testing/unstable/peer/Trouble"
import { Array, Clock, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { memory, question, reasonOf, start } from "./call.ts"

describe("the wait for a task", () => {
  it.effect("polls at first after 50 ms, then at intervals that grow to 5 seconds", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [stuck] })
      yield* start(question(peer.url))
      const polls = Effect.map(peer.seen, ({ polls }) => polls.length)
      yield* TestClock.adjust("49 millis")
      assert.strictEqual(yield* polls, 0)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* polls, 1)
      yield* TestClock.setTime(60_000)
      const before = yield* polls
      yield* TestClock.setTime(660_000)
      const inTenMinutes = (yield* polls) - before
      assert.isAtLeast(inTenMinutes, 600 / 5.5 - 1)
      assert.isAtMost(inTenMinutes, 600 / 4.5 + 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("sees the end of a task late by a third of its duration at most", () =>
    Effect.gen(function* () {
      for (const seconds of [1, 3, 10]) {
        const peer = yield* serve({ acts: [works(`${seconds} seconds`), completes("Done")] })
        const { fiber } = yield* start(question(peer.url))
        yield* TestClock.adjust(seconds * 1_333)
        assert.isDefined(fiber.pollUnsafe())
      }
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["a broken connection", Trouble.breaks("reset")],
    ["a connection that breaks in mid-answer", Trouble.cutsAnswer],
    ["a poll that is not answered", Trouble.silent],
    ["a poll whose answer stops", Trouble.stallsAnswer],
    ["408", Trouble.answers(408)],
    ["425", Trouble.answers(425)],
    ["429", Trouble.answers(429)],
    ["503", Trouble.answers(503)]
  ] as const)("survives %s", ([, trouble]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [works("20 seconds"), completes("Done")] })
      yield* peer.disturb("tasks/get", ...Array.replicate(trouble, 2))
      const { fiber } = yield* start(question(peer.url))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Done")
      assert.strictEqual((yield* peer.seen).sends.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["fails", Trouble.answers(503)],
    ["is silent", Trouble.silent]
  ] as const)("ends as unreachable when every poll %s for 30 seconds since the last good answer", ([, trouble]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [stuck] })
      const call = yield* start(question(peer.url))
      yield* TestClock.adjust("60 seconds")
      yield* peer.disturb("tasks/get", ...Array.replicate(trouble, 1_000))
      const good = (yield* peer.seen).polls.length
      // The last good answer is at most one wait ago.
      yield* TestClock.adjust("24 seconds")
      assert.isUndefined(call.fiber.pollUnsafe())
      yield* TestClock.adjust("6 seconds")
      const reason = yield* reasonOf(call)
      assert.strictEqual(reason._tag, "unreachable")
      assert.isAbove((yield* peer.seen).polls.length, good)
      assert.isDefined(yield* peer.cancelled)
    }).pipe(Effect.provide(memory))
  )

  it.effect("starts to count again with every good answer", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [works("100 seconds"), completes("Done")] })
      const { fiber } = yield* start(question(peer.url))
      for (let round = 0; round < 4; round++) {
        yield* peer.disturb("tasks/get", ...Array.replicate(Trouble.answers(503), 4))
        yield* TestClock.adjust("30 seconds")
      }
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Done")
    }).pipe(Effect.provide(memory))
  )

  it.effect("leaves the peer alone for as long as its Retry-After says", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [works("10 millis"), completes("Done")] })
      yield* peer.disturb("tasks/get", Trouble.answers(429, { "retry-after": "20" }))
      const { fiber } = yield* start(question(peer.url))
      yield* TestClock.adjust("20 seconds")
      assert.strictEqual((yield* peer.seen).polls.length, 1)
      yield* TestClock.adjust("50 millis")
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Done")
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["auth", Trouble.answers(401)],
    ["auth", Trouble.answers(403)],
    ["http", Trouble.answers(404)],
    ["payment_required", Trouble.answers(402, {}, '{"price":1}')],
    ["rpc", Trouble.answers(400, {}, '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Gone"}}')],
    ["protocol", Trouble.answers(200, {}, "<html>")],
    ["protocol", Trouble.answers(200, {}, '{"jsonrpc":"2.0","id":"1","result":{"kind":"task","id":"x"}}')]
  ] as const)("ends at once as %s when a poll fails for good, and cancels the task", ([tag, trouble]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [stuck] })
      yield* peer.disturb("tasks/get", trouble)
      const call = yield* start(question(peer.url))
      yield* TestClock.adjust("50 millis")
      const reason = yield* reasonOf(call)
      assert.strictEqual(reason._tag, tag)
      yield* peer.cancelled
      assert.strictEqual((yield* peer.seen).polls.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("says what did not decode, and where", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [stuck] })
      yield* peer.disturb("tasks/get", Trouble.answers(200, {}, '{"result":{"kind":"task","id":"x","status":{}}}'))
      const call = yield* start(question(peer.url))
      yield* TestClock.adjust("50 millis")
      const { message } = yield* reasonOf(call)
      assert.match(message, /tasks\/get.*Missing key.*\["status"\]\["state"\]/s)
    }).pipe(Effect.provide(memory))
  )

  it.effect("reports auth-required, waits for 60 seconds, and hands the open task back", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [works("2 seconds"), becomes("auth-required", "Log in at example.com")] })
      const { events, fiber } = yield* start(question(peer.url))
      yield* TestClock.setTime(3_000)
      assert.deepStrictEqual(events.at(-1), {
        _tag: "Progress",
        state: "auth-required",
        message: "Log in at example.com"
      })
      yield* TestClock.setTime(61_900)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.setTime(63_000)
      assert.deepInclude(yield* Fiber.join(fiber), { state: "auth-required", content: "Log in at example.com" })
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(memory))
  )

  it.effect("waits as long for an authorization, though somebody sets the time of day meanwhile", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [becomes("auth-required")] })
      const clock = yield* Clock.Clock
      let setByMs = 0
      const wall = () => clock.currentTimeMillisUnsafe() + setByMs
      const { fiber } = yield* start(question(peer.url)).pipe(
        Effect.provideService(
          Clock.Clock,
          Object.assign(Object.create(clock), {
            currentTimeMillisUnsafe: wall,
            currentTimeMillis: Effect.sync(wall)
          })
        )
      )
      yield* TestClock.setTime(30_000)
      setByMs = 3_600_000
      yield* TestClock.setTime(59_999)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.setTime(60_000)
      assert.deepInclude(yield* Fiber.join(fiber), { state: "auth-required" })
    }).pipe(Effect.provide(memory))
  )

  it.effect("goes on when somebody authorizes the peer elsewhere, however often", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        acts: [
          becomes("auth-required"),
          stays("50 seconds"),
          works("50 seconds"),
          becomes("auth-required"),
          stays("50 seconds"),
          completes("Done")
        ]
      })
      const { fiber } = yield* start(question(peer.url))
      yield* TestClock.adjust("3 minutes")
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Done")
    }).pipe(Effect.provide(memory))
  )
})

describe("the send", () => {
  it.effect("is tried again for as long as it cannot have reached the peer", () =>
    Effect.gen(function* () {
      // The first host of the network will have this name.
      const call = yield* start(question("http://host-1.test"))
      yield* TestClock.adjust("2 seconds")
      const peer = yield* serve({ acts: [completes("Back again")] })
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual((yield* Fiber.join(call.fiber)).content, "Back again")
      assert.strictEqual((yield* peer.seen).sends.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("fails as unreachable within seconds when nobody is there", () =>
    Effect.gen(function* () {
      const call = yield* start(question("http://host-1.test"))
      yield* TestClock.adjust("7 seconds")
      assert.strictEqual((yield* reasonOf(call))._tag, "unreachable")
    }).pipe(Effect.provide(memory))
  )

  it.effect.each([
    ["unreachable", Trouble.breaks("reset")],
    ["unreachable", Trouble.cutsAnswer],
    ["http", Trouble.answers(503)],
    ["http", Trouble.answers(429, { "retry-after": "1" })],
    ["auth", Trouble.answers(401)]
  ] as const)("is never repeated when it may have reached the peer, and fails as %s", ([tag, trouble]) =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [stuck] })
      yield* peer.disturb("message/send", trouble)
      const call = yield* start(question(peer.url))
      assert.strictEqual((yield* reasonOf(call))._tag, tag)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* peer.seen).sends.length, 1)
    }).pipe(Effect.provide(memory))
  )

  it.effect("follows a redirect within the origin, and none across", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const redirect = (location: string) => Effect.succeed(text(307, "", { location }))
      const result = { kind: "message", role: "agent", parts: [{ kind: "text", text: "Arrived" }] }
      const near = yield* network.serve(({ url }) =>
        url.pathname === "/" ? redirect("/a2a") : Effect.succeed(json(200, { jsonrpc: "2.0", id: "1", result }))
      )
      const { fiber } = yield* start(question(near.url))
      assert.strictEqual((yield* Fiber.join(fiber)).content, "Arrived")

      const far = yield* network.serve(() => redirect(`${near.url}/a2a`))
      const astray = yield* start(question(far.url))
      assert.deepInclude(yield* reasonOf(astray), { _tag: "http", status: 307 })
      assert.strictEqual((yield* near.requests.all).length, 2)
    }).pipe(Effect.provide(memory))
  )
})
