import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { stall } from "@bowline/testing/http/Move"
import { say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { post, send, start } from "../../http/RunningGateway.ts"

const responses = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).responses

const isSummary = ({ system }: Asked) => system.startsWith("You keep the memory")
const long = (text: string) => `${text} ${"word ".repeat(450)}`
/** The first word of each message, and the type of everything else. */
const textsIn = (output: ReadonlyArray<OpenAI.Responses.ResponseOutputItem>) =>
  output.map((item) => {
    const [part] = item.type === "message" ? item.content : []
    return part !== undefined && "text" in part ? part.text.split(" ")[0] : item.type
  })

const small = { BOWLINE_MODEL: "openai/planner", BOWLINE_CONTEXT_WINDOW: "4000" }

describe("a conversation of Responses", () => {
  it.live(
    "is compacted by an unchanged client, and goes on from the items that it gets, also without its session",
    () =>
      Effect.gen(function* () {
        const { provider, url } = yield* start((asked) => {
          if (isSummary(asked)) return [say("FACT 4711"), usage({ input_tokens: 900, output_tokens: 100 })]
          return JSON.stringify(asked.messages.at(-1)).includes("Wait") ? [stall] : [say("fine")]
        }, small)
        const client = responses(url)
        const create = (body: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>) =>
          Effect.promise(() => client.create({ model: "bowline", ...body }))
        const first = yield* create({ input: long("one") })
        const second = yield* create({ input: long("two"), previous_response_id: first.id })
        const third = yield* create({ input: long("three"), previous_response_id: second.id })
        const before = yield* Effect.promise(() =>
          client.inputTokens.count({ model: "bowline", input: "What now?", previous_response_id: third.id })
        )
        const unnamed = yield* post(`${url}/v1/responses/compact`, { model: "bowline", input: "" })
        assert.deepInclude(unnamed.body["error"], { code: "invalid_request", param: "input" })
        // One that is not the last is compacted as a branch of it would be: its conversation stays.
        const earlier = { model: "bowline", previous_response_id: second.id }
        const branched = yield* Effect.promise(() => client.compact({ ...earlier, input: long("four") }))
        assert.deepStrictEqual(textsIn(branched.output), ["compaction", "four"])

        const last = { model: "bowline", previous_response_id: third.id }
        const { object, output, usage: used } = yield* Effect.promise(() => client.compact(last))
        assert.strictEqual(object, "response.compaction")
        assert.deepInclude(used, { input_tokens: 900, output_tokens: 100, total_tokens: 1_000 })
        assert.deepStrictEqual(
          output.map(({ type }) => type),
          ["compaction", "message", "message"]
        )
        const after = yield* Effect.promise(() =>
          client.inputTokens.count({ model: "bowline", input: "What now?", previous_response_id: third.id })
        )
        assert.isBelow(after.input_tokens, before.input_tokens)
        const question = { role: "user" as const, content: "What now?" }
        yield* create({ input: [...(output as OpenAI.Responses.ResponseInputItem[]), question] })
        const { messages, system } = yield* Effect.flatMap(provider.requests.all, (all) =>
          ChatHost.asked(all.at(-1) ?? assert.fail())
        )
        assert.include(system, "FACT 4711")
        assert.deepStrictEqual(
          messages.map((message) => "text" in message && message.text.split(" ")[0]),
          ["three", "fine", "What"]
        )
        // A branch has the summary that the response began with, and one of the input besides.
        const fourth = yield* create({ input: "And?", previous_response_id: third.id })
        const behind = { previous_response_id: fourth.id }
        yield* create({ input: "Left?", ...behind })
        const encrypted_content = Buffer.from("FACT 42").toString("base64url")
        yield* create({ input: [{ type: "compaction", encrypted_content }, question], ...behind })
        const branch = yield* Effect.flatMap(provider.requests.all, (all) =>
          ChatHost.asked(all.at(-1) ?? assert.fail())
        )
        for (const fact of ["FACT 4711", "FACT 42"]) assert.include(branch.system, fact)
        const { id } = yield* create({ input: "Wait", background: true })
        const running = { model: "bowline", previous_response_id: id, input: "?" }
        const early = yield* post(`${url}/v1/responses/compact`, running)
        assert.deepInclude(early.body["error"], { code: "session_busy" })
        yield* Effect.promise(() => client.cancel(id))
        const forged = [{ type: "compaction", encrypted_content: "*" }, question]
        const wrong = yield* post(`${url}/v1/responses`, { model: "bowline", input: forged })
        assert.deepInclude(wrong.body["error"], { param: "input[0].encrypted_content" })
      })
  )

  it.live("is compacted where its client keeps it: its calls stay whole, and nothing is stored", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) => [say(isSummary(asked) ? "FACT 4711" : "fine")], small)
      const client = responses(url)
      const call = { call_id: "call_1", name: "pick", arguments: '{"knot":"bowline"}' }
      const mcp = { id: "mcp_1", server_label: "shop", name: "find", arguments: "{}", output: long("rope") }
      const encrypted_content = Buffer.from("FACT 42").toString("base64url")
      const input = [
        { role: "developer", content: "Be brief." },
        { type: "compaction", encrypted_content },
        { role: "user", content: long("one") },
        { type: "mcp_list_tools", id: "mcpl_1", server_label: "shop", tools: [] },
        { type: "mcp_approval_response", approval_request_id: "mcpr_1", approve: true },
        { type: "mcp_call", ...mcp },
        { role: "assistant", content: long("two") },
        { role: "user", content: long("three") },
        { type: "function_call", ...call },
        { type: "function_call_output", call_id: "call_1", output: "tied" },
        { role: "assistant", content: "four" }
      ] as ReadonlyArray<OpenAI.Responses.ResponseInputItem>
      const { data, response } = yield* Effect.promise(() =>
        client.compact({ model: "bowline", input: [...input], prompt_cache_key: "desk" }).withResponse()
      )
      assert.strictEqual(
        response.headers.get("x-bowline-ignored"),
        "prompt_cache_key, input[].mcp_list_tools, input[].mcp_approval_response"
      )
      const { output, usage: used } = data
      assert.deepStrictEqual<unknown>(output[0], input[0])
      assert.deepStrictEqual(textsIn(output.slice(1)), [
        "compaction",
        "three",
        "function_call",
        "function_call_output",
        "four"
      ])
      assert.deepInclude(output[3], call)
      assert.strictEqual(used.total_tokens, 0)
      const [asked] = yield* Effect.flatMap(provider.requests.all, (all) => Effect.forEach(all, ChatHost.asked))
      const told = JSON.stringify(asked)
      for (const text of ["FACT 42", "rope", "two"]) assert.include(told, text)
      assert.deepInclude((yield* send(`${url}/sessions`)).body, { sessions: [] })

      // A few messages stay as they are.
      const few = yield* Effect.promise(() => client.compact({ model: "bowline", input: "Hello" }))
      assert.deepStrictEqual([textsIn(few.output), few.usage.total_tokens], [["Hello"], 0])
      const wrong = [{ role: "user", content: "?" }, { type: "web_search_call" }, { type: "mcp_call", id: "mcp_1" }]
      const refused = yield* post(`${url}/v1/responses/compact`, { model: "bowline", input: wrong })
      assert.deepInclude(refused.body["error"], { param: "input[2].server_label" })
    })
  )

  it.live("says how many tokens a response would begin with: all that is told, but no tools of agents", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([])
      const count = Effect.fnUntraced(function* (fields: object) {
        const { body } = yield* post(`${url}/v1/responses/input_tokens`, { model: "bowline", input: "?", ...fields })
        assert.strictEqual(body["object"], "response.input_tokens")
        return body["input_tokens"] as number
      })
      const bare = yield* count({})
      const tool = { type: "function", name: "pick", description: "Picks a knot", parameters: { type: "object" } }
      const fields = [
        { instructions: "Be brief." },
        { tools: [tool] },
        { text: { format: { type: "json_schema", name: "knot", schema: { type: "object" } } } },
        {
          input: [
            { role: "user", content: "one" },
            { role: "assistant", content: "two" },
            { role: "user", content: "?" }
          ]
        }
      ]
      for (const one of fields) assert.isAbove(yield* count(one), bare, JSON.stringify(one))
      const wrong = yield* post(`${url}/v1/responses/input_tokens`, {
        model: "bowline",
        input: [],
        tool_choice: "required"
      })
      assert.strictEqual(wrong.status, 400)
      assert.lengthOf(yield* provider.requests.all, 0)
      assert.deepInclude((yield* send(`${url}/plans`)).body, { plans: [] })
    })
  )
})
