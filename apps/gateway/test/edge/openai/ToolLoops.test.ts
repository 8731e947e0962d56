import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { assert, describe, it } from "@effect/vitest"
import { type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner, tool as agentTool } from "@openai/agents"
import { isStepCount, jsonSchema, type LanguageModel, streamText, tool } from "ai"
import { Effect } from "effect"
import OpenAI from "openai"
import { send, start } from "../../http/RunningGateway.ts"

type Pick = (input: { readonly among: number }) => string

/** A client with its own loop: it calls the function for as long as the model wants it, and gives the last answer. */
type Loop = (baseURL: string, pick: Pick) => Promise<string>

const key = { apiKey: "none" }
const description = "Lets the person choose"
const parameters = {
  type: "object" as const,
  properties: { among: { type: "integer" as const } },
  required: ["among"],
  additionalProperties: false as const
}

const openAi: Loop = async (baseURL, pick) => {
  const runner = new OpenAI({ ...key, baseURL }).chat.completions.runTools({
    model: "bowline",
    messages: [{ role: "user", content: "?" }],
    stream: true,
    tools: [
      {
        type: "function",
        function: {
          name: "pick",
          description,
          parameters,
          parse: (text: string) => JSON.parse(text) as { readonly among: number },
          function: (input: { readonly among: number }) => pick(input)
        }
      }
    ]
  })
  return (await runner.finalContent()) ?? ""
}

const openAiResponses: Loop = async (baseURL, pick) => {
  const { responses } = new OpenAI({ ...key, baseURL })
  const tools = [{ type: "function" as const, name: "pick", description, parameters, strict: true }]
  const asked = { model: "bowline", tools }
  let response = await responses.create({ ...asked, input: "?" })
  for (;;) {
    const calls = response.output.flatMap((item) => (item.type === "function_call" ? [item] : []))
    if (calls.length === 0) return response.output_text
    const input = calls.map(({ arguments: text, call_id }) => ({
      type: "function_call_output" as const,
      call_id,
      output: pick(JSON.parse(text) as { readonly among: number })
    }))
    response = await responses.create({ ...asked, previous_response_id: response.id, input })
  }
}

const langChain =
  (useResponsesApi: boolean): Loop =>
  async (baseURL, pick) => {
    const model = new ChatOpenAI({ ...key, model: "bowline", useResponsesApi, configuration: { baseURL } }).bindTools([
      { type: "function", function: { name: "pick", description, parameters } }
    ])
    const messages: Array<BaseMessage> = [new HumanMessage("?")]
    for (;;) {
      const answer = await model.invoke(messages)
      const calls = answer.tool_calls ?? []
      if (calls.length === 0) return answer.text
      messages.push(answer)
      for (const { args, id = "" } of calls) {
        messages.push(new ToolMessage({ tool_call_id: id, content: pick(args as { readonly among: number }) }))
      }
    }
  }

const aiSdk = async (model: LanguageModel, pick: Pick): Promise<string> => {
  const result = streamText({
    model,
    prompt: "?",
    maxRetries: 0,
    tools: {
      pick: tool({
        description,
        inputSchema: jsonSchema<{ readonly among: number }>(parameters),
        execute: (input) => pick(input)
      })
    },
    stopWhen: isStepCount(5)
  })
  return result.text
}

const agents =
  (useResponses: boolean): Loop =>
  async (baseURL, pick) => {
    const modelProvider = new OpenAIProvider({ ...key, baseURL, useResponses })
    const runner = new Runner({ modelProvider, tracingDisabled: true })
    const choose = agentTool({
      name: "pick",
      description,
      parameters,
      strict: true,
      execute: (input) => pick(input as { readonly among: number })
    })
    const agent = new Agent({ name: "sailor", instructions: "Be brief.", model: "bowline", tools: [choose] })
    const result = await runner.run(agent, "?", { stream: true })
    await result.completed
    return result.finalOutput ?? ""
  }

const loops: ReadonlyArray<readonly [string, Loop]> = [
  ["openai", openAi],
  ["@langchain/openai", langChain(false)],
  [
    "@ai-sdk/openai-compatible",
    (baseURL, pick) => aiSdk(createOpenAICompatible({ ...key, name: "bowline", baseURL })("bowline"), pick)
  ],
  ["@ai-sdk/openai", (baseURL, pick) => aiSdk(createOpenAI({ ...key, baseURL }).chat("bowline"), pick)],
  ["@openai/agents", agents(false)],
  ["openai on Responses", openAiResponses],
  ["@langchain/openai on Responses", langChain(true)],
  ["@ai-sdk/openai on Responses", (baseURL, pick) => aiSdk(createOpenAI({ ...key, baseURL })("bowline"), pick)],
  ["@openai/agents on Responses", agents(true)]
]

describe.each(loops)("%s, unchanged,", (_, loop) => {
  it.live("calls its own tools in a loop of its own: one plan answers it", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) => {
        const { length } = results(asked)
        if (length === 0) return [say("Hm."), callTool("pick", { among: 3 }), callTool("pick", { among: 4 })]
        return length === 2 ? [callTool("pick", { among: 5 })] : [say(`Picked ${results(asked).join()}.`)]
      })
      const picked: Array<number> = []
      const text = yield* Effect.promise(() =>
        loop(`${url}/v1`, ({ among }) => {
          picked.push(among)
          return `color ${among}`
        })
      )
      assert.deepStrictEqual(picked, [3, 4, 5])
      for (const among of picked) assert.include(text, `color ${among}`)
      assert.notInclude(text, "Hm.")
      assert.lengthOf(yield* provider.requests.all, 3)
      const { body } = yield* send(`${url}/plans`)
      const plans = body["plans"] as ReadonlyArray<Readonly<Record<string, unknown>>>
      assert.deepStrictEqual(
        plans.map(({ state }) => state),
        ["completed"]
      )
    })
  )
})
