import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, reset, until } from "@bowline/testing/http/Move"
import { type Act, completes, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import OpenAI from "openai"
import { post, start } from "../../http/RunningGateway.ts"
import { ask, client, contentOf, readOut } from "./ChatClient.ts"

const streamed = { ...ask, stream: true as const }

/** A peer with one skill, and the agent by which a request names it. */
const servePeer = Effect.fnUntraced(function* (name: string, ...acts: ReadonlyArray<Act>) {
  const peer = yield* ScriptedPeer.serve({ acts })
  const agent = { name, endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  return { peer, agent }
}, Effect.provide(LoopbackNetwork.layer))

const call = (name: string) => callTool(`${name}_ask`, { input: "hi" })

const codeOf = (cause: unknown) => (cause instanceof OpenAI.APIError ? (cause.code as unknown) : cause)

describe("a client of Chat Completions", () => {
  it.live("gets its first chunk while another plan has its session", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { provider, url } = yield* start([[until(Deferred.await(proceed)), say("one")], [say("two")]])
      const session = { headers: { "x-bowline-session": "mine" } }
      const first = yield* Effect.forkChild(readOut(url, {}, session.headers))
      yield* provider.requests.awaitCount(1)
      const second = yield* Effect.promise(() => client(url).chat.completions.create(streamed, session))
      const chunks = second[Symbol.asyncIterator]()
      const next = Effect.promise(async () => {
        const read: IteratorResult<OpenAI.ChatCompletionChunk, undefined> = await chunks.next()
        return read.value?.choices[0]?.delta
      })
      assert.deepStrictEqual(yield* next, { role: "assistant", content: "" })
      assert.lengthOf(yield* provider.requests.all, 1)
      yield* Deferred.succeed(proceed, undefined)
      assert.strictEqual(contentOf((yield* Fiber.join(first)).chunks), "one")
      assert.deepStrictEqual(yield* next, { content: "two" })
    })
  )

  it.live("sees the answer of a second attempt when the provider resets the first one", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[reset], [say("good")]], { BOWLINE_RETRY_BASE: "1ms" })
      const { cause, chunks } = yield* readOut(url)
      assert.isUndefined(cause)
      assert.strictEqual(contentOf(chunks), "good")
      assert.strictEqual(chunks.at(-1)?.choices[0]?.finish_reason, "stop")
    })
  )

  it.live("sees an error, and never a finish, when the provider resets each attempt", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("half"), cut], { BOWLINE_MAX_RETRIES: "0" })
      const { cause, chunks } = yield* readOut(url)
      assert.strictEqual(codeOf(cause), "provider_transport")
      assert.strictEqual(contentOf(chunks), "half")
      assert.isTrue(chunks.every(({ choices }) => choices[0]?.finish_reason === null))
    })
  )

  it.live("ends the task of a peer when it leaves", () =>
    Effect.gen(function* () {
      const { agent, peer } = yield* servePeer("bob", stuck)
      const { url } = yield* start([[call("bob")]])
      const body = { ...streamed, bowline: { agents: [agent] } }
      const stream = yield* Effect.promise(() => client(url).chat.completions.create(body))
      const { sends } = yield* peer.awaitSeen(({ sends }) => sends.length === 1)
      stream.controller.abort()
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
    })
  )

  it.live("is told of a deadline while a peer is stuck, in a stream and without one", () =>
    Effect.gen(function* () {
      const { agent, peer } = yield* servePeer("bob", stuck)
      const { url } = yield* start(() => [call("bob")])
      const within = (timeout_ms: number) => ({ agents: [agent], preferences: { timeout_ms } })
      const { cause, chunks } = yield* readOut(url, { bowline: within(6_000) })
      assert.strictEqual(codeOf(cause), "aborted")
      assert.isTrue(chunks.every(({ choices }) => choices[0]?.finish_reason === null))
      yield* peer.cancelled
      const whole = yield* post(`${url}/v1/chat/completions`, { ...ask, bowline: within(300) })
      assert.strictEqual(whole.status, 504)
      assert.deepNestedInclude(whole.body, { "error.code": "aborted", "error.type": "server_error" })
    })
  )

  it.live("gets one answer out of those of two peers, and sees both at work", () =>
    Effect.gen(function* () {
      const [ann, bob] = [yield* servePeer("ann", completes("rain")), yield* servePeer("bob", completes("sun"))]
      const both = [say("I ask."), call("ann"), call("bob")]
      const { provider, url } = yield* start([both, [say("Rain, then sun.")]])
      const { cause, chunks } = yield* readOut(url, { bowline: { agents: [ann.agent, bob.agent] } })
      assert.isUndefined(cause)
      assert.strictEqual(contentOf(chunks), "I ask.\n\nRain, then sun.")
      const lines = chunks.flatMap(({ choices }) => {
        const delta: object = choices[0]?.delta ?? {}
        return "reasoning_content" in delta ? [String(delta.reasoning_content).replace(/ \d+\.\d s\n$|\n$/, "")] : []
      })
      assert.sameMembers(lines, ["→ ann.ask …", "→ bob.ask …", "✓ ann.ask", "✓ bob.ask"])
      const last = (yield* provider.requests.all).at(-1)?.body ?? ""
      assert.include(last, "rain")
      assert.include(last, "sun")
    })
  )
})
