import type { ResponseFormat } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { decode } from "../../../src/edge/openai/ChatRequest.ts"

const user = (content: unknown) => ({ role: "user", content })
const ask = { model: "bowline", messages: [user("?")] }

const wrong = (fields: object) => {
  const result = decode({ ...ask, ...fields })
  return Result.isFailure(result) ? result.failure.map(({ path }) => path) : []
}

const read = (fields: object) => Result.getOrThrow(decode({ ...ask, ...fields }))

describe("a request of Chat Completions", () => {
  it("asks its last message; the earlier ones are history, and the system's are instructions", () => {
    const { ignored, request } = read({
      messages: [
        { role: "system", content: "Be brief." },
        user([
          { type: "text", text: "one" },
          { type: "text", text: "two" }
        ]),
        { role: "assistant", content: null, tool_calls: [] },
        { role: "tool", content: "3", tool_call_id: "c" },
        { role: "assistant", content: "yes", refusal: null },
        { role: "developer", content: [{ type: "text", text: "In English." }] },
        user("and now?")
      ]
    })
    assert.strictEqual(request.question, "and now?")
    assert.strictEqual(request.instructions, "Be brief.\n\nIn English.")
    assert.deepStrictEqual(request.history, [
      { role: "user", content: "one\n\ntwo" },
      { role: "user", content: "[c: its result]\n3" },
      { role: "assistant", content: "yes" }
    ])
    assert.deepStrictEqual(ignored, [])
  })

  it("may end with instructions: the question is what stands before them", () => {
    const { request } = read({ messages: [user("one"), user("two"), { role: "system", content: "Be brief." }] })
    assert.deepStrictEqual(
      [request.question, request.history, request.instructions],
      ["two", [{ role: "user", content: "one" }], "Be brief."]
    )
  })

  it("is told what to do where it begins the answer itself", () => {
    const begun = decode({ ...ask, messages: [user("?"), { role: "assistant", content: "{" }] })
    assert.include(Result.isFailure(begun) ? begun.failure[0]?.message : "", "say in a system message how")
  })

  const formats: ReadonlyArray<readonly [string, object, ResponseFormat]> = [
    ["text", { type: "text" }, "text"],
    ["any object", { type: "json_object" }, { type: "json_schema", schema: { type: "object" } }],
    [
      "a schema",
      { type: "json_schema", json_schema: { name: "n", strict: true, schema: { type: "array" } } },
      { type: "json_schema", schema: { type: "array" } }
    ]
  ]
  it.each(formats)("may want %s", (_, response_format, expected) => {
    assert.deepStrictEqual(read({ response_format }).request.preferences, { response_format: expected })
  })

  it("has room for the user in its metadata, unless that is full", () => {
    const named = { user: "u", safety_identifier: "s" }
    assert.deepStrictEqual(read({ ...named, metadata: { a: "1" } }).request.metadata, { a: "1", ...named })
    const full = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, "v"]))
    const { ignored, request } = read({ ...named, metadata: full })
    assert.deepStrictEqual([request.metadata, ignored], [full, ["user", "safety_identifier"]])
  })

  it("says how the model is to answer: one text to stop at is a list, and the newer name of the limit counts", () => {
    const said = { temperature: 0, top_p: 1, seed: -7, reasoning_effort: "none" }
    const { ignored, request } = read({ ...said, stop: "END", max_tokens: 1, max_completion_tokens: 2 })
    assert.deepStrictEqual<unknown>(request.sampling, { ...said, stop: ["END"], max_tokens: 2 })
    assert.isEmpty(ignored)
    assert.deepStrictEqual(read({ max_tokens: 1, max_completion_tokens: null }).request.sampling, { max_tokens: 1 })
    assert.isUndefined(read({ temperature: null, stop: [], seed: null }).request.sampling)
  })

  it("names the fields that change nothing, and takes null for a field that is not there", () => {
    const nothing = { n: 1, tools: null, tool_choice: "auto", modalities: ["text"], logit_bias: {}, logprobs: false }
    const { ignored } = read({
      ...nothing,
      stream: null,
      store: true,
      service_tier: "auto",
      frequency_penalty: 1,
      x: {}
    })
    assert.deepStrictEqual(ignored, ["frequency_penalty", "x"])
  })

  it.each([
    [{ n: 2 }, ["n"]],
    [{ tools: [{ type: "function" }] }, ["tools[0].function"]],
    [{ functions: [{}] }, ["functions"]],
    [{ tool_choice: "required" }, ["tool_choice"]],
    [{ logprobs: true }, ["logprobs"]],
    [{ logit_bias: { 1: 2 } }, ["logit_bias"]],
    [{ audio: {} }, ["audio"]],
    [{ modalities: ["text", "audio"] }, ["modalities"]],
    [{ prediction: {} }, ["prediction"]],
    [{ web_search_options: {} }, ["web_search_options"]],
    [{ messages: [] }, ["messages"]],
    [{ messages: [user("?"), { role: "assistant", content: "no" }] }, ["messages"]],
    [{ messages: [user(" ")] }, ["messages"]],
    [{ messages: [user([{ type: "image_url", image_url: { url: "x" } }])] }, ["messages[0].content[0].image_url.url"]],
    [{ messages: [user([{ type: "text" }])] }, ["messages[0].content[0]"]],
    [{ messages: [user(null)] }, ["messages"]],
    [{ messages: [{ role: "robot", content: "?" }] }, ["messages[0].role"]],
    [{ model: 7, stream: "yes" }, ["model", "stream"]],
    [{ metadata: { a: 1 } }, ["metadata.a"]],
    [{ temperature: 2.1, top_p: -0.1 }, ["temperature", "top_p"]],
    [{ stop: "", seed: 0.5 }, ["stop", "seed"]],
    [{ stop: ["1", "2", "3", "4", "5"] }, ["stop"]],
    [{ reasoning_effort: "a lot" }, ["reasoning_effort"]],
    [{ max_tokens: 0, max_completion_tokens: "9" }, ["max_tokens", "max_completion_tokens"]],
    [{ bowline: { agent: [] } }, ["bowline.agent"]],
    [{ bowline: { on_retract: "never" } }, ["bowline.on_retract"]],
    [{ messages: [{ role: "system", content: "?" }] }, ["messages"]],
    [{ store: "yes" }, ["store"]],
    [{ bowline: { preferences: { max_steps: 0 } } }, ["bowline.preferences.max_steps"]],
    [{ n: 2, bowline: 1, model: null }, ["n", "model", "bowline"]]
  ])("is refused for %j", (fields, paths) => {
    assert.deepStrictEqual(wrong(fields), paths)
  })
})
