import { createOpenResponses } from "@ai-sdk/open-responses"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say, think, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { generateText, jsonSchema, streamText, tool } from "ai"
import * as six from "ai-6"
import { createOpenResponses as createOpenResponsesOfSix } from "ai-sdk-open-responses-1"
import { Effect, Schema } from "effect"
import type { Response as OpenAiResponse } from "openai/resources/responses/responses"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { post, send, start } from "../../http/RunningGateway.ts"

const NullOr = Schema.NullOr
const Status = Schema.Literals(["in_progress", "completed", "incomplete"])
const { Boolean, Int, Record, String: Text, Struct } = Schema
const List = Schema.Array

const OutputText = Struct({
  type: Schema.tag("output_text"),
  text: Text,
  annotations: List(Schema.Json),
  logprobs: List(Schema.Json)
})
const SummaryText = Struct({ type: Schema.tag("summary_text"), text: Text })

/** The items of the specification's core. Those of other types, such as `mcp_call`, are extensions of it. */
const Item = Schema.Union([
  Struct({
    type: Schema.tag("message"),
    id: Text,
    status: Status,
    role: Schema.tag("assistant"),
    content: List(OutputText),
    phase: Schema.optionalKey(Schema.Literals(["commentary", "final_answer"]))
  }),
  Struct({
    type: Schema.tag("function_call"),
    id: Text,
    call_id: Text.check(Schema.isBetweenLength(1, 64)),
    name: Text,
    arguments: Text,
    status: Status
  }),
  Struct({ type: Schema.tag("reasoning"), id: Text, summary: List(SummaryText) })
])

/** What Open Responses asks of a response: each of these fields has to be there. */
const Response = Struct({
  id: Text,
  object: Schema.tag("response"),
  created_at: Int,
  completed_at: NullOr(Int),
  status: Text,
  incomplete_details: NullOr(Struct({ reason: Text })),
  model: Text,
  previous_response_id: NullOr(Text),
  instructions: NullOr(Text),
  output: List(Item),
  error: NullOr(Struct({ code: Text, message: Text })),
  tools: List(
    Struct({
      type: Schema.tag("function"),
      name: Text,
      description: NullOr(Text),
      parameters: NullOr(Record(Text, Schema.Json)),
      strict: NullOr(Boolean)
    })
  ),
  tool_choice: Schema.Literals(["auto", "none", "required"]),
  truncation: Schema.Literals(["auto", "disabled"]),
  parallel_tool_calls: Boolean,
  text: Struct({ format: Struct({ type: Text }) }),
  top_p: Schema.Finite,
  presence_penalty: Schema.Finite,
  frequency_penalty: Schema.Finite,
  top_logprobs: Int,
  temperature: Schema.Finite,
  reasoning: NullOr(Struct({ effort: NullOr(Text), summary: NullOr(Text) })),
  user: NullOr(Text),
  usage: NullOr(
    Struct({
      input_tokens: Int,
      output_tokens: Int,
      total_tokens: Int,
      input_tokens_details: Struct({ cached_tokens: Int }),
      output_tokens_details: Struct({ reasoning_tokens: Int })
    })
  ),
  max_output_tokens: NullOr(Int),
  max_tool_calls: NullOr(Int),
  store: Boolean,
  background: Boolean,
  service_tier: Text,
  metadata: Record(Text, Text),
  safety_identifier: NullOr(Text),
  prompt_cache_key: NullOr(Text)
})

const event = <Type extends string, Fields extends Schema.Struct.Fields>(types: ReadonlyArray<Type>, fields: Fields) =>
  Struct({ type: Schema.Literals(types), sequence_number: Int, ...fields })

const at = { item_id: Text, output_index: Int }

const Event = Schema.Union([
  event(["response.created", "response.queued", "response.in_progress", "response.completed"], { response: Response }),
  event(["response.output_item.added", "response.output_item.done"], { output_index: Int, item: Item }),
  event(["response.content_part.added", "response.content_part.done"], { ...at, content_index: Int, part: OutputText }),
  event(["response.output_text.delta"], { ...at, content_index: Int, delta: Text, logprobs: List(Schema.Json) }),
  event(["response.output_text.done"], { ...at, content_index: Int, text: Text, logprobs: List(Schema.Json) }),
  event(["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"], {
    ...at,
    summary_index: Int,
    part: SummaryText
  }),
  event(["response.reasoning_summary_text.delta"], { ...at, summary_index: Int, delta: Text }),
  event(["response.reasoning_summary_text.done"], { ...at, summary_index: Int, text: Text }),
  event(["response.function_call_arguments.delta"], { ...at, delta: Text }),
  event(["response.function_call_arguments.done"], { ...at, arguments: Text })
])

/** What a response has of the newest client's type. A field that is new there is an error here, until somebody decides. */
const fields: Readonly<Record<Exclude<keyof OpenAiResponse, "output_text">, "given" | "null" | "absent">> = {
  id: "given",
  access_programs: "null",
  created_at: "given",
  error: "given",
  incomplete_details: "given",
  instructions: "given",
  metadata: "given",
  model: "given",
  object: "given",
  output: "given",
  parallel_tool_calls: "given",
  temperature: "given",
  tool_choice: "given",
  tools: "given",
  top_p: "given",
  background: "given",
  completed_at: "given",
  conversation: "given",
  image: "absent",
  input_transformations: "absent",
  max_output_tokens: "given",
  max_tool_calls: "given",
  moderation: "null",
  previous_response_id: "given",
  prompt: "null",
  prompt_cache_diagnostics: "absent",
  prompt_cache_key: "given",
  prompt_cache_options: "absent",
  prompt_cache_retention: "null",
  reasoning: "given",
  safety_identifier: "given",
  service_tier: "given",
  status: "given",
  text: "given",
  tool_usage: "absent",
  top_logprobs: "given",
  truncation: "given",
  usage: "given",
  user: "given"
}

const decodeResponse = Schema.decodeUnknownSync(Response)
const decodeEvent = Schema.decodeUnknownSync(Schema.fromJsonString(Event))

const weather = {
  type: "function",
  name: "get_weather",
  description: "Get the weather of a place",
  parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"] }
}
const user = (content: string) => ({ type: "message", role: "user", content })

/** What the specification's own test cases ask for. */
const cases = {
  "a text": { input: [user("Say hello in three words.")] },
  "a system message": { input: [{ type: "message", role: "system", content: "Talk like a pirate." }, user("Hello?")] },
  "a function": { input: [user("How is the weather in Oslo?")], tools: [weather] },
  "several turns": {
    input: [user("My name is Ann."), { type: "message", role: "assistant", content: "Hello Ann" }, user("Who am I?")]
  },
  "every field": {
    input: "Hello?",
    instructions: "Be brief.",
    temperature: 0.5,
    top_p: 0.25,
    prompt_cache_key: "desk",
    service_tier: "flex",
    reasoning: { effort: "low" },
    metadata: { k: "v" },
    user: "ann",
    safety_identifier: "a1",
    tool_choice: "none",
    max_output_tokens: 50,
    max_tool_calls: 3,
    store: true,
    parallel_tool_calls: false,
    truncation: "disabled",
    text: { format: { type: "text" } }
  }
}

// The function waits for its client to the end.
const asked = start(
  (request) =>
    request.tools.some(({ name }) => name === "get_weather") && results(request).length === 0
      ? [callTool("get_weather", { place: "Oslo" })]
      : [think("Hm."), say("Hel"), say("lo"), usage({ input_tokens: 3, output_tokens: 2 })],
  { BOWLINE_SHUTDOWN_GRACE: "0s" }
)

describe("the resource of Open Responses", () => {
  it.live("is what each answer is, and each event of a stream", () =>
    Effect.gen(function* () {
      const { url } = yield* asked
      for (const [name, body] of Object.entries(cases)) {
        const { status, text } = yield* post(`${url}/v1/responses`, { model: "bowline", ...body })
        assert.strictEqual(status, 200, text)
        const response = decodeResponse(JSON.parse(text))
        assert.strictEqual(response.status, "completed")
        assert.include(
          response.output.map(({ type }) => type),
          name === "a function" ? "function_call" : "message"
        )
        const stored = yield* send(`${url}/v1/responses/${response.id}`)
        assert.deepStrictEqual(decodeResponse(stored.body), response)

        const streamed = yield* post(`${url}/v1/responses`, { model: "bowline", ...body, stream: true })
        const events = Array.from(streamed.text.matchAll(/^data: (.*)$/gm), ([, data]) => decodeEvent(data))
        assert.deepStrictEqual(
          events.map(({ sequence_number }) => sequence_number),
          events.map((_, index) => index)
        )
        const last = events.at(-1)
        const told = last !== undefined && "response" in last ? last.response : assert.fail()
        assert.deepStrictEqual(
          told.output.map(({ type }) => type),
          response.output.map(({ type }) => type)
        )
      }
    })
  )

  it.live(
    "repeats what was asked for, has the protocol's own values in place of the rest, and every field but those that the reference names",
    () =>
      Effect.gen(function* () {
        const { url } = yield* asked
        const answerTo = (body: object) =>
          Effect.map(post(`${url}/v1/responses`, { model: "bowline", ...body }), ({ text }) =>
            decodeResponse(JSON.parse(text))
          )
        assert.deepInclude(yield* answerTo(cases["every field"]), {
          temperature: 0.5,
          top_p: 0.25,
          prompt_cache_key: "desk",
          service_tier: "flex",
          tool_choice: "none",
          parallel_tool_calls: false
        })
        assert.deepInclude(yield* answerTo(cases["a text"]), {
          temperature: 1,
          top_p: 1,
          presence_penalty: 0,
          frequency_penalty: 0,
          top_logprobs: 0,
          prompt_cache_key: null,
          service_tier: "default",
          tool_choice: "auto",
          parallel_tool_calls: true
        })
        const { text: bare } = yield* post(`${url}/v1/responses`, { model: "bowline", ...cases["a text"] })
        const reference = readFileSync(join(import.meta.dirname, "../../../../../docs/reference/openai.md"), "utf8")
        const [, section = ""] = reference.split("#### Fields that say nothing")
        const named =
          section
            .split("\n### ")[0]
            ?.match(/^\|.*$/gm)
            ?.join("\n") ?? ""
        for (const [field, kind] of Object.entries(fields)) {
          const found = JSON.parse(bare) as object
          if (kind === "absent") assert.notProperty(found, field)
          else if (kind === "null") assert.deepInclude(found, { [field]: null })
          else assert.property(found, field)
          assert.strictEqual(named.includes(`\`${field}\``), kind !== "given", `${field} in the reference`)
        }
        const { tools } = yield* answerTo({ ...cases["a function"], tools: [{ type: "function", name: "bare" }] })
        assert.deepStrictEqual(tools, [
          { type: "function", name: "bare", description: null, parameters: null, strict: null }
        ])
      })
  )

  it.live("is read by an unchanged client of the specification, which calls its own function", () =>
    Effect.gen(function* () {
      const { url } = yield* asked
      const model = createOpenResponses({ name: "bowline", url: `${url}/v1/responses`, apiKey: "none" })("bowline")
      const whole = yield* Effect.promise(() => generateText({ model, prompt: "?" }))
      const former = createOpenResponsesOfSix({ name: "bowline", url: `${url}/v1/responses`, apiKey: "none" })
      const told = yield* Effect.promise(() => six.generateText({ model: former("bowline"), prompt: "?" }))
      // It does not read reasoning.
      assert.deepStrictEqual([told.text, told.usage.totalTokens], ["Hello", 5])
      assert.deepStrictEqual([whole.text, whole.finalStep.reasoningText, whole.usage.totalTokens], ["Hello", "Hm.", 5])
      const places: Array<unknown> = []
      const get_weather = tool({
        inputSchema: jsonSchema({ type: "object" }),
        execute: async (input) => {
          places.push(input)
          return "rain"
        }
      })
      const streamed = yield* Effect.promise(async () => {
        const answer = streamText({
          model,
          prompt: "How is the weather?",
          tools: { get_weather },
          stopWhen: ({ steps }) => steps.length === 2
        })
        return answer.text
      })
      assert.deepStrictEqual([streamed, places], ["Hello", [{ place: "Oslo" }]])
    })
  )
})
