import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { payloads, post, send, start } from "./RunningGateway.ts"

const asking = [[callTool("weather_forecast", { city: "Oslo" })], [say("Clear.")]]

const serve = ScriptedMcpServer.serve({
  list: () => ({ tools: [{ name: "forecast", inputSchema: { type: "object" } }] }),
  call: (request) =>
    Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear in Oslo" }] }))
})

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann", BOWLINE_ADMIN_CALLERS: "ann" }
const none = { calls: 0, failures: 0, duration_ms: null, last_error: null }
const ann = { authorization: "Bearer key-of-ann" }

describe("MCP servers of a request", () => {
  it.live("are called, and shown to admins", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(asking, callers)
      const body = { question: "?", mcp_servers: [{ name: "weather", url: `${server.url}/mcp` }] }
      const { text } = yield* post(`${url}/plan`, body, { ...ann, accept: "text/event-stream" })
      assert.deepNestedInclude(payloads(text, "task.started")[0], { kind: "mcp", agent: "weather", skill: "forecast" })
      assert.deepNestedInclude(payloads(text, "task.artifact")[0], { content: "clear in Oslo" })
      assert.deepNestedInclude(payloads(text, "task.finished")[0], { state: "completed" })
      const shown = yield* send(`${url}/peers`, { headers: ann })
      const revision = "2025-11-25"
      const status = { url: `${server.url}/mcp`, revision, error: null, error_at: null, configured: [] }
      assert.deepNestedInclude(shown.body, { "mcp_servers[0]": { ...status, calls: none } })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("get no connection where the egress rules deny their addresses", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start([[say("ok")]], { ...callers, BOWLINE_EGRESS_DENY: "127.0.0.1" })
      const body = { question: "?", mcp_servers: [{ name: "weather", url: `${server.url}/mcp` }] }
      const { text } = yield* post(`${url}/plan`, body, { ...ann, accept: "text/event-stream" })
      const data = { server: "weather", reason: "egress_denied" }
      assert.deepNestedInclude(payloads(text, "notice")[0], { code: "mcp_unreachable", data })
      assert.deepStrictEqual(yield* server.asked, [])
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("may pin 128 tools at most", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], callers)
      const pinned_tools = Object.fromEntries(
        Array.from({ length: 129 }, (_, index) => [`tool-${index}`, `sha256:${"0".repeat(64)}`])
      )
      const mcp_servers = [{ name: "weather", url: "https://mcp.example/", pinned_tools }]
      const { body, status } = yield* post(`${url}/plan`, { question: "?", mcp_servers }, ann)
      assert.strictEqual(status, 400)
      assert.deepNestedInclude(body, { "issues[0].path": "mcp_servers[0].pinned_tools" })
    }).pipe(Effect.scoped)
  )

  it.live("have calls of a tool that may destroy something approved first", () =>
    Effect.gen(function* () {
      const annotations = { destructiveHint: true, readOnlyHint: true }
      const server = yield* ScriptedMcpServer.serve({
        list: () => ({ tools: [{ name: "forecast", inputSchema: { type: "object" }, annotations }] }),
        call: (request) =>
          Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "wiped" }] }))
      })
      const { url } = yield* start(asking, callers)
      const body = { question: "?", mcp_servers: [{ name: "weather", url: `${server.url}/mcp` }] }
      const plan = yield* Effect.forkChild(post(`${url}/plan`, body, { ...ann, accept: "text/event-stream" }))
      const approval = yield* send(`${url}/approvals`, { headers: ann }).pipe(
        Effect.map(({ body }) => (body["approvals"] as ReadonlyArray<Readonly<Record<string, string>>>)[0]),
        Effect.repeat({ until: (shown) => shown !== undefined, schedule: Schedule.spaced("20 millis") })
      )
      assert.deepInclude(approval, { tool: "weather_forecast", why: "sensitive" })
      assert.notInclude(yield* server.asked, "tools/call")
      const path = `${url}/plans/${approval?.["plan_id"]}/approvals/${approval?.["task_id"]}`
      yield* post(path, { decision: "approve" }, ann)
      const { text } = yield* Fiber.join(plan)
      assert.deepNestedInclude(payloads(text, "approval.requested")[0], { why: "sensitive" })
      assert.deepNestedInclude(payloads(text, "task.artifact")[0], { content: "wiped" })
      assert.include(yield* server.asked, "tools/call")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
