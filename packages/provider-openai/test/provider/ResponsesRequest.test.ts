import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import * as ResponsesHost from "@bowline/testing/unstable/provider/ResponsesHost"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { toResponsesRequest } from "../../src/provider/internal/ResponsesRequest.ts"
import { filesResponses } from "./golden/filesResponses.ts"

const golden = (name: string): unknown => JSON.parse(readFileSync(`${import.meta.dirname}/golden/${name}.json`, "utf8"))

const conversation = { ...(golden("conversation") as ProviderRequest), model: "gpt-5-mini" }
const body = golden("conversation.responses") as { readonly input: ReadonlyArray<{ readonly type: string }> }

describe("toResponsesRequest", () => {
  it("turns a history into the items of the wire, with its own reasoning in front of what followed from it", () => {
    assert.deepStrictEqual<unknown>(toResponsesRequest(conversation, "openai"), body)
  })

  it("shows no provider the reasoning of another one", () => {
    assert.deepStrictEqual<unknown>(toResponsesRequest(conversation, "azure"), {
      ...body,
      input: body.input.filter(({ type }) => type !== "reasoning")
    })
  })

  it.effect("shows the files of a question where they stood, and names those that it cannot show", () =>
    Effect.gen(function* () {
      const body = toResponsesRequest(golden("files") as ProviderRequest, "openai")
      assert.deepStrictEqual<unknown>(body, filesResponses)
      yield* ResponsesHost.asked({
        method: "POST",
        url: new URL("http://host.test/v1/responses"),
        headers: {},
        body: JSON.stringify(body)
      })
    })
  )

  it("gives each text of an answer back with its phase", () => {
    const parts = [
      { type: "text", text: "I look. ", phase: "commentary" },
      { type: "text", text: "It is ", phase: "final_answer" },
      { type: "text", text: "a knot.", phase: "final_answer" },
      { type: "text", text: "Yes." }
    ] as const
    const said = toResponsesRequest({ ...conversation, messages: [{ role: "assistant", parts }] }, "openai")
    const message = (text: string, phase: object = {}) => ({
      type: "message",
      role: "assistant",
      ...phase,
      content: [{ type: "output_text", text }]
    })
    assert.propertyVal(said, "model", "gpt-5-mini")
    assert.deepInclude(said, {
      input: [
        message("I look. ", { phase: "commentary" }),
        message("It is a knot.", { phase: "final_answer" }),
        message("Yes.")
      ]
    })
  })

  it("declares the tools, and withholds them by the choice", () => {
    const withheld = toResponsesRequest({ ...conversation, toolChoice: "none" }, "openai")
    assert.deepStrictEqual<unknown>(withheld, { ...body, tool_choice: "none" })
    const without = toResponsesRequest({ ...conversation, tools: [], toolChoice: "none" }, "openai")
    assert.notProperty(without, "tools")
    assert.notProperty(without, "tool_choice")
  })

  it("sends a limit of the answer, if there is one, and no empty instructions", () => {
    const limited = toResponsesRequest({ ...conversation, system: "", maxOutputTokens: 512 }, "openai")
    assert.propertyVal(limited, "max_output_tokens", 512)
    assert.notProperty(limited, "instructions")
  })

  it.each([
    ["reasons", { contextWindow: 400_000, isReasoning: true }, true],
    ["nothing is known about", undefined, true],
    ["does not reason", { contextWindow: 128_000, isReasoning: false }, false]
  ])("asks a model that %s for its reasoning, or not", (_, facts, isAsked) => {
    const include = isAsked ? ["reasoning.encrypted_content"] : undefined
    assert.deepStrictEqual(
      (toResponsesRequest({ ...conversation, facts }, "openai") as { include?: unknown }).include,
      include
    )
  })

  it("says how the model is to answer, as far as the wire has it", () => {
    const sampling = { temperature: 0, stop: ["END"], seed: 7, reasoning_effort: "low" as const }
    const { stop, seed, ...said } = toResponsesRequest({ ...conversation, sampling }, "openai") as Record<
      string,
      unknown
    >
    assert.deepInclude(said, { temperature: 0, reasoning: { effort: "low" } })
    assert.deepStrictEqual([stop, seed], [undefined, undefined])
  })
})
