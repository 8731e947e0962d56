import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Asked } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { post, send, start } from "../../http/RunningGateway.ts"

const responses = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).responses

const isSummary = ({ system }: Asked) => system.startsWith("You keep the memory")
const long = (text: string) => `${text} ${"word ".repeat(450)}`
const small = { BOWLINE_MODEL: "openai/planner", BOWLINE_CONTEXT_WINDOW: "4000" }

describe("a conversation of Responses", () => {
  it.live(
    "is compacted by an unchanged client, and goes on from the items that it gets, also without its session",
    () =>
      Effect.gen(function* () {
        const { provider, url } = yield* start((asked) => [say(isSummary(asked) ? "FACT 4711" : "fine")], small)
        const client = responses(url)
        const create = (body: Partial<OpenAI.Responses.ResponseCreateParamsNonStreaming>) =>
          Effect.promise(() => client.create({ model: "bowline", ...body }))
        const first = yield* create({ input: long("one") })
        const second = yield* create({ input: long("two"), previous_response_id: first.id })
        const third = yield* create({ input: long("three"), previous_response_id: second.id })
        const before = yield* Effect.promise(() =>
          client.inputTokens.count({ model: "bowline", input: "What now?", previous_response_id: third.id })
        )
        const earlier = { model: "bowline", previous_response_id: second.id }
        const refused = yield* post(`${url}/v1/responses/compact`, earlier)
        assert.deepInclude(refused.body["error"], { param: "previous_response_id" })
        const unnamed = yield* post(`${url}/v1/responses/compact`, { model: "bowline", input: "?" })
        assert.deepInclude(unnamed.body["error"], { code: "invalid_request", param: "previous_response_id" })

        const last = { model: "bowline", previous_response_id: third.id }
        const { object, output } = yield* Effect.promise(() => client.compact(last))
        assert.strictEqual(object, "response.compaction")
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
        const forged = [{ type: "compaction", encrypted_content: "*" }, question]
        const wrong = yield* post(`${url}/v1/responses`, { model: "bowline", input: forged })
        assert.deepInclude(wrong.body["error"], { param: "input[0].encrypted_content" })
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
