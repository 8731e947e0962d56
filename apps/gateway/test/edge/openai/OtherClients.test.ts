import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { reset, stall } from "@bowline/testing/http/Move"
import { type Act, completes, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, errorChunk, say, usage } from "@bowline/testing/provider/Turn"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import { assert, describe, it } from "@effect/vitest"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner } from "@openai/agents"
import * as seven from "ai"
import * as six from "ai-6"
import { createOpenAI as createOpenAIOfSix } from "ai-sdk-openai-3"
import { createOpenAICompatible as createCompatibleOfSix } from "ai-sdk-openai-compatible-2"
import { Effect, Schema } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { start } from "../../http/RunningGateway.ts"

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

const aiSdk = (model: seven.LanguageModel): Client => {
  const asked = { model, prompt: "?", temperature: 0.5, maxRetries: 0 }
  return {
    answer: async () => {
      const { text, usage } = await seven.generateText(asked)
      return { text, tokens: usage.totalTokens }
    },
    stream: async (heard, signal) => {
      const result = seven.streamText({ ...asked, onError: () => undefined, ...(signal && { abortSignal: signal }) })
      for await (const part of result.stream) {
        if (part.type === "text-delta") heard(part.text)
        if (part.type === "error") throw part.error
      }
      return { text: await result.text, tokens: (await result.usage).totalTokens }
    }
  }
}

const aiSdkOfSix = (model: six.LanguageModel): Client => {
  const asked = { model, prompt: "?", temperature: 0.5, maxRetries: 0 }
  return {
    answer: async () => {
      const { text, usage } = await six.generateText(asked)
      return { text, tokens: usage.totalTokens }
    },
    stream: async (heard, signal) => {
      const result = six.streamText({ ...asked, onError: () => undefined, ...(signal && { abortSignal: signal }) })
      for await (const part of result.fullStream) {
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

const langChain = (baseURL: string, name: string, useResponsesApi: boolean): Client => {
  const model = new ChatOpenAI({ ...key, model: name, maxRetries: 0, useResponsesApi, configuration: { baseURL } })
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

const agents = (baseURL: string, model: string, useResponses: boolean): Client => {
  const modelProvider = new OpenAIProvider({ ...key, baseURL, useResponses })
  const runner = new Runner({ modelProvider, tracingDisabled: true })
  const agent = new Agent({ name: "sailor", instructions: "Be brief.", model })
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
const clients: ReadonlyArray<readonly [string, (baseURL: string, model: string) => Client, RegExp | undefined]> = [
  [
    "@ai-sdk/openai-compatible",
    (baseURL, model) => aiSdk(createOpenAICompatible({ ...key, name: "bowline", baseURL, includeUsage: true })(model)),
    own
  ],
  ["@ai-sdk/openai", (baseURL, model) => aiSdk(createOpenAI({ ...key, baseURL }).chat(model)), own],
  ["@ai-sdk/openai on Responses", (baseURL, model) => aiSdk(createOpenAI({ ...key, baseURL })(model)), own],
  [
    "@ai-sdk/openai-compatible of AI SDK 6",
    (baseURL, model) =>
      aiSdkOfSix(createCompatibleOfSix({ ...key, name: "bowline", baseURL, includeUsage: true })(model)),
    own
  ],
  ["@ai-sdk/openai of AI SDK 6", (baseURL, model) => aiSdkOfSix(createOpenAIOfSix({ ...key, baseURL })(model)), own],
  ["@langchain/openai", (baseURL, model) => langChain(baseURL, model, false), own],
  ["@langchain/openai on Responses", (baseURL, model) => langChain(baseURL, model, true), undefined],
  ["@openai/agents", (baseURL, model) => agents(baseURL, model, false), own],
  ["@openai/agents on Responses", (baseURL, model) => agents(baseURL, model, true), /response\.failed/]
]

/** Why it failed, in the words of the client. */
const failure = (call: () => Promise<Heard>) =>
  Effect.promise(() =>
    call().then(
      ({ text }) => assert.fail(`It did not fail, and said ${text}`),
      (cause: unknown) => (cause instanceof Error ? cause.message : JSON.stringify(cause))
    )
  )

const file = (content: object) =>
  Effect.map(folderOf({ "gateway.json": JSON.stringify(content) }), (folder) => ({
    BOWLINE_CONFIG: join(folder, "gateway.json")
  }))

/** A peer with one skill, and the agent by which a file names it. */
const servePeer = Effect.fnUntraced(function* (name: string, ...acts: ReadonlyArray<Act>) {
  const peer = yield* ScriptedPeer.serve({ acts })
  const agent = { name, endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  return { peer, agent }
}, Effect.provide(LoopbackNetwork.layer))

const call = (agent: string) => callTool(`${agent}_ask`, { input: "hi" })

describe.each(clients)("%s, unchanged,", (_, of, ofStream) => {
  const connect = (url: string, model = "bowline") => of(`${url}/v1`, model)

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

  it.live("gets one answer out of those of two peers, although the provider resets", () =>
    Effect.gen(function* () {
      const [ann, bob] = [yield* servePeer("ann", completes("rain")), yield* servePeer("bob", completes("sun"))]
      const environment = { ...(yield* file({ agents: [ann.agent, bob.agent] })), BOWLINE_RETRY_BASE: "1ms" }
      const { provider, url } = yield* start([[reset], [call("ann"), call("bob")], [say("Both.")]], environment)
      assert.strictEqual((yield* Effect.promise(connect(url).answer)).text, "Both.")
      const { body = "" } = (yield* provider.requests.all).at(-1) ?? {}
      for (const said of ["rain", "sun"]) assert.include(body, said)
    })
  )

  it.live("waits no longer for a stuck peer than the deadline", () =>
    Effect.gen(function* () {
      const { agent } = yield* servePeer("bob", stuck)
      const slow = { agents: [agent], preferences: { timeout_ms: 300 } }
      const { url } = yield* start(() => [call("bob")], yield* file({ presets: { slow } }))
      assert.match(yield* failure(connect(url, "bowline/slow").answer), /deadline/)
    })
  )

  it.live("ends the task of a peer when it leaves", () =>
    Effect.gen(function* () {
      const { agent, peer } = yield* servePeer("bob", stuck)
      const { url } = yield* start([[call("bob")]], yield* file({ agents: [agent] }))
      const leaving = new AbortController()
      const stream = connect(url).stream(() => undefined, leaving.signal)
      const left = stream.catch(() => undefined)
      const { sends } = yield* peer.awaitSeen(({ sends }) => sends.length === 1)
      leaving.abort()
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
      yield* Effect.promise(() => left)
    })
  )

  it.live("is told that its key is wrong, and that there is no such model", () =>
    Effect.gen(function* () {
      const [open, closed] = [yield* start([]), yield* start([], { BOWLINE_API_KEYS: "ann=key-of-ann" })]
      assert.match(yield* failure(connect(open.url, "bowline/none").answer), /bowline\/none/)
      assert.match(yield* failure(connect(closed.url).answer), /key/i)
    })
  )
})

const python = process.env["BOWLINE_TEST_PYTHON"]

it.live.skipIf(python === undefined)(
  "openai-python, unchanged, asks, streams, reads what is stored, and goes on with it (skipped without BOWLINE_TEST_PYTHON)",
  () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Hel"), say("lo"), usage({ input_tokens: 3, output_tokens: 2 })])
      const script = join(import.meta.dirname, "openAiClient.py")
      const said = yield* Effect.promise((signal) =>
        promisify(execFile)(python ?? "", [script, `${url}/v1`, "Hello"], { signal }).then(
          () => "",
          (cause: unknown) => String(cause)
        )
      )
      assert.strictEqual(said, "")
    })
)
