import { createBowline, type PlanRequest } from "@bowline/client"
import { BowlineAgent } from "@bowline/client/ag-ui"
import { BowlineChatTransport } from "@bowline/client/ai-sdk"
import { until as waitFor } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { send, start } from "../../http/RunningGateway.ts"
import { ask, lastOf, open, openWith, planOf, shown, told, until } from "./Chat.ts"

const limited: Pick<PlanRequest, "preferences"> = { preferences: { max_steps: 1 } }

const transportOf = (url: string, request: Omit<PlanRequest, "question"> = {}) =>
  openWith(new BowlineChatTransport({ bowline: createBowline({ baseUrl: url }), request }))

/** How a page speaks to the gateway. */
const pages = {
  "the client": transportOf,
  "the AI SDK's own transport": (url: string, request: Omit<PlanRequest, "question"> = {}) =>
    open(url, { bowline: request })
}

const plansOf = (url: string) =>
  Effect.map(send(`${url}/plans`), ({ body }) => (body["plans"] as ReadonlyArray<{ readonly state: string }>).length)

/** A model that says half of its answer, and the rest when it is told to; then it answers what was said meanwhile. */
const halfway = Effect.gen(function* () {
  const hold = yield* Deferred.make<void>()
  const script = [[say("one, "), waitFor(Deferred.await(hold)), say("two.")], [say("Three.")], [say("Four.")]]
  return { proceed: Deferred.succeed(hold, undefined), script }
})

for (const [name, page] of Object.entries(pages)) {
  describe(`a message of the user while the plan of the chat runs, through ${name}`, () => {
    it.live("is heard by the plan, and ends the answer to the one before", () =>
      Effect.gen(function* () {
        const { proceed, script } = yield* halfway
        const { provider, url } = yield* start(script)
        const chat = page(url)
        const first = yield* Effect.forkChild(ask(chat, "a"))
        yield* until(chat, () => lastOf(chat).includes("text: one, "))
        const second = yield* Effect.forkChild(ask(chat, "b"))
        yield* Fiber.join(first)
        yield* until(chat, ({ messages }) => messages.length === 4)
        yield* proceed
        yield* Fiber.join(second)
        const answered = [["text: a"], ["text: one, "], ["text: b"], ["text: two.", "text: Three."]]
        assert.deepStrictEqual(chat.messages.map(shown), answered)
        assert.strictEqual(yield* plansOf(url), 1)
        assert.deepStrictEqual(yield* told(provider), ["a", "one, two.", "b"])
        yield* ask(chat, "c")
        assert.deepStrictEqual(chat.messages.map(shown), [...answered, ["text: c"], ["text: Four."]])
        assert.strictEqual(yield* plansOf(url), 2)
      })
    )

    it.live("is answered by the next plan where the one that runs has no step left", () =>
      Effect.gen(function* () {
        const { proceed, script } = yield* halfway
        const { url } = yield* start(script)
        const chat = page(url, limited)
        const first = yield* Effect.forkChild(ask(chat, "a"))
        yield* until(chat, () => lastOf(chat).includes("text: one, "))
        const second = yield* Effect.forkChild(ask(chat, "b"))
        yield* Fiber.join(first)
        yield* until(chat, ({ messages }) => messages.length === 4)
        yield* proceed
        yield* Fiber.join(second)
        assert.deepStrictEqual(lastOf(chat), ["text: two.", "text: Three."])
        assert.strictEqual(chat.status, "ready")
        assert.notStrictEqual(planOf(chat.messages[3]), planOf(chat.messages[1]))
      })
    )
  })
}

describe("a message of the user that wants something else than the plan of the chat has", () => {
  it.live("is the question of the next plan", () =>
    Effect.gen(function* () {
      const { proceed, script } = yield* halfway
      const { url } = yield* start(script)
      const chat = transportOf(url)
      const first = yield* Effect.forkChild(ask(chat, "a"))
      yield* until(chat, () => lastOf(chat).includes("text: one, "))
      const body = { bowline: limited }
      const second = yield* Effect.forkChild(Effect.promise(() => chat.sendMessage({ text: "b" }, { body })))
      yield* until(chat, ({ messages }) => messages.length === 3)
      yield* proceed
      yield* Fiber.join(first)
      yield* Fiber.join(second)
      assert.deepStrictEqual(lastOf(chat), ["text: Three."])
      assert.strictEqual(yield* plansOf(url), 2)
    })
  )
})

describe("a run of AG-UI through the client, with a message of the user while another one runs", () => {
  for (const request of [{}, limited]) {
    it.live(
      `is answered, ${request === limited ? "by the next plan" : "and the thread has the whole conversation"}`,
      () =>
        Effect.gen(function* () {
          const { proceed, script } = yield* halfway
          const { url } = yield* start(script)
          const agent = new BowlineAgent({ bowline: createBowline({ baseUrl: url }), request, threadId: "thread" })
          const contents = () =>
            agent.messages.map(({ content, role }) => `${role}: ${typeof content === "string" ? content : ""}`)
          const said = Effect.fnUntraced(function* (content: string) {
            agent.addMessage({ id: content, role: "user", content })
            return yield* Effect.forkChild(Effect.promise(() => agent.runAgent()))
          })
          const has = (text: string) =>
            Effect.repeat(Effect.sleep("10 millis"), { until: () => contents().includes(text) })
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
          assert.strictEqual(yield* plansOf(url), request === limited ? 2 : 1)
        })
    )
  }
})
