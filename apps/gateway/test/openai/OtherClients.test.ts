import { stall } from "@bowline/testing/http/Move"
import { errorChunk, say, usage } from "@bowline/testing/provider/Turn"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { assert, describe, it } from "@effect/vitest"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner } from "@openai/agents"
import { generateText, type LanguageModel, streamText } from "ai"
import { Effect, Schema } from "effect"
import { start } from "../http/RunningGateway.ts"

/** What a client made of an answer. */
interface Heard {
  readonly text: string
  readonly tokens: number | undefined
}

/** A client, as its documentation has one use it. */
interface Client {
  readonly answer: () => Promise<Heard>
  readonly stream: (heard: (text: string) => void, signal?: AbortSignal) => Promise<Heard>
}

const key = { apiKey: "none" }
const quick = { BOWLINE_MAX_RETRIES: "0" }

const aiSdk = (model: LanguageModel): Client => {
  const asked = { model, prompt: "?", temperature: 0.5, maxRetries: 0 }
  return {
    answer: async () => {
      const { text, usage } = await generateText(asked)
      return { text, tokens: usage.totalTokens }
    },
    stream: async (heard, signal) => {
      const result = streamText({ ...asked, onError: () => undefined, ...(signal && { abortSignal: signal }) })
      for await (const part of result.stream) {
        if (part.type === "text-delta") heard(part.text)
        if (part.type === "error") throw part.error
      }
      return { text: await result.text, tokens: (await result.usage).totalTokens }
    }
  }
}

const Counted = Schema.Struct({ usage_metadata: Schema.optional(Schema.Struct({ total_tokens: Schema.Int })) })
const isCounted = Schema.is(Counted)
const tokensOf = (message: unknown) => (isCounted(message) ? message.usage_metadata?.total_tokens : undefined)

const langChain = (baseURL: string, useResponsesApi: boolean): Client => {
  const model = new ChatOpenAI({ ...key, model: "bowline", maxRetries: 0, useResponsesApi, configuration: { baseURL } })
  return {
    answer: async () => {
      const message = await model.invoke("?")
      return { text: message.text, tokens: tokensOf(message) }
    },
    stream: async (heard, signal) => {
      let [text, tokens] = ["", 0]
      for await (const chunk of await model.stream("?", { ...(signal && { signal }) })) {
        heard(chunk.text)
        text += chunk.text
        tokens += tokensOf(chunk) ?? 0
      }
      return { text, tokens }
    }
  }
}

const agents = (baseURL: string, useResponses: boolean): Client => {
  const modelProvider = new OpenAIProvider({ ...key, baseURL, useResponses })
  const runner = new Runner({ modelProvider, tracingDisabled: true })
  const agent = new Agent({ name: "sailor", instructions: "Be brief.", model: "bowline" })
  return {
    answer: async () => {
      const { finalOutput = "", runContext } = await runner.run(agent, "?")
      return { text: finalOutput, tokens: runContext.usage.totalTokens }
    },
    stream: async (heard, signal) => {
      const result = await runner.run(agent, "?", { stream: true, ...(signal && { signal }) })
      for await (const text of result.toTextStream()) heard(text)
      await result.completed
      return { text: result.finalOutput ?? "", tokens: result.runContext.usage.totalTokens }
    }
  }
}

const own = /out of order/

/** What a client says of a stream that fails. LangChain does not look at the end of a response: with OpenAI itself it sees no failure either. */
const clients: ReadonlyArray<readonly [string, (baseURL: string) => Client, RegExp | undefined]> = [
  [
    "@ai-sdk/openai-compatible",
    (baseURL) => aiSdk(createOpenAICompatible({ ...key, name: "bowline", baseURL, includeUsage: true })("bowline")),
    own
  ],
  ["@ai-sdk/openai", (baseURL) => aiSdk(createOpenAI({ ...key, baseURL }).chat("bowline")), own],
  ["@ai-sdk/openai on Responses", (baseURL) => aiSdk(createOpenAI({ ...key, baseURL })("bowline")), own],
  ["@langchain/openai", (baseURL) => langChain(baseURL, false), own],
  ["@langchain/openai on Responses", (baseURL) => langChain(baseURL, true), undefined],
  ["@openai/agents", (baseURL) => agents(baseURL, false), own],
  ["@openai/agents on Responses", (baseURL) => agents(baseURL, true), /response\.failed/]
]

/** Why it failed, in the words of the client. */
const failure = (call: () => Promise<Heard>) =>
  Effect.promise(() =>
    call().then(
      ({ text }) => assert.fail(`It did not fail, and said ${text}`),
      (cause: unknown) => (cause instanceof Error ? cause.message : JSON.stringify(cause))
    )
  )

describe.each(clients)("%s, unchanged,", (_, of, ofStream) => {
  const connect = (url: string) => of(`${url}/v1`)

  it.live("gets an answer with its usage, in a stream and without one", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Hel"), say("lo"), usage({ input_tokens: 10, output_tokens: 4 })])
      const client = connect(url)
      assert.deepStrictEqual(yield* Effect.promise(client.answer), { text: "Hello", tokens: 14 })
      const deltas: Array<string> = []
      const whole = yield* Effect.promise(() => client.stream((text) => void (text !== "" && deltas.push(text))))
      assert.deepStrictEqual(whole, { text: "Hello", tokens: 14 })
      assert.deepStrictEqual(deltas, ["Hel", "lo"])
    })
  )

  it.live("sees that a plan has failed, also in the middle of a stream", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("half"), errorChunk({ message: "out of order" })], quick)
      const client = connect(url)
      assert.match(yield* failure(client.answer), own)
      if (ofStream !== undefined) assert.match(yield* failure(() => client.stream(() => undefined)), ofStream)
    })
  )

  it.live("ends its plan when it leaves", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("a"), stall]])
      const leaving = new AbortController()
      const stream = connect(url).stream((text) => void (text === "a" && leaving.abort()), leaving.signal)
      const left = stream.catch(() => undefined)
      const [asked] = yield* provider.requests.awaitCount(1)
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
      yield* Effect.promise(() => left)
    })
  )
})
