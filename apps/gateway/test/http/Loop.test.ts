import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, fails, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Asked, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { post, start } from "./RunningGateway.ts"

const call = callTool("bob_ask", { input: "?" })
/** Makes the same call for as long as it may. */
const stubborn = ({ toolChoice }: Asked) => (toolChoice === "none" ? [say("gave up")] : [call])

/** Asks a gateway with this file, whose peer ends all its tasks in one way. */
const ask = Effect.fnUntraced(
  function* (
    script: Script,
    act: ReturnType<typeof completes>,
    { config = "{}", preferences = {}, skill = {} }: { config?: string; preferences?: object; skill?: object } = {}
  ) {
    const peer = yield* ScriptedPeer.serve({ acts: [act] })
    const folder = yield* folderOf({ "gateway.yaml": config })
    const { url, provider } = yield* start(script, { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
    const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask", ...skill }] }]
    const { body } = yield* post(`${url}/plan`, { question: "?", agents, preferences })
    return { body, requests: (yield* provider.requests.all).length }
  },
  Effect.provide(LoopbackNetwork.layer),
  Effect.scoped
)

describe("a plan that leads nowhere", () => {
  it.live("ends loop_detected after three provider calls, or after as many as the file says, or never", () =>
    Effect.gen(function* () {
      const usual = yield* ask(stubborn, fails("out of rope"))
      assert.deepInclude(usual.body["error"], { code: "loop_detected" })
      assert.strictEqual(usual.requests, 3)
      const sooner = yield* ask(stubborn, fails("out of rope"), { config: "loop: { failures: 2 }" })
      assert.strictEqual(sooner.requests, 2)
      const never = yield* ask(stubborn, fails("out of rope"), {
        config: "loop: { failures: 0, repeats: 0, pairs: 0 }"
      })
      assert.deepInclude(never.body["final"], { stop_reason: "max_steps" })
    })
  )

  it.live("answers without tools where a call repeats itself, unless its skill is polling", () =>
    Effect.gen(function* () {
      const usual = yield* ask(stubborn, completes("the same"))
      assert.deepInclude(usual.body["final"], { stop_reason: "loop", tool_calls: 7 })
      const sooner = yield* ask(stubborn, completes("the same"), { config: "loop: { repeats: 2 }" })
      assert.deepInclude(sooner.body["final"], { stop_reason: "loop", tool_calls: 4 })
      const polling = yield* ask(stubborn, completes("the same"), { skill: { polling: true } })
      assert.deepInclude(polling.body["final"], { stop_reason: "max_steps" })
    })
  )

  it.live("answers without tools where two calls alternate", () =>
    Effect.gen(function* () {
      const alternating = ({ messages, toolChoice }: Asked) =>
        toolChoice === "none"
          ? [say("gave up")]
          : [callTool("bob_ask", { input: messages.length % 4 === 1 ? "a" : "b" })]
      const { body } = yield* ask(alternating, completes("the same"), { config: "loop: { repeats: 0, pairs: 2 }" })
      assert.deepInclude(body["final"], { stop_reason: "loop", tool_calls: 6 })
    })
  )
})

describe("preferences of the loop", () => {
  it.live("max_steps bounds a plan without tools, too, whose model makes calls up", () =>
    Effect.gen(function* () {
      const inventing = ({ messages, system }: Asked) =>
        system.includes("No more tools may be called")
          ? [say("gave up")]
          : [callTool("bob_ask", { input: String(messages.length) })]
      const { url, provider } = yield* start(inventing)
      const { body } = yield* post(`${url}/plan`, { question: "?", preferences: { max_steps: 3 } })
      assert.deepInclude(body["final"], { stop_reason: "max_steps", steps: 3, text: "gave up" })
      assert.lengthOf(yield* provider.requests.all, 3)
      const single = yield* start([[say("ok")]])
      const plain = yield* post(`${single.url}/plan`, { question: "?", preferences: { max_steps: 1 } })
      assert.deepInclude(plain.body["final"], { stop_reason: "stop", steps: 1 })
    }).pipe(Effect.scoped)
  )

  it.live("max_total_tokens ends the calls, or the plan where one request alone is too much", () =>
    Effect.gen(function* () {
      const spend = ({ messages, toolChoice }: Asked) =>
        toolChoice === "none"
          ? [say("enough")]
          : [callTool("bob_ask", { input: String(messages.length) }), usage({ input_tokens: 900, output_tokens: 200 })]
      const ended = yield* ask(spend, completes("ok"), { preferences: { max_total_tokens: 2_000 } })
      assert.deepInclude(ended.body["final"], { stop_reason: "max_total_tokens", steps: 3 })
      const tooMuch = yield* ask(spend, completes("ok"), { preferences: { max_total_tokens: 5 } })
      assert.deepInclude(tooMuch.body["error"], { code: "budget_exceeded" })
      assert.strictEqual(tooMuch.requests, 0)
    })
  )

  it.live("max_steps and max_tool_calls end the calls", () =>
    Effect.gen(function* () {
      const other = ({ messages, toolChoice }: Asked) =>
        toolChoice === "none" ? [say("enough")] : [callTool("bob_ask", { input: String(messages.length) })]
      const steps = yield* ask(other, completes("ok"), { preferences: { max_steps: 2 } })
      assert.deepInclude(steps.body["final"], { stop_reason: "max_steps", steps: 2, tool_calls: 1 })
      assert.strictEqual(steps.requests, 2)
      const calls = yield* ask(other, completes("ok"), { preferences: { max_tool_calls: 1 } })
      assert.deepInclude(calls.body["final"], { stop_reason: "max_tool_calls", tool_calls: 1 })
    })
  )

  it.live(
    "tool_timeout_ms, a skill's timeout_ms and the configuration end a call, whichever is shortest, and the plan goes on",
    () =>
      Effect.gen(function* () {
        const once = (asked: Asked) => (results(asked).length === 0 ? [call] : [say(results(asked).join())])
        for (const [own, ofAll, longest = "1h"] of [
          [undefined, 200],
          [200, undefined],
          [200, 600_000],
          [600_000, 200],
          [600_000, 600_000, "200ms"]
        ] as const) {
          const given = {
            config: `tools: { timeout: ${longest} }`,
            preferences: ofAll === undefined ? {} : { tool_timeout_ms: ofAll },
            skill: own === undefined ? {} : { timeout_ms: own }
          }
          const { body } = yield* ask(once, stuck, given)
          assert.deepInclude(body["final"], { stop_reason: "stop", tool_calls: 1 })
          assert.match(JSON.stringify(body["final"]), /bob_ask did not finish within 200ms/)
        }
      })
  )
})
