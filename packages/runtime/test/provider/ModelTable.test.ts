import { Sampling } from "@bowline/domain/plan/PlanRequest"
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import * as ModelTable from "../../src/provider/ModelTable.ts"

const text = readFileSync(`${import.meta.dirname}/../../src/provider/models.json`, "utf8")
const table = JSON.parse(text) as Readonly<Record<string, ModelTable.Model>>
/** As written, for `JSON.parse` keeps the last of two that are equal. */
const names = Array.from(text.matchAll(/^ {2}"(.+)"/gm), ([, name]) => name ?? "")

describe("models.json", () => {
  it("has each model once, in order, under the name that is looked up", () => {
    assert.deepStrictEqual(names, [...new Set(names)].toSorted())
    for (const name of names) assert.deepStrictEqual(ModelTable.find(name), table[name], name)
  })

  it.each(Object.entries(table))("says of %s what can be true", (_, model) => {
    const {
      contextWindow,
      outputLimit = 1,
      isReasoning,
      price,
      refuses = [],
      structuredOutput = true,
      input: takes = ["text"],
      maxPdfPages = 1,
      ...others
    } = model
    assert.deepStrictEqual(others, {})
    assert.includeMembers(Object.keys(Sampling.fields), [...refuses])
    assert.notInclude(refuses, "max_tokens")
    assert.isTrue(structuredOutput)
    assert.include(["text", "text,image", "text,image,pdf"], takes.join())
    assert.isTrue(Number.isInteger(maxPdfPages) && maxPdfPages >= 1 && maxPdfPages <= 10_000)
    assert.isTrue(maxPdfPages === 1 || takes.includes("pdf"))
    assert.isBoolean(isReasoning)
    assert.isTrue(Number.isInteger(contextWindow) && contextWindow >= 4_000 && contextWindow <= 10_000_000)
    assert.isTrue(Number.isInteger(outputLimit) && outputLimit >= 1 && outputLimit <= contextWindow)
    if (price === undefined) return
    const { input, cached = input, output, ...unknown } = price
    assert.deepStrictEqual(unknown, {})
    assert.isTrue(0 < cached && cached <= input && input < output && output <= 1_000)
  })
})

describe("ModelTable", () => {
  it.each([
    ["gpt-5", "gpt-5"],
    ["openai/gpt-5", "gpt-5"],
    ["openai/gpt-5-2025-08-07", "gpt-5"],
    ["openai/GPT-5-Mini-2025-08-07", "gpt-5-mini"],
    ["openrouter/openai/gpt-5-chat-latest", "gpt-5-chat"],
    ["openai/gpt-5.1-2025-11-13", "gpt-5-1"],
    ["openai/gpt-5.1-codex", "gpt-5-1"],
    ["openai/gpt-4.1-nano", "gpt-4-1-nano"],
    ["openai/gpt-4-0613", "gpt-4"],
    ["openai/chatgpt-4o-latest", "chatgpt-4o"],
    ["openai/ft:gpt-4.1-nano:acme::x", "gpt-4-1-nano"],
    ["openai/gpt-oss:20b", "gpt-oss"],
    ["anthropic/claude-sonnet-4-5", "claude-sonnet-4-5"],
    ["anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"],
    ["anthropic/claude-sonnet-4-20250514", "claude-sonnet-4"],
    ["anthropic/claude-3-5-sonnet-latest", "claude-3-5-sonnet"],
    ["openrouter/anthropic/claude-3.5-sonnet:beta", "claude-3-5-sonnet"],
    ["bedrock/us.anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"],
    ["vertex/claude-opus-4-5@20251101", "claude-opus-4-5"],
    ["groq/meta-llama/Llama-3.3-70B-Instruct", "llama-3-3"]
  ])("finds %s under %s", (id, name) => {
    assert.isDefined(table[name])
    assert.deepStrictEqual(ModelTable.find(id), table[name])
  })

  it.each(["scripted/model", "openai/gpt", "openai/gpt-50", "openai/o10-mini", "my-gpt-5", "", "/", "constructor"])(
    "knows nothing about %j",
    (id) => {
      assert.isUndefined(ModelTable.find(id))
    }
  )

  it.each([
    ["openai/gpt-5-mini", true],
    ["openai/o3", true],
    ["openai/gpt-oss-120b", true],
    ["openai/gpt-4.1-mini", false],
    ["openai/gpt-3.5-turbo", false],
    ["openai/gpt-5-chat-latest", false]
  ])("says whether %s reasons: %s", (id, isReasoning) => {
    assert.strictEqual(ModelTable.find(id)?.isReasoning, isReasoning)
  })

  it.each([
    ["openai/gpt-5-mini", ["temperature", "top_p", "stop", "seed"]],
    ["openrouter/openai/o4-mini", ["temperature", "top_p", "stop", "seed"]],
    ["openai/gpt-5.1-chat-latest", ["temperature", "top_p", "stop", "seed", "reasoning_effort"]],
    ["xai/grok-4-0709", ["stop", "reasoning_effort"]],
    ["openai/gpt-4.1", ["reasoning_effort"]],
    ["local/gpt-oss:20b", []],
    ["scripted/model", []]
  ])("says what of a sampling %s refuses", (id, refused) => {
    const sampling: Sampling = {
      temperature: 1,
      top_p: 1,
      stop: ["."],
      seed: 1,
      reasoning_effort: "low",
      max_tokens: 9
    }
    assert.deepStrictEqual<ReadonlyArray<string>>(ModelTable.refusedOf(sampling, ModelTable.find(id)), refused)
  })

  const overrides = ModelTable.overrides([
    ["gpt-5", { contextWindow: 100_000 }],
    ["GPT-5.1", { outputLimit: 7 }],
    ["My-Model:7b", { isReasoning: true }],
    ["azure/gpt-5", { contextWindow: 50_000, isReasoning: false }]
  ])

  it.each([
    ["openai/gpt-5", { ...table["gpt-5"], contextWindow: 100_000 }],
    ["openai/gpt-5-2025-08-07", { ...table["gpt-5"], contextWindow: 100_000 }],
    ["openai/gpt-5-mini", table["gpt-5-mini"]],
    ["openai/gpt-5.1-codex", { ...table["gpt-5-1"], outputLimit: 7 }],
    ["ollama/my-model:7b-q4", { isReasoning: true }],
    ["Azure/GPT-5", { ...table["gpt-5"], contextWindow: 50_000, isReasoning: false }],
    ["azure/gpt-5-mini", table["gpt-5-mini"]],
    ["ollama/my-model:13b", undefined]
  ])("says of %s what is configured, and else what it knows", (id, model) => {
    assert.deepStrictEqual(ModelTable.find(id, overrides), model)
  })
})
