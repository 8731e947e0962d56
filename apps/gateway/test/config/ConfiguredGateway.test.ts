import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as MessagesHost from "@bowline/testing/unstable/provider/MessagesHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Stream } from "effect"
import { join } from "node:path"
import { post, send, start } from "../http/RunningGateway.ts"
import { ask, replay } from "../plan/GatewayProcess.ts"
import { folderOf } from "./file/ConfigFolder.ts"

const script: Script = ({ messages }) =>
  messages.some(({ role }) => role === "tool") ? [say("done")] : [callTool("bob_ask", { input: "?" })]

/** A gateway whose provider, that speaks Messages, is in its file; and a peer that says a lot. */
const configured = Effect.fnUntraced(function* (script: Script, members: object, providerMembers: object = {}) {
  const network = yield* Network
  const provider = yield* network.serve(yield* MessagesHost.make(script))
  const peer = yield* ScriptedPeer.serve({ acts: [completes("x".repeat(20_000))] })
  const providers = [
    {
      name: "local",
      wire: "anthropic-messages",
      base_url: "$PROVIDER_URL",
      headers: { "x-tenant": "acme" },
      api_keys: ["$PROVIDER_KEY"],
      models: { small: { context_window: 2_000, output_limit: 77 } },
      ...providerMembers
    }
  ]
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ providers, ...members }) })
  const { url } = yield* start([], {
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    OPENAI_BASE_URL: "",
    PROVIDER_URL: provider.url,
    PROVIDER_KEY: "key-of-local"
  })
  const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
  const { text } = yield* post(`${url}/plan`, { question: "?", agents }, { accept: "text/event-stream" })
  return { requests: yield* provider.requests.all, text }
}, Effect.provide(LoopbackNetwork.layer))

/** A gateway with this grace, and a plan of it whose only reader has left, having seen the first words. */
const left = Effect.fnUntraced(function* (grace: string, script: Script, preferences: object = {}) {
  const folder = yield* folderOf({ "gateway.yaml": `streams: { grace: ${grace} }` })
  const { url } = yield* start(script, { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
  const seen = yield* ask(url, { question: "?", preferences }).pipe(
    Stream.takeUntil(({ event }) => event === "text.delta"),
    Stream.runCollect
  )
  const last = seen.at(-1)
  const plan = String(last?.data["plan_id"])
  return { url, plan, seen: last?.id ?? 0, shown: Effect.map(send(`${url}/plans/${plan}`), ({ body }) => body) }
})

describe("a gateway with a file", () => {
  it.live("asks the provider of the file, as the file says, and shows its model no more than it has room for", () =>
    Effect.gen(function* () {
      const { requests, text } = yield* configured(script, {})
      assert.match(text, /^event: final$/m)
      const [first, second] = requests
      assert.deepInclude(first?.headers, { "x-api-key": "key-of-local", "x-tenant": "acme" })
      assert.deepInclude(JSON.parse(first?.body ?? ""), { model: "small", max_tokens: 77 })
      assert.include(second?.body, "characters left out")
      const { requests: roomy } = yield* configured(
        script,
        { models: { small: { context_window: 1_000 } } },
        {
          models: { small: { context_window: 100_000 } }
        }
      )
      assert.notInclude(roomy[1]?.body, "characters left out")
    }).pipe(Effect.scoped)
  )

  it.live("applies the timers of the file to the provider, and its egress rules to callers", () =>
    Effect.gen(function* () {
      const silent = yield* configured(
        () => [stall],
        { plans: { max_retries: 0 } },
        { timeouts: { first_token: "50ms" } }
      )
      assert.include(silent.text, "provider_first_token_timeout")
      const fenced = yield* configured(script, { egress: { deny: ["127.0.0.0/8"] } })
      assert.include(fenced.text, "egress_denied")
    }).pipe(Effect.scoped)
  )

  it.live("lets as many plans wait for a session as the file says, and refuses the next one", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "gateway.yaml": "sessions: { max_queue: 1 }" })
      const { url } = yield* start(() => [stall], { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
      const request = { question: "?", session_id: "s" }
      const plans = Effect.map(
        send(`${url}/plans?session_id=s`),
        ({ body }) => (body["plans"] ?? []) as ReadonlyArray<unknown>
      )
      for (const count of [1, 2]) {
        yield* Effect.forkScoped(post(`${url}/plan`, request))
        yield* Effect.repeat(plans, { until: (plans) => plans.length === count })
      }
      const { body, status } = yield* post(`${url}/plan`, request)
      assert.deepStrictEqual(
        [status, body["code"], body["detail"]],
        [409, "session_busy", "1 plans wait for the session"]
      )
    }).pipe(Effect.scoped)
  )

  it.live("makes as many calls of a step at once as the file says, eight without it", () =>
    Effect.gen(function* () {
      for (const [config, expected] of [
        ["{}", 8],
        ["tools: { concurrency: 2 }", 2]
      ] as const) {
        let open = 0
        let most = 0
        const release = Latch.makeUnsafe(false)
        const server = yield* ScriptedMcpServer.serve({
          list: () => ({ tools: [{ name: "wait", inputSchema: { type: "object" } }] }),
          call: (request) =>
            Effect.gen(function* () {
              most = Math.max(most, ++open)
              yield* release.await
              open--
              return ScriptedMcpServer.result(request, { content: [{ type: "text", text: "ok" }] })
            })
        })
        const nine = Array.from({ length: 9 }, (_, number) => callTool("slow_wait", { number }))
        const folder = yield* folderOf({ "gateway.yaml": config })
        const { url } = yield* start([nine, [say("ok")]], { BOWLINE_CONFIG: join(folder, "gateway.yaml") })
        const body = { question: "?", mcp_servers: [{ name: "slow", url: `${server.url}/mcp` }] }
        const asking = yield* Effect.forkChild(post(`${url}/plan`, body))
        // Each look is a round trip: long enough for one more call to arrive.
        const look = Effect.map(send(`${url}/plans`), () => open)
        yield* Effect.repeat(look, { until: (open) => open === expected })
        for (let times = 0; times < 20; times++) assert.strictEqual(yield* look, expected)
        yield* release.open
        assert.deepInclude((yield* Fiber.join(asking)).body["final"], { tool_calls: 9 })
        assert.strictEqual(most, expected)
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("lets a plan run on whose reader comes back within the grace", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { plan, seen, shown, url } = yield* left("1h", [[say("a"), until(Deferred.await(proceed)), say("b")]])
      // Long enough for the gateway to have noticed.
      for (let times = 0; times < 20; times++) assert.strictEqual((yield* shown)["state"], "running")
      const back = yield* Effect.forkChild(Stream.runCollect(replay(url, plan, seen)), { startImmediately: true })
      yield* Deferred.succeed(proceed, undefined)
      const rest = yield* Fiber.join(back)
      assert.deepStrictEqual(
        rest.map(({ event }) => event),
        ["text.delta", "final", "done"]
      )
    }).pipe(Effect.scoped)
  )

  it.live("lets a request say how long, whatever the file says", () =>
    Effect.gen(function* () {
      const waiting = yield* left("0s", [[say("a"), stall]], { disconnect_grace_ms: 600_000 })
      for (let times = 0; times < 20; times++) assert.strictEqual((yield* waiting.shown)["state"], "running")
      yield* post(`${waiting.url}/plans/${waiting.plan}/cancel`, {})
      const { shown: ends } = yield* left("1h", [[say("a"), stall]], { disconnect_grace_ms: 0 })
      const over = yield* Effect.repeat(ends, { until: (plan) => plan["finished_at"] !== null })
      assert.deepInclude(over["error"], { code: "aborted", reason: "disconnect" })
    }).pipe(Effect.scoped)
  )

  it.live("aborts a plan whose reader does not come back within the grace", () =>
    Effect.gen(function* () {
      const { shown } = yield* left("50ms", [[say("a"), stall]])
      const over = yield* Effect.repeat(shown, { until: (plan) => plan["finished_at"] !== null })
      assert.deepInclude(over["error"], { code: "aborted", reason: "disconnect", stage: "provider" })
    }).pipe(Effect.scoped)
  )
})
