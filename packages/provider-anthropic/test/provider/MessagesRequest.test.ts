import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { toMessagesRequest } from "../../src/provider/internal/MessagesRequest.ts"
import { filesMessages } from "./golden/filesMessages.ts"

const golden = (name: string): unknown => JSON.parse(readFileSync(`${import.meta.dirname}/golden/${name}.json`, "utf8"))
const conversation = golden("conversation") as ProviderRequest

const asked = (request: ProviderRequest) =>
  MessagesHost.asked({
    method: "POST",
    url: new URL("http://host.test/v1/messages"),
    headers: {},
    body: JSON.stringify(toMessagesRequest(request, "anthropic"))
  })

describe("toMessagesRequest", () => {
  it("turns a history into what the wire asks for: roles that alternate, results first, only thoughts of its own", () => {
    assert.deepStrictEqual<unknown>(toMessagesRequest(conversation, "anthropic"), golden("conversation.messages"))
  })

  it.effect("shows the files of a question where they stood, and names those that it cannot show", () =>
    Effect.gen(function* () {
      const request = golden("files") as ProviderRequest
      assert.deepStrictEqual<unknown>(toMessagesRequest(request, "anthropic"), filesMessages)
      yield* asked(request)
    })
  )

  it("declares the tools, and withholds them by the choice", () => {
    assert.deepInclude(toMessagesRequest({ ...conversation, toolChoice: "none" }, "anthropic"), {
      tools: (golden("conversation.messages") as { tools: unknown }).tools,
      tool_choice: { type: "none" }
    })
    const without = toMessagesRequest({ ...conversation, tools: [] }, "anthropic")
    assert.notProperty(without, "tools")
    assert.notProperty(without, "tool_choice")
  })

  it("sends no empty system text", () => {
    assert.notProperty(toMessagesRequest({ ...conversation, system: "" }, "anthropic"), "system")
  })

  it.each([
    [{ contextWindow: 200_000, outputLimit: 4_096, isReasoning: false }, 4_096],
    [{ contextWindow: 200_000, outputLimit: 64_000, isReasoning: false }, 32_000],
    [{ contextWindow: 200_000, isReasoning: false }, 8_192],
    [undefined, 8_192]
  ])("uses the known limit of the model where none is given: %j", (facts, max_tokens) => {
    const { maxOutputTokens, ...unlimited } = conversation
    assert.deepInclude(toMessagesRequest({ ...unlimited, facts }, "anthropic"), { max_tokens })
    assert.deepInclude(toMessagesRequest({ ...conversation, facts }, "anthropic"), { max_tokens: maxOutputTokens })
  })

  it.each([
    [{ top_p: 0.5, seed: 7, reasoning_effort: "low" as const }, { top_p: 0.5 }],
    [{ top_p: 0.5, temperature: 0.25 }, { temperature: 0.25 }],
    [{ temperature: 2, stop: ["\n"] }, { temperature: 1 }]
  ])("asks for no more than the wire has: of %j for %j", (sampling, said) => {
    assert.deepStrictEqual<unknown>(toMessagesRequest({ ...conversation, sampling }, "anthropic"), {
      ...(golden("conversation.messages") as object),
      ...said
    })
  })
})
