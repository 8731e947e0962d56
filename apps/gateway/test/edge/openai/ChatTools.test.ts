import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { completes, works } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import type OpenAI from "openai"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { Cluster } from "../../plan/Cluster.ts"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"
import { client } from "./ChatClient.ts"

const tools = [
  {
    type: "function" as const,
    function: {
      name: "pick",
      description: "Lets the person choose",
      parameters: { type: "object", properties: { among: { type: "integer" } }, required: ["among"] }
    }
  }
]
const question = { role: "user" as const, content: "Which one?" }
const ask = { model: "bowline", messages: [question], tools }

type Completion = OpenAI.ChatCompletion

const callsOf = ({ choices }: Completion) => choices[0]?.message.tool_calls ?? []

/** The next request, with a result for each of these calls. */
const answered = (completion: Completion, content: (index: number) => string, calls = callsOf(completion)) => ({
  ...ask,
  messages: [
    question,
    { role: "assistant" as const, content: null, tool_calls: callsOf(completion) },
    ...calls.map(({ id }, index) => ({ role: "tool" as const, tool_call_id: id, content: content(index) }))
  ]
})

const complete = (url: string, body: OpenAI.ChatCompletionCreateParamsNonStreaming & { readonly bowline?: object }) =>
  Effect.promise(() => client(url).chat.completions.create(body))

/** Calls the tool twice, and then says what came of it. */
const twice = (asked: Parameters<typeof results>[0]) =>
  results(asked).length === 0
    ? [
        say("Let me ask."),
        callTool("pick", { among: 3 }),
        callTool("pick", { among: 4 }),
        usage({ input_tokens: 10, output_tokens: 2 })
      ]
    : [say(results(asked).join()), usage({ input_tokens: 20, output_tokens: 3 })]

const chat = (url: string, body: object, headers = {}) => post(`${url}/v1/chat/completions`, body, headers)

describe("tools of the client", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are called by the client, which goes on with the same plan (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)(twice)
        const first = yield* complete(url, ask)
        assert.deepNestedInclude(first.choices[0], {
          finish_reason: "tool_calls",
          "message.content": "Let me ask."
        })
        assert.deepStrictEqual(
          callsOf(first).map((call) => (call.type === "function" ? call.function : undefined)),
          [
            { name: "pick", arguments: `{"among":3}` },
            { name: "pick", arguments: `{"among":4}` }
          ]
        )
        assert.match(callsOf(first)[0]?.id ?? "", /^call_[0-9a-f-]{36}$/)
        assert.strictEqual(first.usage?.total_tokens, 12)

        const given = (count: number) => answered(first, () => "red", callsOf(first).slice(0, count))
        const besides = { role: "user" as const, content: "Never mind" }
        for (const count of [0, 1]) {
          const messages = [...given(count).messages, besides]
          const half = yield* chat(url, count === 0 ? { ...ask, messages } : given(count))
          assert.deepNestedInclude(half.body, { "error.param": "messages" })
          assert.strictEqual(half.status, 400)
          for (const { id } of callsOf(first).slice(count)) assert.include(half.text, id)
        }

        const [called] = callsOf(first)
        const contrary = { role: "tool", tool_call_id: called?.id, content: "green" }
        const messages = [...given(2).messages, contrary]
        const both = yield* chat(url, { ...ask, messages })
        assert.deepStrictEqual([both.status, String(called?.id)], [400, both.text.match(/call_[0-9a-f-]{36}/)?.[0]])

        const second = yield* complete(
          url,
          answered(first, (index) => ["red", "blue"][index] ?? "")
        )
        assert.strictEqual(second.id, first.id)
        assert.deepNestedInclude(second.choices[0], { finish_reason: "stop" })
        const content = second.choices[0]?.message.content
        for (const said of ["red", "blue"]) assert.include(content, said)
        assert.notInclude(content, "Let me ask.")
        assert.strictEqual(second.usage?.total_tokens, 23)
        assert.lengthOf(yield* provider.requests.all, 2)
        const late = { ...answered(first, (index) => ["red", "blue"][index] ?? ""), tools: [] }
        const again = yield* chat(url, late, { "x-stainless-retry-count": "1" })
        assert.deepStrictEqual([again.body["id"], again.headers.get("x-bowline-ignored")], [first.id, null])
        const plan = yield* send(`${url}/plans/${first.id.replace("chatcmpl-", "")}`)
        assert.deepNestedInclude(plan.body, { state: "completed", "usage.input_tokens": 30 })
        const next = yield* chat(url, { ...ask, messages: [...given(0).messages, besides] })
        assert.deepStrictEqual([next.status, next.body["id"] === first.id], [200, false])
        const left = String(next.body["id"]).replace("chatcmpl-", "")
        yield* send(`${url}/plans/${left}/cancel`, { method: "POST" })
      }).pipe(Effect.scoped)
    )
  }

  it.live("are not called where the request wants none, and cannot be demanded", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("ok")])
      const none = yield* complete(url, { ...ask, tool_choice: "none" })
      assert.strictEqual(none.choices[0]?.message.content, "ok")
      const [sent] = yield* provider.requests.all
      assert.notInclude(sent?.body, "pick")
      const named = { type: "function", function: { name: "pick" } }
      for (const tool_choice of ["required", named]) {
        assert.deepNestedInclude((yield* chat(url, { ...ask, tool_choice })).body, { "error.param": "tool_choice" })
      }
      const wrong = yield* chat(url, { ...ask, tools: [{ type: "custom", custom: { name: "x" } }] })
      assert.strictEqual(wrong.status, 400)
      const invalid = { type: "function", function: { name: "pick", parameters: { type: 7 } } }
      assert.deepNestedInclude((yield* chat(url, { ...ask, tools: [invalid] })).body, {
        "error.param": "tools[0].function.parameters"
      })
    })
  )

  it.live("come one at a time if the request wants it so", () =>
    Effect.gen(function* () {
      const { url } = yield* start(twice)
      const one = { ...ask, parallel_tool_calls: false }
      const first = yield* complete(url, one)
      assert.lengthOf(callsOf(first), 1)
      const second = yield* complete(url, { ...one, ...answered(first, () => "red") })
      assert.lengthOf(callsOf(second), 1)
      assert.strictEqual(second.choices[0]?.message.content, null)
      assert.strictEqual(second.usage?.total_tokens, 0)
      const third = yield* complete(url, { ...one, ...answered(second, () => "blue") })
      for (const said of ["red", "blue"]) assert.include(third.choices[0]?.message.content, said)
    })
  )

  it.live("hear the user behind their results", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) =>
        asked.messages.some(({ role }) => role === "tool") ? [say("Done.")] : twice(asked)
      )
      const first = yield* complete(url, ask)
      const next = answered(first, () => "red")
      const said = { ...next, messages: [...next.messages, { role: "user" as const, content: "Quickly!" }] }
      const [second, again] = [yield* complete(url, said), yield* chat(url, said, { "x-stainless-retry-count": "1" })]
      assert.deepStrictEqual(again.body["choices"], second.choices)
      const [, asked] = yield* provider.requests.all
      assert.include(asked?.body, "Quickly!")
      assert.lengthOf(yield* provider.requests.all, 2)
    })
  )

  it.live("are history where their plan is over, somebody else's, or unknown", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(
        (asked) => (JSON.stringify(asked.messages).includes("its result]") ? [say("ok")] : twice(asked)),
        { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
      )
      const as = (name: string, body: object, headers = {}) =>
        chat(url, body, { authorization: `Bearer key-of-${name}`, ...headers })
      const first = yield* as("ann", ask)
      const next = answered(first.body as unknown as Completion, () => "red")
      const foreign = yield* as("bob", next)
      assert.notStrictEqual(foreign.body["id"], first.body["id"])
      const second = yield* as("ann", next)
      assert.strictEqual(second.body["id"], first.body["id"])
      const third = yield* as("ann", next)
      assert.notStrictEqual(third.body["id"], first.body["id"])
      const { body = "" } = (yield* provider.requests.all).at(-1) ?? {}
      const { messages } = JSON.parse(body) as { readonly messages: ReadonlyArray<{ readonly content: string }> }
      assert.strictEqual(messages.at(-1)?.content, "Which one?")
      for (const told of [`calls pick with {\\"among\\":3}`, "its result]\\nred"]) assert.include(body, told)
      const unknown = [question, { role: "tool", tool_call_id: "call_7", content: "green" }]
      assert.strictEqual((yield* as("ann", { ...ask, messages: unknown })).status, 200)
    })
  )

  it.live("count one of two results that come at once", () =>
    Effect.gen(function* () {
      const { url } = yield* start(twice)
      const first = yield* complete(url, ask)
      const give = (content: string) =>
        chat(
          url,
          answered(first, () => content)
        )
      const both = yield* Effect.all([give("red"), give("blue")], { concurrency: 2 })
      assert.deepStrictEqual(
        both.map(({ status }) => status).sort((a, b) => a - b),
        [200, 409]
      )
      const [good, bad] = both[0].status === 200 ? both : both.toReversed()
      assert.deepNestedInclude(bad?.body, { "error.code": "task_settled" })
      assert.strictEqual(bad?.headers.get("x-should-retry"), "false")
      const won = both[0].status === 200 ? "red" : "blue"
      assert.include(good?.text, won)
      assert.notInclude(good?.text, won === "red" ? "blue" : "red")
    })
  )

  it.live("end the answer when those of the gateway have finished, whatever the client sees of them", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [works("300 millis"), completes("sun")] }).pipe(
        Effect.provide(LoopbackNetwork.layer)
      )
      const agent = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
      const { url } = yield* start((asked) =>
        results(asked).length === 0
          ? [callTool("pick", { among: 3 }), callTool("bob_ask", { input: "hi" }), usage({ input_tokens: 5 })]
          : [say(results(asked).join())]
      )
      const { text } = yield* chat(url, {
        ...ask,
        bowline: { agents: [agent] },
        stream: true,
        stream_options: { include_usage: true }
      })
      const [progress, calls] = [text.indexOf("✓ bob.ask"), text.indexOf(`"tool_calls":[{"index":0,"id":"call_`)]
      assert.isTrue(progress > 0 && progress < calls, text)
      assert.notInclude(text, "→ pick")
      assert.match(
        text,
        /"finish_reason":"tool_calls"[^]*"choices":\[\],"usage":\{"prompt_tokens":5[^]*data: \[DONE\]\n\n$/
      )
      const id = /call_[0-9a-f-]{36}/.exec(text)?.[0] ?? ""
      const next = { ...ask, messages: [question, { role: "tool", tool_call_id: id, content: "red" }] }
      const { body } = yield* chat(url, next)
      assert.include(JSON.stringify(body), "sun")
    })
  )

  it.live("wait without a reader, until the client that comes back with the results leaves", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) =>
        results(asked).length === 0 ? twice(asked) : [say("Well, "), stall]
      )
      const first = yield* complete(url, { ...ask, bowline: { preferences: { disconnect_grace_ms: 0 } } })
      const plan = `${url}/plans/${first.id.replace("chatcmpl-", "")}`
      assert.deepInclude((yield* send(plan)).body, { state: "running", stage: "client" })
      const stream = yield* Effect.promise(() =>
        client(url).chat.completions.create({ ...answered(first, () => "red"), stream: true })
      )
      const [, asked] = yield* provider.requests.awaitCount(2)
      assert.deepInclude((yield* send(plan)).body, { state: "running" })
      stream.controller.abort()
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
      const { body } = yield* Effect.repeat(send(plan), { until: ({ body }) => body["state"] !== "running" })
      assert.deepNestedInclude(body, { state: "aborted", "error.reason": "disconnect" })
    })
  )
})

it.live("a plan that waits for its client outlives its gateway, and goes on at another one", () =>
  Effect.gen(function* () {
    const { answer, gateways } = yield* Cluster
    const [here, there] = gateways
    if (here === undefined || there === undefined) return assert.fail()
    answer("Which one?", twice)
    const first = yield* complete(here.url, ask)
    process.kill(here.pid, "SIGKILL")
    const plan = `${there.url}/plans/${first.id.replace("chatcmpl-", "")}`
    // Longer than a plan that was taken over waits for its readers.
    yield* Effect.sleep("4 seconds")
    assert.deepInclude((yield* send(plan)).body, { state: "running", stage: "client" })
    const second = yield* complete(
      there.url,
      answered(first, () => "red")
    )
    assert.deepNestedInclude(second.choices[0], { finish_reason: "stop" })
    assert.strictEqual(second.id, first.id)
  }).pipe(
    Effect.provide(
      Layer.unwrap(
        Effect.map(folderOf({ "bowline.yaml": "streams: { takeover_grace: 1s }" }), (folder) =>
          Cluster.layer(2, { BOWLINE_LEASE_TTL: "1s", BOWLINE_CONFIG: join(folder, "bowline.yaml") })
        )
      )
    )
  )
)
