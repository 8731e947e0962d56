import type { Peer } from "@bowline/protocol/unstable/peer/PeersApi"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { becomes, completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { answers } from "@bowline/testing/unstable/peer/Trouble"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

const ask = callTool("bob_ask", { input: "?" })

/** Every plan asks bob, once. */
const askOnce: Script = ({ messages }) => (messages.at(-1)?.role === "tool" ? [say("ok")] : [ask])

const bobAt = ({ url }: { readonly url: string }, fields: object = {}) => ({
  name: "bob",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "ask" }],
  ...fields
})

const sse = { accept: "text/event-stream" }

/** The payloads of the events of this name in the text of a stream. */
const payloads = (text: string, event: string) =>
  Array.from(text.matchAll(new RegExp(`^event: ${event}\ndata: (.+)$`, "gm")), ([, data = "{}"]) => data)

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_ADMIN_CALLERS: "ann" }
const ann = { authorization: "Bearer key-of-ann" }

describe("hops", () => {
  it.live("are limited to what the plan allows, to 5 by default", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      for (const [hops, max_hops, status] of [
        [undefined, 0, 200],
        ["0", 0, 200],
        ["1", 0, 508],
        ["5", undefined, 200],
        ["6", undefined, 508],
        ["6", 6, 200],
        ["999999999999999", 16, 508]
      ] as const) {
        const preferences = max_hops === undefined ? {} : { max_hops }
        const headers = hops === undefined ? {} : { "X-Bowline-Hops": hops }
        const answer = yield* post(`${url}/plan`, { question: "?", preferences }, headers)
        assert.strictEqual(answer.status, status, `${hops} ${max_hops}`)
        if (status === 200) continue
        assert.strictEqual(answer.headers.get("content-type"), "application/problem+json")
        assert.deepInclude(answer.body, { code: "hops_exceeded", status: 508, retryable: false })
      }
    })
  )

  it.live("are a number, and gateways are named by their ids: all else is a 400 that names the header", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      for (const [header, values] of [
        ["x-bowline-hops", ["-1", "1.5", "two", "", "1e3", "1, 2"]],
        ["x-bowline-via", ["", "a b", "a,,b", ",", "ä", "x".repeat(129), Array.from({ length: 65 }, String).join()]]
      ] as const) {
        for (const value of values) {
          const { status, body } = yield* post(`${url}/plan`, { question: "?" }, { [header]: value })
          assert.strictEqual(status, 400, `${header}: ${value}`)
          assert.deepInclude(body, { code: "invalid_request" })
          const [issue] = body["issues"] as ReadonlyArray<{ readonly path: string }>
          assert.strictEqual(issue?.path, header, value)
        }
      }
      const sane = yield* post(`${url}/plan`, { question: "?" }, { "x-bowline-hops": "2", "x-bowline-via": "a-1 ,b_2" })
      assert.strictEqual(sane.status, 200)
      assert.strictEqual(((yield* send(`${url}/plans`)).body["plans"] as ReadonlyArray<unknown>).length, 1)
    })
  )

  it.live("are sent to peers with the ids of the gateways, and a plan that comes back is refused", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
      const { url } = yield* start(askOnce)
      const question = { question: "?", agents: [bobAt(peer)] }
      yield* post(`${url}/plan`, question)
      yield* post(`${url}/plan`, question, { "x-bowline-hops": "2", "x-bowline-via": "first,second" })
      const told = (yield* peer.seen).sends.map(({ headers }) => [headers["x-bowline-hops"], headers["x-bowline-via"]])
      const own = told[0]?.[1]
      assert.match(own ?? "", /^[0-9a-f-]{36}$/)
      assert.deepStrictEqual(told, [
        ["1", own],
        ["3", `first,second,${own}`]
      ])
      const back = yield* post(`${url}/plan`, question, { "x-bowline-hops": "2", "x-bowline-via": `${own}, other` })
      assert.deepStrictEqual([back.status, back.body["code"]], [508, "hops_exceeded"])
      assert.strictEqual((yield* peer.seen).sends.length, 2)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("are read by every edge: a gateway that is its own MCP server asks itself once", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("self_plan", { question: "?" })] : [say(results(asked).join())]
      )
      const itself = { question: "?", mcp_servers: [{ name: "self", url: `${url}/mcp`, approval: "never" }] }
      const { body } = yield* post(`${url}/plan`, itself)
      assert.include(JSON.stringify(body["final"]), "hops_exceeded")
      assert.lengthOf(yield* provider.requests.all, 2)
      const messages = [{ role: "user", content: "?" }]
      const call = {
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name: "plan", arguments: { question: "?" } }
      }
      for (const [path, question, status] of [
        ["/v1/chat/completions", { model: "bowline", messages }, 508],
        ["/v1/responses", { model: "bowline", input: "?" }, 508],
        ["/mcp", call, 200],
        ["/ui/chat", { id: "far", messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "?" }] }] }, 508],
        ["/agui", { threadId: "far", runId: "1", messages: [{ id: "1", role: "user", content: "?" }] }, 508]
      ] as const) {
        const far = yield* post(`${url}${path}`, question, { "x-bowline-hops": "6" })
        assert.strictEqual(far.status, status, path)
        assert.include(far.text, "hops_exceeded", path)
        const wrong = yield* post(`${url}${path}`, question, { "x-bowline-hops": "two" })
        assert.strictEqual(wrong.status, 400, path)
        assert.isTrue("error" in wrong.body || wrong.body["code"] === "invalid_request", path)
      }
      assert.lengthOf(yield* provider.requests.all, 2)
    })
  )
})

describe("an agent", () => {
  it.live("continues the task that it has handed back, when the session asks again", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({
        acts: ({ continues }) => [continues ? completes("A bowline") : becomes("input-required", "For which load?")]
      })
      const { url } = yield* start(askOnce)
      const question = { question: "?", session_id: "s", agents: [bobAt(peer)] }
      const states: Array<string | undefined> = []
      for (let asked = 0; asked < 3; asked++) {
        const { text } = yield* post(`${url}/plan`, question, sse)
        states.push(/"state":"([a-z-]+)"/.exec(payloads(text, "task.finished")[0] ?? "")?.[1])
      }
      assert.deepStrictEqual(states, ["input-required", "completed", "input-required"])
      const [first, second, third] = (yield* peer.seen).sends
      assert.deepStrictEqual([second?.taskId, second?.contextId], [first?.taskId, first?.contextId])
      assert.notStrictEqual(third?.taskId, first?.taskId)
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is asked in the context, and with the references, that the request names", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
      const { url } = yield* start(askOnce)
      const named = { context_id: "context of mine", reference_task_ids: ["one", "two"] }
      yield* post(`${url}/plan`, { question: "?", agents: [bobAt(peer, named)] })
      yield* post(`${url}/plan`, { question: "?", agents: [bobAt(peer)] })
      const messages = (yield* peer.seen).sends.map(({ message }) => [message.contextId, message.referenceTaskIds])
      assert.deepStrictEqual(messages, [
        ["context of mine", ["one", "two"]],
        [undefined, undefined]
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is named by the DID that the request pins", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
      const { url } = yield* start(askOnce)
      for (const [fields, expected] of [
        [{ trust: { pinned_did: "did:web:bob" } }, /"agent_did":"did:web:bob","agent_did_source":"pinned"/],
        [{}, /"agent_did":null,"agent_did_source":null/]
      ] as const) {
        const { text } = yield* post(`${url}/plan`, { question: "?", agents: [bobAt(peer, fields)] }, sse)
        assert.match(payloads(text, "task.started")[0] ?? "", expected)
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

describe("peers", () => {
  it.live("are shown to admins with their circuits, which open when calls fail", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("Here")] })
      yield* peer.disturb("message/send", ...Array.from({ length: 5 }, () => answers(500)))
      const { url } = yield* start(askOnce, callers)
      const peers = Effect.map(send(`${url}/peers`, { headers: ann }), ({ body }) => body["peers"])
      assert.deepStrictEqual(yield* peers, [])
      const codes: Array<string | undefined> = []
      for (let asked = 0; asked < 6; asked++) {
        const { text } = yield* post(`${url}/plan`, { question: "?", agents: [bobAt(peer)] }, { ...sse, ...ann })
        codes.push(/"code":"([a-z_]+)"/.exec(payloads(text, "task.finished")[0] ?? "")?.[1])
      }
      assert.deepStrictEqual(codes, ["http", "http", "http", "http", "http", "circuit_open"])
      assert.strictEqual((yield* peer.seen).sends.length, 5)
      const [shown] = (yield* peers) as ReadonlyArray<typeof Peer.Encoded>
      assert.deepInclude(shown, { endpoint: `${peer.url}/`, card: null })
      assert.strictEqual(shown?.breaker.state, "open")
      const left = Date.parse(shown?.breaker.open_until ?? "") - Date.now()
      assert.isTrue(left > 20_000 && left <= 30_000, String(left))
      assert.deepInclude(shown?.calls, { calls: 6, failures: 6 })
      assert.match(shown?.calls.last_error?.message ?? "", /none is made until/)
      assert.isAtMost(Date.parse(shown?.calls.last_error?.at ?? ""), Date.now())
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("are for admins only", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], callers)
      const bob = yield* send(`${url}/peers`, { headers: { authorization: "Bearer key-of-bob" } })
      assert.deepStrictEqual([bob.status, bob.body["code"]], [403, "forbidden"])
      assert.strictEqual((yield* send(`${url}/peers`)).status, 401)
      const tools = yield* send(`${url}/peers/tools?name=x`, { headers: { authorization: "Bearer key-of-bob" } })
      assert.strictEqual(tools.status, 403)
    })
  )
})

describe("a plan with a call", () => {
  it.live("makes that call alone, and asks no provider", () =>
    Effect.gen(function* () {
      const peer = yield* ScriptedPeer.serve({ acts: [completes("A bowline")] })
      const { provider, url } = yield* start(askOnce)
      const call = { agent: "bob", skill: "ask", input: { input: "Which knot?" } }
      const asked = { question: "Try bob", agents: [bobAt(peer), bobAt(peer, { name: "ann" })], call }
      const { body } = yield* post(`${url}/plan`, asked)
      assert.deepNestedInclude(body, { state: "completed", "final.text": "A bowline" })
      assert.lengthOf((yield* peer.seen).sends, 1)
      assert.lengthOf(yield* provider.requests.all, 0)
      const kept = yield* send(`${url}/plans/${String(body["plan_id"])}`)
      assert.deepNestedInclude(kept.body, { steps: 0, tool_calls: 1, "request.call": call })

      for (const [field, wrong, path] of [
        ["agent", "nobody", "call.agent"],
        ["skill", "", "call.skill"]
      ] as const) {
        const refused = yield* post(`${url}/plan`, { ...asked, call: { ...call, [field]: wrong } })
        assert.strictEqual(refused.status, 400)
        assert.deepNestedInclude(refused.body, { "issues[0].path": path })
      }
      const failed = yield* post(`${url}/plan`, { ...asked, call: { ...call, input: { wrong: 1 } } })
      assert.deepNestedInclude(failed.body, { state: "failed", "error.code": "invalid_request" })
      assert.lengthOf((yield* peer.seen).sends, 1)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
