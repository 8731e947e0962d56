import { HttpAgent } from "@ag-ui/client"
import { createBowline } from "@bowline/client"
import { stall, until as waitFor } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"
import { ask, lastOf, open, planOf, settled, shown, told, until } from "./Chat.ts"

const plansOf = (url: string) =>
  Effect.map(send(`${url}/plans`), ({ body }) =>
    (body["plans"] as ReadonlyArray<{ readonly state: string }>).map(({ state }) => state)
  )

/** A model that says half of its answer, and the rest when it is told to; then it answers what was said meanwhile. */
const halfway = Effect.gen(function* () {
  const hold = yield* Deferred.make<void>()
  const script = [[say("one, "), waitFor(Deferred.await(hold)), say("two.")], [say("Three.")]]
  return { proceed: Deferred.succeed(hold, undefined), script }
})

describe("a message of the user while the plan of the chat runs", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`is heard by the plan, and ends the answer to the one before where its own begins (${name})`, () =>
      Effect.gen(function* () {
        const { proceed, script } = yield* halfway
        const { provider, url } = yield* startOn(store)(script)
        const chat = open(url, { bowline: { preferences: { max_steps: 5 } } })
        const first = yield* Effect.forkChild(ask(chat, "a"))
        yield* until(chat, () => lastOf(chat).includes("text: one, "))
        const second = yield* Effect.forkChild(ask(chat, "b"))
        yield* Fiber.join(first)
        yield* until(chat, ({ messages }) => messages.length === 4)
        yield* proceed
        yield* Fiber.join(second)
        assert.deepStrictEqual(chat.messages.map(shown), [
          ["text: a"],
          ["text: one, "],
          ["text: b"],
          ["text: two.", "text: Three."]
        ])
        assert.strictEqual(chat.status, "ready")
        assert.deepStrictEqual(yield* plansOf(url), ["completed"])
        assert.deepStrictEqual(yield* told(provider), ["a", "one, two.", "b"])
        assert.strictEqual(planOf(chat.messages[3]), planOf(chat.messages[1]))
      })
    )
  }

  it.live("is heard by a plan that another replica runs", () =>
    Effect.gen(function* () {
      const { proceed, script } = yield* halfway
      const settings = yield* stores.postgres
      const one = yield* start(script, settings)
      const other = yield* start([], settings)
      const chat = open(one.url)
      const first = yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: one, "))
      const elsewhere = open(other.url, { messages: chat.messages })
      const second = yield* Effect.forkChild(ask(elsewhere, "b"))
      yield* Fiber.join(first)
      yield* proceed
      yield* Fiber.join(second)
      assert.deepStrictEqual([lastOf(chat), lastOf(elsewhere)], [["text: one, "], ["text: two.", "text: Three."]])
      assert.deepStrictEqual(yield* plansOf(one.url), ["completed"])
    })
  )

  it.live("is read by the chat from there on, also by a page that was loaded again, until the next one", () =>
    Effect.gen(function* () {
      const { proceed, script } = yield* halfway
      const { url } = yield* start([...script, [say("Four.")]])
      const chat = open(url)
      yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: one, "))
      yield* Effect.forkChild(ask(chat, "b"))
      yield* until(chat, ({ messages }) => messages.length === 4)
      const page = open(url, { messages: chat.messages.slice(0, 3) })
      const resuming = yield* Effect.forkChild(Effect.promise(() => page.resumeStream()))
      yield* until(page, ({ messages }) => messages.length === 4)
      const third = yield* Effect.forkChild(ask(page, "c"))
      yield* until(page, ({ messages }) => messages.length === 6)
      yield* Fiber.join(resuming)
      yield* proceed
      yield* Fiber.join(third)
      assert.deepStrictEqual(page.messages.map(shown).slice(-3), [[], ["text: c"], ["text: two.", "text: Three."]])
      assert.deepStrictEqual(yield* plansOf(url), ["completed"])
    })
  )

  it.live("ends with stop(), and its plan with it", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("one"), stall]])
      const chat = open(url, { bowline: { preferences: { disconnect_grace_ms: 0 } } })
      yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: one"))
      const second = yield* Effect.forkChild(ask(chat, "b"))
      yield* until(chat, ({ messages }) => messages.length === 4)
      yield* Effect.promise(() => chat.stop())
      yield* Fiber.join(second)
      assert.deepInclude((yield* settled(url, planOf(chat.lastMessage)))["error"], { reason: "disconnect" })
    })
  )

  it.live("is refused where it wants another plan than the one that runs", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("one"), stall]])
      const chat = open(url)
      yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: one"))
      const user = { id: "b", role: "user", parts: [{ type: "text", text: "b" }] }
      const body = { id: "chat", messages: [user], bowline: { preferences: { max_steps: 3 } } }
      const refused = yield* post(`${url}/ui/chat`, body)
      assert.strictEqual(refused.status, 400)
      assert.deepNestedInclude(refused.body, { "issues[0].path": "bowline.preferences.max_steps" })
      yield* send(`${url}/ui/chat/chat/stream`, { method: "DELETE" })
    })
  )
})

describe("a run of AG-UI with a message of the user while another one runs", () => {
  it.live("is heard by the plan, and the thread has the whole conversation", () =>
    Effect.gen(function* () {
      const { proceed, script } = yield* halfway
      const { provider, url } = yield* start(script)
      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread" })
      const contents = () =>
        agent.messages.map(({ content, role }) => `${role}: ${typeof content === "string" ? content : ""}`)
      const said = Effect.fnUntraced(function* (content: string) {
        agent.addMessage({ id: content, role: "user", content })
        return yield* Effect.forkChild(Effect.promise(() => agent.runAgent()))
      })
      const has = (text: string) => Effect.repeat(Effect.sleep("10 millis"), { until: () => contents().includes(text) })
      const first = yield* said("a")
      yield* has("assistant: one, ")
      const second = yield* said("b")
      yield* Fiber.join(first)
      yield* proceed
      yield* Fiber.join(second)
      assert.deepStrictEqual(contents(), [
        "user: a",
        "assistant: one, ",
        "user: b",
        "assistant: two.",
        "assistant: Three."
      ])
      assert.deepStrictEqual(yield* plansOf(url), ["completed"])
      assert.deepStrictEqual(yield* told(provider), ["a", "one, two.", "b"])
    })
  )
})

describe("the client", () => {
  it.live("reads the plan that hears its question from there on", () =>
    Effect.gen(function* () {
      const { proceed, script } = yield* halfway
      const { url } = yield* start(script)
      const bowline = createBowline({ baseUrl: url })
      const first = bowline.plan({ question: "a", session_id: "s" })
      // Before its first step, the plan would read both at once.
      const said = first.text()[Symbol.asyncIterator]()
      yield* Effect.promise(() => said.next())
      const second = bowline.plan({ question: "b", session_id: "s", preferences: { on_busy: "steer" } })
      assert.strictEqual(yield* Effect.promise(() => second.planId), yield* Effect.promise(() => first.planId))
      yield* proceed
      const events: Array<string> = []
      yield* Effect.promise(async () => {
        for await (const { event } of second) events.push(event)
      })
      assert.deepStrictEqual([events[0], events.at(-1)], ["inbox.accepted", "done"])
      assert.strictEqual((yield* Effect.promise(() => second.result())).text, "Three.")
    })
  )
})
