import type { ProviderRequest } from "@bowline/runtime/provider/Provider"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { toChatRequest } from "../../src/provider/internal/toChatRequest.ts"
import { filesChat } from "./golden/filesChat.ts"

const golden = (name: string): unknown => JSON.parse(readFileSync(`${import.meta.dirname}/golden/${name}.json`, "utf8"))

describe("toChatRequest", () => {
  it("turns a history into what the wire asks for: calls with their results, no reasoning, no partial text", () => {
    assert.deepStrictEqual<unknown>(
      toChatRequest(golden("conversation") as ProviderRequest),
      golden("conversation.chat")
    )
  })

  it.effect("shows the files of a question where they stood, and names those that it cannot show", () =>
    Effect.gen(function* () {
      const body = toChatRequest(golden("files") as ProviderRequest)
      assert.deepStrictEqual<unknown>(body, filesChat)
      yield* ChatHost.asked({
        method: "POST",
        url: new URL("http://host.test/v1/chat/completions"),
        headers: {},
        body: JSON.stringify(body)
      })
    })
  )

  it("declares the tools, and withholds them by the choice", () => {
    const request = golden("conversation") as ProviderRequest
    const withheld = toChatRequest({ ...request, toolChoice: "none" })
    assert.deepInclude(withheld, {
      tools: (golden("conversation.chat") as { tools: unknown }).tools,
      tool_choice: "none"
    })
    const without = toChatRequest({ ...request, tools: [], toolChoice: "none" })
    assert.notProperty(without, "tools")
    assert.notProperty(without, "tool_choice")
  })

  it("sends no empty system message", () => {
    const { messages } = toChatRequest({ ...(golden("conversation") as ProviderRequest), system: "" }) as {
      messages: ReadonlyArray<{ role: string }>
    }
    assert.strictEqual(messages[0]?.role, "user")
  })

  it.each([
    ["gpt-4.1", "max_tokens"],
    ["llama-3.3-70b", "max_tokens"],
    ["gpt-5-mini", "max_completion_tokens"],
    ["openai/o3", "max_completion_tokens"]
  ])("tells %s the limit of the answer as %s", (model, field) => {
    const request = { ...(golden("conversation") as ProviderRequest), model, maxOutputTokens: 512 }
    assert.deepStrictEqual<unknown>(toChatRequest(request), {
      ...(golden("conversation.chat") as object),
      model,
      [field]: 512
    })
  })

  it("says how the model is to answer as it is told", () => {
    const sampling = { temperature: 0, stop: ["END"], seed: 7, reasoning_effort: "low" as const }
    const request = { ...(golden("conversation") as ProviderRequest), sampling }
    assert.deepStrictEqual<unknown>(toChatRequest(request), { ...(golden("conversation.chat") as object), ...sampling })
  })
})
