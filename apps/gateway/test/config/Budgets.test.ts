import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import type { Asked, Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "./file/ConfigFolder.ts"
import { post, start, startOn, stores } from "../http/RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }

const thousand = usage({ input_tokens: 900, output_tokens: 100 })

/** Makes two calls in each step for as long as it may; each answer is 1,000 tokens. */
const busy: Script = ({ messages, toolChoice }: Asked) => [
  ...(toolChoice === "none"
    ? [say("enough")]
    : ["a", "b"].map((input) => callTool("rigger_ask", { input: `${input}${messages.length}` }))),
  thousand
]

for (const [name, store] of Object.entries(stores)) {
  const configured = Effect.fnUntraced(function* (budgets: string) {
    const peer = yield* ScriptedPeer.serve({ acts: [completes("done")] })
    const folder = yield* folderOf({ "gateway.yaml": `budgets: ${budgets}` })
    const { url } = yield* startOn(store)(busy, { ...callers, BOWLINE_CONFIG: join(folder, "gateway.yaml") })
    const agents = [{ name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
    return Effect.fnUntraced(function* (caller: string) {
      const { body } = yield* post(
        `${url}/plan`,
        { question: "?", agents },
        { authorization: `Bearer key-of-${caller}` }
      )
      return { final: body["final"], error: body["error"], sends: (yield* peer.seen).sends.length }
    })
  })

  describe(`budgets (${name})`, () => {
    it.live("end the calls of a caller that has used up its tokens of the day, and then its plans", () =>
      Effect.gen(function* () {
        const ask = yield* configured("{ ann: { tokens_per_day: 3000 }, '*': { tokens_per_day: 10000 } }")
        // 3,000 tokens in three steps, and one more to answer.
        const first = yield* ask("ann")
        assert.deepInclude(first.final, { stop_reason: "max_total_tokens", steps: 4 })
        const second = yield* ask("ann")
        assert.deepInclude(second.error, { code: "budget_exceeded", retryable: false, stage: null })
        const { data, message } = second.error as { data: Record<string, unknown>; message: string }
        assert.match(message, /^ann has used 4000 of 3000 tokens of this day. The next day begins at .*T00:00:00.000Z$/)
        assert.deepInclude(data, { tokens_used: 4_000, tokens_per_day: 3_000 })
        assert.strictEqual(second.sends, first.sends)
        const third = yield* ask("bob")
        assert.deepInclude(third.final, { stop_reason: "max_total_tokens", steps: 11 })
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )

    it.live("refuse calls beyond those of the day, and let the caller ask on without tools", () =>
      Effect.gen(function* () {
        const ask = yield* configured("{ ann: { tool_calls_per_day: 3 } }")
        const first = yield* ask("ann")
        assert.deepInclude(first.final, { stop_reason: "max_tool_calls", tool_calls: 3, steps: 3 })
        assert.strictEqual(first.sends, 3)
        const second = yield* ask("ann")
        assert.deepInclude(second.final, { stop_reason: "max_tool_calls", tool_calls: 0, steps: 1, text: "enough" })
        const third = yield* ask("bob")
        assert.deepInclude(third.final, { stop_reason: "max_steps" })
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  })
}

describe("a request that alone has more tokens than the day", () => {
  it.live("ends its plan before its provider is asked", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "gateway.yaml": "budgets: { anonymous: { tokens_per_day: 2000 } }" })
      const config = { BOWLINE_CONFIG: join(folder, "gateway.yaml") }
      const { provider, url } = yield* start(busy, config)
      const { body } = yield* post(`${url}/plan`, { question: "rope ".repeat(4_000) })
      const { code, message } = body["error"] as { code: string; message: string }
      assert.deepStrictEqual([code, yield* provider.requests.all], ["budget_exceeded", []])
      assert.match(message, /more than the 2000 of the daily budget of anonymous/)
    }).pipe(Effect.scoped)
  )
})

describe("a budget of two gateways on one database", () => {
  it.live("is one, also for a gateway that starts later", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const folder = yield* folderOf({ "gateway.yaml": "budgets: { anonymous: { tokens_per_day: 2000 } }" })
      const config = { ...settings, BOWLINE_CONFIG: join(folder, "gateway.yaml") }
      const ask = Effect.fnUntraced(function* () {
        const { url } = yield* start([[say("ok"), thousand]], config)
        return (yield* post(`${url}/plan`, { question: "?" })).body
      }, Effect.scoped)
      const states = [(yield* ask())["state"], (yield* ask())["state"]]
      assert.deepStrictEqual(states, ["completed", "completed"])
      assert.deepInclude((yield* ask())["error"], { code: "budget_exceeded" })
    }).pipe(Effect.scoped)
  )
})
