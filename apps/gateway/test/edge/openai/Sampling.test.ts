import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, finish, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "../../http/RunningGateway.ts"

const openAi = (api: string, model: string) => (url: string) => ({
  OPENAI_BASE_URL: `${url}/v1`,
  OPENAI_API: api,
  BOWLINE_MODEL: `openai/${model}`
})

const wires = [
  { name: "chat", host: ChatHost, settings: openAi("chat", "gpt-oss-120b") },
  { name: "responses", host: ResponsesHost, settings: openAi("responses", "gpt-oss-120b") },
  {
    name: "messages",
    host: MessagesHost,
    settings: (url: string) => ({
      OPENAI_BASE_URL: "",
      ANTHROPIC_BASE_URL: url,
      BOWLINE_MODEL: "anthropic/claude-3-haiku-20240307"
    })
  }
]

const sent = {
  temperature: 1.5,
  top_p: 0.5,
  stop: ["END", " "],
  seed: 7,
  reasoning_effort: "low",
  prompt_cache_key: "desk",
  max_tokens: 9,
  max_completion_tokens: 50
}

const arrived: Readonly<Record<string, object>> = {
  chat: {
    temperature: 1.5,
    top_p: 0.5,
    stop: ["END", " "],
    seed: 7,
    reasoning_effort: "low",
    max_tokens: 50
  },
  responses: {
    temperature: 1.5,
    top_p: 0.5,
    reasoning: { effort: "low" },
    prompt_cache_key: "desk",
    max_output_tokens: 50
  },
  messages: { temperature: 1, stop_sequences: ["END"], max_tokens: 50 }
}

/** What is named as left out. */
const ignored: Readonly<Record<string, string | null>> = {
  chat: null,
  responses: "stop, seed",
  messages: "seed, reasoning_effort"
}

/** What every request has. */
const common = ["model", "stream", "stream_options", "store", "include", "messages", "input", "system"].concat([
  "instructions",
  "tools",
  "tool_choice"
])

/** Asks a gateway whose provider speaks the wire. Gives its answer, and what the provider was asked of sampling. */
const ask = Effect.fnUntraced(
  function* (
    { host, settings }: Pick<(typeof wires)[number], "host" | "settings">,
    script: Script,
    fields: object,
    path = "chat/completions"
  ) {
    const provider = yield* (yield* Network).serve(yield* host.make(script))
    const peer = yield* ScriptedPeer.serve({ acts: [completes("hi")] })
    const { url } = yield* start([], { ...settings(provider.url), BOWLINE_MAX_RETRIES: "0" })
    const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
    const question = path === "responses" ? { input: "?" } : { messages: [{ role: "user", content: "?" }] }
    const body = { model: "bowline", ...question, bowline: { agents }, ...fields }
    const answer = yield* post(`${url}/v1/${path}`, body)
    const asked = (yield* provider.requests.all).map(({ body }) =>
      Object.fromEntries(
        Object.entries(JSON.parse(body) as Record<string, unknown>).filter(([name]) => !common.includes(name))
      )
    )
    return { answer, asked, sends: (yield* peer.seen).sends.length }
  },
  Effect.provide(LoopbackNetwork.layer),
  Effect.scoped
)

const askBob = callTool("bob_ask", { input: "hi" })
const limitOf = (asked: object) => Object.entries(asked).find(([name]) => name.startsWith("max_"))?.[1] as unknown

describe.each(wires)("over $name", (wire) => {
  it.live("each step of a plan asks with the sampling of its caller, as far as the wire has it", () =>
    Effect.gen(function* () {
      const { answer, asked } = yield* ask(wire, [[askBob], [say("ok")]], sent)
      assert.strictEqual(answer.status, 200)
      assert.strictEqual(answer.headers.get("x-bowline-ignored"), ignored[wire.name] ?? null)
      assert.deepStrictEqual(asked, [arrived[wire.name], arrived[wire.name]])
    })
  )

  it.live("an answer that its caller's limit has cut ends the plan with what there is", () =>
    Effect.gen(function* () {
      const { answer, asked } = yield* ask(wire, [[say("Half an "), finish("length")]], { max_tokens: 50 })
      assert.deepNestedInclude(answer.body, {
        "choices[0].finish_reason": "length",
        "choices[0].message.content": "Half an "
      })
      assert.lengthOf(asked, 1)
    })
  )

  it.live("a call that its caller's limit has cut is asked for again, without the limit", () =>
    Effect.gen(function* () {
      const script = [[say("I look."), askBob, finish("length")], [askBob], [say("done"), finish("length")]]
      const { answer, asked, sends } = yield* ask(wire, script, { max_tokens: 50 })
      assert.deepNestedInclude(answer.body, { "choices[0].finish_reason": "length" })
      assert.strictEqual(sends, 1)
      const unlimited = wire.name === "messages" ? 4_096 : undefined
      assert.deepStrictEqual(asked.map(limitOf), [50, unlimited, 50])
    })
  )

  it.live("a limit above that of the model is the model's own", () =>
    Effect.gen(function* () {
      const { asked } = yield* ask(wire, [[say("ok")]], { max_tokens: 10_000_000 })
      assert.deepStrictEqual(asked.map(limitOf), [wire.name === "messages" ? 4_096 : 131_072])
    })
  )
})

const refusing = [
  { name: "chat", host: ChatHost, settings: openAi("chat", "gpt-5-mini"), effort: { reasoning_effort: "low" } },
  {
    name: "responses",
    host: ResponsesHost,
    settings: openAi("responses", "gpt-5-mini"),
    effort: { reasoning: { effort: "low" } }
  }
]

describe.each(refusing)("a model that reasons, over $name", (wire) => {
  it.live("is not told what it refuses to be told, and the answer names the fields", () =>
    Effect.gen(function* () {
      const { reasoning_effort: effort, seed, stop, temperature, top_p } = sent
      const fields = { temperature, top_p, stop, seed, reasoning_effort: effort }
      const chat = yield* ask(wire, [[say("ok")]], fields)
      assert.strictEqual(chat.answer.status, 200)
      assert.deepStrictEqual(chat.asked, [wire.effort])
      assert.strictEqual(chat.answer.headers.get("x-bowline-ignored"), "temperature, top_p, stop, seed")
      const response = yield* ask(wire, [[say("ok")]], { temperature, top_p, reasoning: { effort } }, "responses")
      assert.strictEqual(response.answer.status, 200)
      assert.deepStrictEqual(response.asked, [wire.effort])
      assert.strictEqual(response.answer.headers.get("x-bowline-ignored"), "temperature, top_p")
    })
  )

  it.live("gives way to one that does not reason, which is told all but how much it should", () =>
    Effect.gen(function* () {
      const named = { ...wire, settings: (url: string) => ({ ...wire.settings(url), BOWLINE_MODEL: "openai/gpt-4.1" }) }
      const { answer, asked } = yield* ask(
        named,
        [[say("ok")]],
        { temperature: 0, reasoning: { effort: "low" } },
        "responses"
      )
      assert.deepStrictEqual(asked, [{ temperature: 0 }])
      assert.strictEqual(answer.headers.get("x-bowline-ignored"), "reasoning.effort")
    })
  )
})
