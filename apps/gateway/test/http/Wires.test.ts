import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut } from "@bowline/testing/http/Move"
import type { FinishReason } from "@bowline/runtime/provider/Provider"
import type { Host } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, noFinish, refuse, say, type TurnMove } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

type End = readonly [stop_reason: string, end: TurnMove, requests: number]

interface Wire {
  readonly name: string
  readonly host: { readonly make: (script: Script) => Effect.Effect<Host> }
  /** Of a gateway that asks a server of the wire. */
  readonly settings: (url: string) => Readonly<Record<string, string>>
  /** How an answer ends without its calls being made, and how often the gateway asks before it accepts that. */
  readonly ends: ReadonlyArray<End>
}

const finish = (reason: FinishReason): TurnMove => ({ _tag: "Finish", reason })
const openAi = (api: string) => (url: string) => ({ OPENAI_BASE_URL: `${url}/v1`, OPENAI_API: api })
const filtered: End = ["content_filter", finish("content_filter"), 1]
const cutShort: End = ["max_tokens", finish("length"), 4]

const wires: ReadonlyArray<Wire> = [
  { name: "chat", host: ChatHost, settings: openAi("chat"), ends: [filtered, cutShort, ["refusal", refuse("no"), 1]] },
  {
    name: "responses",
    host: ResponsesHost,
    settings: openAi("responses"),
    ends: [filtered, cutShort, ["refusal", refuse("no"), 1]]
  },
  {
    name: "messages",
    host: MessagesHost,
    settings: (url) => ({ OPENAI_BASE_URL: "", ANTHROPIC_BASE_URL: url }),
    ends: [filtered, cutShort, ["refusal", finish("refusal"), 1], ["pause", finish("pause"), 7]]
  }
]

interface More {
  /** Those of each agent. */
  readonly skills?: ReadonlyArray<ReadonlyArray<{ readonly id: string }>>
}

/** Asks a gateway whose provider speaks this wire, and that retries nothing. */
const ask = Effect.fnUntraced(
  function* ({ host, settings }: Wire, script: Script, preferences: object = {}, more: More = {}) {
    const provider = yield* (yield* Network).serve(yield* host.make(script))
    const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] })
    const { url } = yield* start([], { ...settings(provider.url), BOWLINE_MAX_RETRIES: "0" })
    const agents = (more.skills ?? [[{ id: "ask" }]]).map((skills, index) => {
      const name = index === 0 ? "bob" : `bob${index}`
      return { name, endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills }
    })
    const { body } = yield* post(`${url}/plan`, { question: "?", agents, preferences })
    const history = yield* send(`${url}/sessions/${String(body["session_id"])}/messages`)
    const requests = (yield* provider.requests.all).length
    return { body, requests, history: history.text, sends: (yield* peer.seen).sends.length }
  },
  Effect.provide(LoopbackNetwork.layer),
  Effect.scoped
)

/** Finds, declares and calls three of 1,000 tools. */
const three: Script = ({ messages, tools }) => {
  const names = tools.map(({ name }) => name)
  if (names.length === 1)
    return ["7", "421", "999"].map((knot) => callTool("find_tools", { query: `knot ${knot}`, limit: 1 }))
  const called = messages.filter(({ role }) => role === "tool").length
  return called > 3 ? [say(names.join())] : names.slice(1).map((name) => callTool(name, { input: "hi" }))
}

const askBob = callTool("bob_ask", { input: "hi" })
const schema = { type: "object", properties: { knot: { type: "string" } }, required: ["knot"] }
const preferences = { response_format: { type: "json_schema", schema } }
const knot = [say('{"knot":'), say('"bowline"}')]

describe.each(wires)("over $name", (wire) => {
  it.live("an answer that is cut fails the plan after its one attempt, and a call that is cut is never made", () =>
    Effect.gen(function* () {
      for (const [end, code] of [
        [cut, "provider_transport"],
        [noFinish, "provider_stream_truncated"]
      ] as const) {
        const answer = yield* ask(wire, [[say("Half an "), end]])
        const error = { code, retryable: true, stage: "provider" }
        assert.deepInclude(answer.body["error"], error)
        assert.strictEqual(answer.requests, 1)
        const call = yield* ask(wire, [[say("Let me "), askBob, end]])
        assert.deepInclude(call.body["error"], error)
        assert.deepStrictEqual([call.requests, call.sends], [1, 0])
        assert.notInclude(call.history, "tool_call")
      }
    })
  )

  it.live("a plan with 1,000 tools finds three of them, and calls them", () =>
    Effect.gen(function* () {
      const skills = Array.from({ length: 20 }, (_, agent) =>
        Array.from({ length: 50 }, (_, index) => ({ id: `knot-${50 * agent + index}` }))
      )
      const { body, sends } = yield* ask(wire, three, {}, { skills })
      assert.deepInclude(body["final"] ?? body, { stop_reason: "stop" })
      assert.strictEqual(sends, 3)
    }).pipe(Effect.scoped)
  )

  it.live.each(wire.ends)("the call of an answer that ends in %s is not made", ([stop_reason, end, requests]) =>
    Effect.gen(function* () {
      const asked = yield* ask(wire, () => [say("Let me see."), askBob, end])
      assert.deepInclude(asked.body["final"], { stop_reason, steps: 1, tool_calls: 0 })
      assert.deepStrictEqual([asked.requests, asked.sends], [requests, 0])
      assert.notInclude(asked.history, "tool_call")
    })
  )

  it.live("response_format gives output, after one repair if need be, or output_invalid", () =>
    Effect.gen(function* () {
      const valid = yield* ask(wire, [knot], preferences)
      assert.deepInclude(valid.body["final"], { output: { knot: "bowline" }, steps: 1 })
      const repaired = yield* ask(wire, [[say("a bowline")], knot], preferences)
      assert.deepInclude(repaired.body["final"], { output: { knot: "bowline" }, steps: 2 })
      const invalid = yield* ask(wire, [[say("a bowline")], [say("a knot")]], preferences)
      assert.deepInclude(invalid.body["error"], { code: "output_invalid", retryable: false })
      assert.strictEqual(invalid.requests, 2)
    })
  )
})
