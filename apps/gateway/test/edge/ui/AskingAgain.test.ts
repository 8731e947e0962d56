import { stall, until as waitFor } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"
import { ask, lastOf, open, planOf, settled, told, until } from "./Chat.ts"

describe("the AI SDK's chat", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`asks again in place of an answer or of a question, but not while the plan runs (${name})`, () =>
      Effect.gen(function* () {
        const hold = yield* Deferred.make<void>()
        const { provider, url } = yield* startOn(store)([
          [say("1")],
          [say("2")],
          [say("3")],
          [say("4")],
          [say("5"), waitFor(Deferred.await(hold))]
        ])
        const chat = open(url)
        yield* ask(chat, "a")
        yield* Effect.promise(() => chat.regenerate())
        assert.deepStrictEqual([yield* told(provider), lastOf(chat)], [["a"], ["text: 2"]])
        yield* ask(chat, "b")
        yield* Effect.promise(() => chat.regenerate())
        assert.deepStrictEqual([yield* told(provider), lastOf(chat)], [["a", "2", "b"], ["text: 4"]])
        const messageId = chat.messages[2]?.id ?? assert.fail()
        const editing = yield* Effect.forkChild(Effect.promise(() => chat.sendMessage({ text: "c", messageId })))
        yield* until(chat, () => lastOf(chat).includes("text: 5"))
        assert.deepStrictEqual(yield* told(provider), ["a", "2", "c"])
        const other = open(url, { messages: chat.messages })
        yield* Effect.promise(() => other.regenerate())
        assert.include(other.error?.message, "session_busy")
        yield* Deferred.succeed(hold, undefined)
        yield* Fiber.join(editing)
        assert.deepStrictEqual([chat.status, lastOf(chat)], ["ready", ["text: 5"]])
      })
    )
  }

  for (const [name, store] of Object.entries(stores)) {
    it.live(`begins the next answer at once when it was stopped, and when it is asked again then (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)([[say("1"), stall], [say("2"), stall], [say("3")]])
        const chat = open(url)
        const asking = yield* Effect.forkChild(ask(chat, "a"))
        yield* until(chat, () => lastOf(chat).includes("text: 1"))
        const first = planOf(chat.lastMessage)
        yield* Effect.promise(() => chat.stop())
        yield* Fiber.join(asking)
        const next = yield* Effect.forkChild(ask(chat, "b"))
        // The stopped plan would have run on for 10 s.
        yield* Effect.timeout(
          until(chat, () => lastOf(chat).includes("text: 2")),
          "5 seconds"
        )
        assert.deepInclude((yield* settled(url, first))["error"], { code: "aborted", reason: "superseded" })
        const second = planOf(chat.lastMessage)
        yield* Effect.promise(() => chat.stop())
        yield* Fiber.join(next)
        yield* Effect.timeout(
          Effect.promise(() => chat.regenerate()),
          "5 seconds"
        )
        assert.deepStrictEqual([chat.status, lastOf(chat)], ["ready", ["text: 3"]])
        assert.deepInclude((yield* settled(url, second))["error"], { reason: "superseded" })
        assert.deepStrictEqual((yield* told(provider)).slice(-1), ["b"])
      })
    )
  }

  it.live("begins the next answer at once, too, when another replica has the plan that was stopped", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const one = yield* start([[say("1"), stall]], settings)
      const other = yield* start([[say("2")]], settings)
      const chat = open(one.url)
      const asking = yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: 1"))
      const elsewhere = open(other.url, { messages: chat.messages.slice(0, 1) })
      const reading = yield* Effect.forkChild(Effect.promise(() => elsewhere.resumeStream()))
      yield* until(elsewhere, () => lastOf(elsewhere).includes("text: 1"))
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(asking)
      yield* Effect.promise(() => elsewhere.stop())
      yield* Fiber.join(reading)
      yield* Effect.timeout(ask(elsewhere, "b"), "5 seconds")
      assert.deepStrictEqual([elsewhere.status, lastOf(elsewhere)], ["ready", ["text: 2"]])
      assert.deepInclude((yield* settled(one.url, planOf(chat.lastMessage)))["error"], { reason: "superseded" })
    })
  )

  for (const [name, store] of Object.entries(stores)) {
    it.live(`replaces a question that was asked more than 50 plans ago (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)(() => [say("ok")])
        const chat = open(url)
        for (let index = 0; index < 52; index++) yield* ask(chat, `${index}`)
        const messageId = chat.messages[2]?.id ?? assert.fail()
        yield* Effect.promise(() => chat.sendMessage({ text: "instead", messageId }))
        assert.deepStrictEqual(yield* told(provider), ["0", "ok", "instead"])
      })
    )
  }

  it.live("keeps the answer whose question no plan is free for", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("1")], [say("busy"), stall]], { BOWLINE_MAX_PLANS: "1" })
      const chat = open(url)
      yield* ask(chat, "a")
      const other = open(url, { id: "other" })
      yield* Effect.forkChild(ask(other, "b"))
      yield* until(other, () => lastOf(other).includes("text: busy"))
      const again = { id: "chat", messages: chat.messages.slice(0, 1), trigger: "regenerate-message" }
      assert.strictEqual((yield* post(`${url}/ui/chat`, again)).status, 503)
      const { body } = yield* send(`${url}/sessions/chat/messages`)
      assert.lengthOf(body["messages"] as ReadonlyArray<unknown>, 2)
      yield* send(`${url}/ui/chat/other/stream`, { method: "DELETE" })
    })
  )

  it.live("keeps the answer whose question may not be asked again as it is", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("1")]])
      const chat = open(url)
      yield* ask(chat, "a")
      const messages = chat.messages.slice(0, 1)
      const again = { id: "chat", messages, trigger: "regenerate-message" }
      const unknown = yield* post(`${url}/ui/chat`, { ...again, bowline: { preset: "nope" } })
      assert.strictEqual(unknown.status, 400)
      assert.deepNestedInclude(unknown.body, { "issues[0].path": "bowline.preset" })
      assert.strictEqual((yield* post(`${url}/ui/chat`, again, { "x-bowline-hops": "6" })).status, 508)
      const { body } = yield* send(`${url}/sessions/chat/messages`)
      assert.lengthOf(body["messages"] as ReadonlyArray<unknown>, 2)
    })
  )
})
