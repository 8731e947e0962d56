import { reset } from "@bowline/testing/http/Move"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { send, start } from "../../http/RunningGateway.ts"
import { clients, modernClient } from "./McpClients.ts"

const file = (content: object) =>
  Effect.map(folderOf({ "gateway.json": JSON.stringify(content) }), (folder) => ({
    BOWLINE_CONFIG: join(folder, "gateway.json")
  }))

const agentAt = (name: string, url: string, more: object = {}) => ({
  name,
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "ask", ...more }]
})

/** Asks each of the tools once, and answers with what they have said. */
const askAll =
  (...tools: ReadonlyArray<string>): Script =>
  (asked) =>
    results(asked).length === 0 ? tools.map((tool) => callTool(tool, { input: "?" })) : [say(results(asked).join(" "))]

interface Answer {
  readonly plan_id: string
  readonly session_id: string
  readonly state: string
  readonly text: string
  readonly code?: string
  readonly retryable?: boolean
  readonly reason?: string
}

const answerOf = ({ structuredContent }: { readonly structuredContent?: unknown }) => structuredContent as Answer

const textOf = ({ content }: { readonly content?: unknown }) => {
  const [first] = content as ReadonlyArray<{ readonly type: string; readonly text: string }>
  return first?.text ?? assert.fail("no text")
}

describe.each(clients)("the %s", (_, connect, revision) => {
  it.live("gets an answer out of two peers", () =>
    Effect.gen(function* () {
      const ann = yield* ScriptedPeer.serve({ acts: [produces("knots"), completes()] })
      const bob = yield* ScriptedPeer.serve({ acts: [produces("ropes"), completes()] })
      const agents = [agentAt("ann", ann.url), agentAt("bob", bob.url)]
      const { url } = yield* start(askAll("ann_ask", "bob_ask"), yield* file({ agents }))
      const client = yield* connect(url)
      assert.strictEqual(client.revision, revision)
      const result = yield* client.call("plan", { question: "What do you know?" })
      const answer = answerOf(result)
      assert.isNotTrue(result.isError)
      assert.strictEqual(answer.state, "completed")
      assert.match(answer.text, /knots[^]*ropes/)
      assert.deepStrictEqual(JSON.parse(textOf(result)), answer)
      const stored = yield* send(`${url}/plans/${answer.plan_id}`)
      assert.deepInclude(stored.body, { state: "completed", session_id: answer.session_id })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("sees the tools that its caller may use, and asks a preset", () =>
    Effect.gen(function* () {
      const environment = yield* file({
        presets: { knots: { description: "Knows knots" }, sky: {} },
        permissions: { ann: { presets: { allow: ["k*"] } } }
      })
      const { url } = yield* start(() => [say("a bowline")], { ...environment, BOWLINE_API_KEYS: "ann=key-of-ann" })
      const client = yield* connect(url, { key: "key-of-ann" })
      const tools = yield* client.tools
      assert.deepStrictEqual(
        tools.map(({ name }) => name),
        ["plan", "plan_result", "plan_cancel", "ask_knots"]
      )
      assert.deepInclude(tools[3], { description: "Knows knots" })
      assert.isTrue(tools.every(({ outputSchema }) => outputSchema !== undefined))
      const answer = answerOf(yield* client.call("ask_knots", { question: "Which one?" }))
      assert.strictEqual(answer.text, "a bowline")
      const stored = yield* send(`${url}/plans/${answer.plan_id}`, { headers: { authorization: "Bearer key-of-ann" } })
      assert.strictEqual(stored.body["preset"], "knots")
      assert.isTrue(Exit.isFailure(yield* Effect.exit(client.call("ask_sky", { question: "?" }))))
    })
  )

  it.live("gets the plan of a stuck peer as it is when wait_ms is over, cancels it, and the peer is told", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [stuck] })
      const { url } = yield* start(askAll("ann_ask"), yield* file({ agents: [agentAt("ann", peer.url)] }))
      const client = yield* connect(url)
      const answer = answerOf(yield* client.call("plan", { question: "?", wait_ms: 0 }))
      assert.strictEqual(answer.state, "running")
      assert.include(answer.text, "plan_result")
      yield* peer.awaitSeen(({ sends }) => sends.length === 1)
      const { plan_id } = answer
      assert.strictEqual(answerOf(yield* client.call("plan_result", { plan_id, wait_ms: 1 })).state, "running")
      const waiting = yield* Effect.forkChild(client.call("plan_result", { plan_id }), { startImmediately: true })
      const cancelled = yield* client.call("plan_cancel", { plan_id })
      assert.isNotTrue(cancelled.isError)
      assert.deepInclude(answerOf(cancelled), { state: "aborted", reason: "cancelled", retryable: false })
      const seen = yield* Fiber.join(waiting)
      assert.isTrue(seen.isError)
      assert.deepInclude(answerOf(seen), { state: "aborted", code: "aborted", reason: "cancelled" })
      yield* peer.cancelled
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("ends its plan, and the peer's task, when it gives the call up", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [stuck] })
      const { url } = yield* start(askAll("ann_ask"), yield* file({ agents: [agentAt("ann", peer.url)] }))
      const client = yield* connect(url)
      const leaving = new AbortController()
      const calling = yield* Effect.forkChild(
        Effect.exit(client.call("plan", { question: "?" }, { signal: leaving.signal })),
        { startImmediately: true }
      )
      yield* peer.awaitSeen(({ sends }) => sends.length === 1)
      leaving.abort()
      yield* peer.cancelled
      assert.isTrue(Exit.isFailure(yield* Fiber.join(calling)))
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("reads how a plan failed, and whether it may be asked again", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(429)]], { BOWLINE_MAX_RETRIES: "0" })
      const result = yield* (yield* connect(url)).call("plan", { question: "?" })
      assert.isTrue(result.isError)
      assert.deepInclude(answerOf(result), { state: "failed", code: "provider_rate_limited", retryable: true })
    })
  )

  it.live("gets the answer all the same when the provider resets", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("bad"), reset], [say("good")]], { BOWLINE_RETRY_BASE: "1ms" })
      const { state, text } = answerOf(yield* (yield* connect(url)).call("plan", { question: "?" }))
      assert.deepStrictEqual([state, text], ["completed", "good"])
    })
  )

  it.live("waits no longer for a stuck peer than its preset allows, and learns that the time was over", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [stuck] })
      const knots = { agents: [agentAt("ann", peer.url)], preferences: { timeout_ms: 6_000 } }
      const { url } = yield* start(askAll("ann_ask"), yield* file({ presets: { knots } }))
      const result = yield* (yield* connect(url)).call("ask_knots", { question: "?" })
      assert.isTrue(result.isError)
      assert.deepInclude(answerOf(result), { state: "aborted", reason: "deadline", retryable: true })
      yield* peer.cancelled
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("reads which arguments are wrong", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")]])
      const client = yield* connect(url)
      for (const [tool, input, ...paths] of [
        ["plan", {}, "question"],
        ["plan", { question: " ", wait_ms: 300_001, agents: [] }, "question", "wait_ms", "agents"],
        ["plan", { question: "?", preset: "none" }, "preset"],
        ["plan_result", { plan_id: "plan_1" }, "plan_id"]
      ] as const) {
        const result = yield* client.call(tool, input)
        const { error } = JSON.parse(textOf(result)) as {
          readonly error: { readonly code: string; readonly issues: ReadonlyArray<{ readonly path: string }> }
        }
        assert.isTrue(result.isError)
        assert.strictEqual(error.code, "invalid_request")
        assert.sameMembers(
          error.issues.map(({ path }) => path),
          paths
        )
      }
      const unknown = yield* client.call("plan_result", { plan_id: `plan_${"0".repeat(36)}` })
      assert.include(textOf(unknown), "not_found")
      assert.deepStrictEqual((yield* send(`${url}/plans`)).body["plans"], [])
    })
  )

  it.live("does not connect with a wrong key", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")]], { BOWLINE_API_KEYS: "ann=key-of-ann" })
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.scoped(connect(url, { key: "wrong" })))))
    })
  )

  it.live("sees what its plan does, in numbers that grow", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [produces("knots"), completes()] })
      const { url } = yield* start(askAll("ann_ask"), yield* file({ agents: [agentAt("ann", peer.url)] }))
      const told: Array<{ readonly progress: number; readonly message?: string | undefined }> = []
      yield* (yield* connect(url)).call(
        "plan",
        { question: "?" },
        { onprogress: (progress) => void told.push(progress) }
      )
      assert.strictEqual(told[0]?.message, "step 1")
      assert.deepStrictEqual(
        told.map(({ progress }) => progress),
        told.map((_, index) => index + 1)
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

describe("an approval", () => {
  const script: Script = (asked) =>
    results(asked).length === 0 ? [callTool("ann_ask", { input: "7" })] : [say(results(asked).join())]

  const gateway = Effect.gen(function* () {
    const peer = yield* ScriptedPeer.serve({ acts: [produces("paid"), completes()] })
    return yield* start(script, yield* file({ agents: [agentAt("ann", peer.url, { approval: "always" })] }))
  })

  it.live.each([
    [{ action: "accept", content: { decision: "approve" } }, "completed", /paid/],
    [{ action: "accept", content: { decision: "reject", note: "too much" } }, "completed", /too much/],
    [{ action: "decline" }, "completed", /reject/],
    [{ action: "cancel" }, "input-required", /approvals/]
  ] as const)("is asked of the client's user, who may say %j", ([reply, state, text]) =>
    Effect.gen(function* () {
      const { url } = yield* gateway
      let asked = 0
      const elicit = () => {
        asked++
        return reply
      }
      const client = yield* modernClient(url, { elicit })
      const answer = answerOf(yield* client.call("plan", { question: "?" }))
      assert.deepStrictEqual([asked, answer.state], [1, state])
      assert.match(answer.text, text)
      if (state !== "completed") yield* client.call("plan_cancel", { plan_id: answer.plan_id })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each(clients)("is left to its route where the client cannot ask: %s", ([, connect]) =>
    Effect.gen(function* () {
      const { url } = yield* gateway
      const client = yield* connect(url)
      const answer = answerOf(yield* client.call("plan", { question: "?" }))
      assert.strictEqual(answer.state, "input-required")
      const path = /POST (\S+)/.exec(answer.text)?.[1] ?? assert.fail(answer.text)
      const headers = { "content-type": "application/json" }
      const decided = yield* send(`${url}${path}`, { method: "POST", headers, body: `{"decision":"approve"}` })
      assert.strictEqual(decided.status, 200)
      const { plan_id } = answer
      assert.include(answerOf(yield* client.call("plan_result", { plan_id })).text, "paid")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
