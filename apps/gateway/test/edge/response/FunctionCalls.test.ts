import { results } from "@bowline/testing/unstable/provider/Script"
import { stall } from "@bowline/testing/http/Move"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"

const responses = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).responses

const pick = {
  type: "function" as const,
  name: "pick",
  description: "Lets the person choose",
  parameters: { type: "object", properties: { among: { type: "integer" } }, required: ["among"] },
  strict: false
}
const ask = { model: "bowline", input: "Which one?", tools: [pick] }

/** Calls the tool twice, and then says what came of it. */
const twice = (asked: Parameters<typeof results>[0]) =>
  results(asked).length === 0
    ? [
        say("Hm."),
        callTool("pick", { among: 3 }),
        callTool("pick", { among: 4 }),
        usage({ input_tokens: 10, output_tokens: 2 })
      ]
    : [say(results(asked).join()), usage({ input_tokens: 20, output_tokens: 3 })]

type Response = Pick<OpenAI.Responses.Response, "id" | "output">

const callsOf = ({ output }: Response) => output.flatMap((item) => (item.type === "function_call" ? [item] : []))

/** What follows a response: a result for each of its calls. */
const behind = (response: Response, output: string, calls = callsOf(response)) => ({
  ...ask,
  previous_response_id: response.id,
  input: calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output }))
})

const create = (url: string, body: OpenAI.Responses.ResponseCreateParamsNonStreaming) =>
  Effect.promise(() => responses(url).create(body))
const retrieve = (url: string, id: string) => Effect.promise(() => responses(url).retrieve(id))

describe("functions of a client of Responses", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are called by it: each of its answers goes on with the plan, and is a response (${name})`, () =>
      Effect.gen(function* () {
        const { provider, url } = yield* startOn(store)(twice)
        const first = yield* create(url, ask)
        assert.strictEqual(first.status, "completed")
        assert.deepStrictEqual(
          callsOf(first).map(({ arguments: text, name, status }) => [name, text, status]),
          [
            ["pick", `{"among":3}`, "completed"],
            ["pick", `{"among":4}`, "completed"]
          ]
        )
        assert.strictEqual(first.usage?.total_tokens, 12)
        assert.deepInclude(yield* retrieve(url, first.id), { status: "completed", output: first.output })

        const half = yield* post(`${url}/v1/responses`, behind(first, "red", callsOf(first).slice(0, 1)))
        assert.deepStrictEqual([half.status, (half.body["error"] as { readonly param: string }).param], [400, "input"])

        const second = yield* create(url, behind(first, "red"))
        assert.strictEqual(second.id, `${first.id}_2`)
        assert.deepInclude(second, { status: "completed", previous_response_id: first.id })
        assert.include(second.output_text, "red")
        assert.notInclude(second.output_text, "Hm.")
        assert.strictEqual(second.usage?.total_tokens, 23)
        assert.lengthOf(yield* provider.requests.all, 2)
        const again = yield* create(url, behind(first, "red"))
        assert.deepStrictEqual([again.id, again.output, again.status], [second.id, second.output, "completed"])
        const other = yield* post(`${url}/v1/responses`, behind(first, "blue"))
        assert.deepStrictEqual([other.status, (other.body["error"] as { code: string }).code], [409, "task_settled"])
        assert.lengthOf(yield* provider.requests.all, 2)

        for (const one of [first, second]) {
          const { output, status, usage } = yield* retrieve(url, one.id)
          assert.deepStrictEqual(
            { output, status, usage },
            { output: one.output, status: one.status, usage: one.usage }
          )
        }
        const unknown = yield* send(`${url}/v1/responses/${first.id}_3`)
        assert.strictEqual(unknown.status, 404)
        yield* Effect.promise(() => responses(url).delete(second.id))
        for (const { id } of [first, second]) assert.strictEqual((yield* send(`${url}/v1/responses/${id}`)).status, 404)
      }).pipe(Effect.scoped)
    )
  }

  it.live("are streamed as any other item, and the replay of each response is the same", () =>
    Effect.gen(function* () {
      const { url } = yield* start(twice)
      const read = (stream: AsyncIterable<OpenAI.Responses.ResponseStreamEvent>) =>
        Effect.promise(async () => {
          const events: Array<OpenAI.Responses.ResponseStreamEvent> = []
          for await (const event of stream) events.push(event)
          return events
        })
      const stream = (body: object) =>
        Effect.flatMap(
          Effect.promise(() => responses(url).create({ ...ask, ...body, stream: true })),
          read
        )
      const again = (id: string) =>
        Effect.flatMap(
          Effect.promise(() => responses(url).retrieve(id, { stream: true })),
          read
        )
      const first = yield* stream({})
      const last = first.at(-1)
      if (last?.type !== "response.completed") return assert.fail(last?.type)
      const types = first.map(({ type }) => type)
      assert.include(types, "response.function_call_arguments.done")
      assert.deepStrictEqual(yield* again(last.response.id), first)
      const second = yield* stream(behind(last.response, "red"))
      const [created] = second
      if (created?.type !== "response.created") return assert.fail(created?.type)
      assert.strictEqual(created.response.id, `${last.response.id}_2`)
      assert.strictEqual(second.at(-1)?.type, "response.completed")
      assert.deepStrictEqual(yield* again(created.response.id), second)
      assert.deepStrictEqual(yield* again(last.response.id), first)
      return undefined
    })
  )

  it.live("go on from a transcript, too, that the client keeps itself", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(twice)
      const first = yield* create(url, { ...ask, parallel_tool_calls: false, store: false })
      assert.lengthOf(callsOf(first), 1)
      assert.isFalse(first.parallel_tool_calls)
      const said: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Which one?" }]
      const given = (response: Response, output: string) => [
        ...response.output.filter(
          (item): item is OpenAI.Responses.ResponseFunctionToolCall => item.type === "function_call"
        ),
        ...behind(response, output).input
      ]
      const input = [...said, ...given(first, "red")]
      const unanswered = [...input.slice(0, -1), { role: "user" as const, content: "Never mind" }]
      const refused = yield* post(`${url}/v1/responses`, { ...ask, store: false, input: unanswered })
      assert.deepStrictEqual(
        [refused.status, (refused.body["error"] as { readonly param: string }).param],
        [400, "input"]
      )
      const second = yield* create(url, { ...ask, store: false, input })
      assert.lengthOf(callsOf(second), 1)
      const third = yield* create(url, { ...ask, store: false, input: [...input, ...given(second, "blue")] })
      for (const color of ["red", "blue"]) assert.include(third.output_text, color)
      assert.lengthOf(yield* provider.requests.all, 2)

      const fourth = yield* create(url, { ...ask, tools: [], input: [...input, ...given(second, "blue")] })
      const [, , asked] = yield* provider.requests.all
      assert.notInclude(fourth.id, third.id.slice(0, 20 + 24))
      for (const told of [`calls pick with`, "its result]\\nred"]) assert.include(asked?.body, told)
      const lost = yield* post(`${url}/v1/responses`, { ...behind(first, "red"), previous_response_id: undefined })
      assert.deepStrictEqual(
        [lost.status, (lost.body["error"] as { readonly param: string }).param],
        [400, "input[0].output"]
      )
    })
  )

  it.live("are cancelled with any response of their plan, and answered in the background", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) => (results(asked).length === 0 ? twice(asked) : [stall]))
      const { id } = yield* create(url, { ...ask, background: true })
      const first = yield* Effect.repeat(retrieve(url, id), { until: ({ status }) => status === "completed" })
      const second = yield* create(url, { ...behind(first, "red"), background: true })
      assert.deepInclude(second, { id: `${id}_2`, status: "in_progress", output: [] })
      yield* Effect.promise(() => responses(url).cancel(id))
      const ended = yield* Effect.repeat(retrieve(url, second.id), { until: ({ status }) => status !== "in_progress" })
      assert.strictEqual(ended.status, "cancelled")
      assert.strictEqual((yield* retrieve(url, id)).status, "completed")
    })
  )

  it.live("are refused by their own names", () =>
    Effect.gen(function* () {
      const { url } = yield* start(twice)
      const paramOf = (fields: object) =>
        Effect.map(
          post(`${url}/v1/responses`, { ...ask, ...fields }),
          ({ body }) => (body["error"] as { param: string }).param
        )
      const server = { type: "mcp", server_label: "a", server_url: "http://a.test" }
      assert.strictEqual(
        yield* paramOf({ tools: [server, { ...pick, parameters: { type: 7 } }] }),
        "tools[1].parameters"
      )
      assert.strictEqual(yield* paramOf({ tools: [{ ...pick, name: "a b" }] }), "tools[0].name")
      assert.strictEqual(yield* paramOf({ tools: [{ type: "web_search" }] }), "tools[0].type")
      assert.strictEqual(yield* paramOf({ tool_choice: "required" }), "tool_choice")
      assert.strictEqual(
        yield* paramOf({ input: [{ type: "function_call_output", call_id: "x", output: "y" }] }),
        "input"
      )
      // Nothing follows a response before its calls have their results: it would wait for as long as they do.
      const { id } = yield* create(url, ask)
      assert.strictEqual(yield* paramOf({ previous_response_id: id, input: "And now?" }), "input")
      // The gateway would give the plan its time to end.
      yield* post(`${url}/v1/responses/${id}/cancel`, {})
    })
  )
})
