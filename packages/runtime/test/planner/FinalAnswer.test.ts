import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { Effect } from "effect"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { bob, names } from "../plan/Bob.ts"

const schema = { type: "object", properties: { knot: { type: "string" } }, required: ["knot"] }
const format = { response_format: { type: "json_schema", schema } }

const ask = (script: Parameters<typeof layer>[0]["script"], fields: object = {}) =>
  Effect.gen(function* () {
    const { frames } = yield* post({ question: "?", session_id: "s", preferences: format, ...fields })
    const events = yield* readAll(frames)
    const sessions = yield* SessionStore
    const { session_id } = yield* sessions.find(anonymous, "s")
    const { items } = yield* sessions.messages(session_id, { limit: 10 })
    return { events, asked: yield* (yield* ScriptedProvider).asked.all, last: items.at(-1)?.parts }
  }).pipe(
    Effect.provide(
      layer({
        script,
        peers: { call: () => Effect.succeed({ state: "completed", content: "a bowline", verified: "unknown" }) }
      })
    ),
    Effect.scoped
  )

describe("an answer that has to match a schema", () => {
  it.live("is parsed into output, and its text stays", () =>
    Effect.gen(function* () {
      const { events, asked, last } = yield* ask([[say('{"knot": '), say('"bowline"}')]])
      assert.deepInclude(single(events, "final"), { text: '{"knot": "bowline"}', output: { knot: "bowline" } })
      assert.include(asked[0]?.system, JSON.stringify(schema))
      assert.deepStrictEqual(last, [{ type: "text", text: '{"knot": "bowline"}' }])
    })
  )

  for (const [why, wrong] of [
    ["is not JSON", "A bowline."],
    ["does not match", '{"knot": 7}']
  ] as const) {
    it.live(`is retracted and repaired once where it ${why}`, () =>
      Effect.gen(function* () {
        const { events, asked, last } = yield* ask([[say(wrong)], [say('{"knot":"bowline"}')]])
        assert.deepStrictEqual(single(events, "text.retract"), { step: 1, attempt: 1 })
        assert.deepInclude(single(events, "final"), { output: { knot: "bowline" }, steps: 2, stop_reason: "stop" })
        const [before, correction] = asked[1]?.messages.slice(-2) ?? []
        assert.deepInclude(before, { role: "assistant", text: wrong })
        assert.match(JSON.stringify(correction), /Your answer was rejected/)
        assert.strictEqual(asked[1]?.toolChoice, "none")
        assert.deepStrictEqual(last, [{ type: "text", text: '{"knot":"bowline"}' }])
      })
    )
  }

  it.live("fails output_invalid where the repaired one is wrong, too, and keeps that text for show", () =>
    Effect.gen(function* () {
      const { events, asked, last } = yield* ask([[say("first")], [say("second")]])
      assert.strictEqual(asked.length, 2)
      assert.strictEqual(all(events, "text.retract").length, 1)
      const error = single(events, "error")
      assert.deepInclude(error, { code: "output_invalid", retryable: false })
      assert.deepInclude(error.data, { partial: true })
      assert.notInclude(names(events), "final")
      assert.deepStrictEqual(last, [{ type: "text", text: "second", partial: true }])
    })
  )

  it.live("may come after calls, also where its repair is one step more than there may be", () =>
    Effect.gen(function* () {
      const script = [[callTool("bob_ask", { input: "?" })], [say("none")], [say('{"knot":"bowline"}')]]
      const fields = { agents: [bob], preferences: { ...format, max_steps: 2 } }
      const { events } = yield* ask(script, fields)
      assert.deepInclude(single(events, "final"), { stop_reason: "max_steps", steps: 3, output: { knot: "bowline" } })
    })
  )

  it.live("is refused with its path where the schema cannot be one", () =>
    Effect.gen(function* () {
      const body = { question: "?", preferences: { response_format: { type: "json_schema", schema: { type: 7 } } } }
      const refused = yield* Effect.flip(post(body))
      assert.strictEqual(refused._tag, "InvalidRequest")
      if (refused._tag !== "InvalidRequest") return
      assert.deepStrictEqual(refused.issues[0]?.path, ["preferences", "response_format", "schema"])
    }).pipe(Effect.provide(layer({ script: [] })), Effect.scoped)
  )
})
