import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { payloads, post, send, start } from "./RunningGateway.ts"

const stream = { accept: "text/event-stream" }

/** A server over stdio: it says what it was started with, and leaves its process id. */
const program = `
import { writeFileSync } from "node:fs"
import { createInterface } from "node:readline"
writeFileSync(process.argv[2], String(process.pid))
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n")
const serverInfo = { name: "files", version: "1.0.0" }
const results = {
  initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo },
  "tools/list": { tools: [{ name: "environment", inputSchema: { type: "object" } }] },
  "tools/call": { content: [{ type: "text", text: Object.keys(process.env).sort().join() }] }
}
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line)
  if (method in results) say({ id, result: results[method] })
  else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } })
})
`

/** A gateway with these servers in its file, which is in one folder with the program. */
const startWith = Effect.fnUntraced(function* (
  servers: ReadonlyArray<object>,
  script: Parameters<typeof start>[0],
  environment: Readonly<Record<string, string>> = {}
) {
  const file = JSON.stringify({ mcp_servers: servers })
  const folder = yield* folderOf({ "gateway.json": file, "server.mjs": program })
  const inFolder = (name: string) => join(folder, name)
  const given = { BOWLINE_CONFIG: inFolder("gateway.json"), FOLDER: folder, PATH: process.env["PATH"] ?? "" }
  const { url } = yield* start(script, { ...given, ...environment })
  return { url, inFolder }
})

const files = {
  name: "files",
  command: process.execPath,
  args: ["$FOLDER/server.mjs", "$FOLDER/pid"],
  env: { FILES_TOKEN: "$FOLDER" }
}

const serve = ScriptedMcpServer.serve({
  list: () => ({ tools: [{ name: "forecast", inputSchema: { type: "object" } }] }),
  call: (request) => Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear" }] }))
})

describe("MCP servers of the configuration", () => {
  it.live("give their tools to every plan that names no preset, though the egress rules deny them to callers", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const weather = {
        name: "weather",
        url: `${server.url}/mcp`,
        auth: { type: "bearer_env", env_var: "TOKEN" },
        headers: { "x-tenant": "$TENANT" },
        allowed_tools: ["forecast", "tides"]
      }
      const environment = { TOKEN: "token-of-weather", TENANT: "acme", BOWLINE_EGRESS_DENY: "127.0.0.1" }
      const asking = [[callTool("weather_forecast", {})], [say("ok")], [say("ok")]]
      const { url } = yield* startWith([weather], asking, environment)
      const { text } = yield* post(`${url}/plan`, { question: "?" }, stream)
      assert.deepNestedInclude(payloads(text, "task.started")[0], { kind: "mcp", agent: "weather" })
      assert.deepNestedInclude(payloads(text, "task.artifact")[0], { content: "clear" })
      assert.deepNestedInclude(payloads(text, "notice")[0], { code: "tool_missing", "data.tools[0].tool": "tides" })
      for (const { headers } of yield* server.requests) {
        assert.deepInclude(headers, { authorization: "Bearer token-of-weather", "x-tenant": "acme" })
      }
      const { body } = yield* send(`${url}/peers`)
      const status = { url: `${server.url}/mcp`, revision: "2025-11-25", error: null, error_at: null }
      assert.deepNestedInclude(body, { "mcp_servers[0].configured": [{ preset: "default", name: "weather" }] })
      const [{ calls, ...shown }] = body["mcp_servers"] as [{ readonly calls: object }]
      assert.deepInclude(shown, status)
      assert.deepInclude(calls, { calls: 1, failures: 0, last_error: null })

      const listed = yield* send(`${url}/peers/tools?name=weather`)
      const tool = { tool: "weather_forecast", skill: "forecast", description: "", input_schema: { type: "object" } }
      assert.deepStrictEqual(listed.body, { tools: [tool], error: null })
      const call = { agent: "weather", skill: "forecast", input: {} }
      const tried = yield* post(`${url}/plan`, { question: "Try it", call })
      assert.deepNestedInclude(tried.body, { state: "completed", "final.text": "clear" })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("may be commands, which know nothing of the gateway's environment, and end with the gateway", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.fork(yield* Effect.scope)
      const asking = [[callTool("files_environment", {})], [say("ok")]]
      const gateway = startWith([files], asking, { OPENAI_API_KEY: "planted-secret" })
      const { inFolder, url } = yield* Scope.provide(gateway, scope)
      const { text } = yield* post(`${url}/plan`, { question: "?" }, stream)
      assert.deepNestedInclude(payloads(text, "task.artifact")[0], { content: "FILES_TOKEN,PATH" })
      const shown = yield* send(`${url}/peers`)
      const status = { url: "stdio:files", revision: "2025-11-25", error: null }
      const [shownFiles] = shown.body["mcp_servers"] as ReadonlyArray<object>
      assert.deepInclude(shownFiles, status)
      const pid = Number(readFileSync(inFolder("pid"), "utf8"))
      assert.isAbove(pid, 1)
      assert.isTrue(process.kill(pid, 0))
      yield* Scope.close(scope, Exit.void)
      assert.throws(() => process.kill(pid, 0), /ESRCH/)
    }).pipe(Effect.scoped)
  )

  it.live("cost their tools where they cannot be reached, and the plan where they are required", () =>
    Effect.gen(function* () {
      const lost = { name: "lost", command: "/nowhere/at-all" }
      const { url } = yield* startWith([lost], [[say("ok")]])
      const { text } = yield* post(`${url}/plan`, { question: "?" }, stream)
      assert.deepNestedInclude(payloads(text, "notice")[0], {
        code: "mcp_unreachable",
        message: "The MCP server lost cannot be reached. The server's process cannot be started (NotFound)"
      })
      assert.lengthOf(payloads(text, "final"), 1)
      const required = yield* startWith([{ ...lost, required: true }], [[say("ok")]])
      const told = yield* send(`${url}/peers/tools?name=lost`)
      assert.deepInclude(told.body, { tools: [], error: "The server's process cannot be started (NotFound)" })
      assert.strictEqual((yield* send(`${url}/peers/tools?name=nobody`)).status, 404)
      const { text: failed } = yield* post(`${required.url}/plan`, { question: "?" }, stream)
      assert.deepNestedInclude(payloads(failed, "error")[0], { code: "mcp_unreachable", stage: "tool" })
    }).pipe(Effect.scoped)
  )

  it.live("leave no request a server of the same name, and no request a command", () =>
    Effect.gen(function* () {
      const { url } = yield* startWith([files], [])
      const twin = { question: "?", mcp_servers: [{ name: "files", url: "https://mcp.example/" }] }
      const clash = yield* post(`${url}/plan`, twin)
      assert.strictEqual(clash.status, 400)
      assert.deepNestedInclude(clash.body, {
        "issues[0]": {
          path: "mcp_servers[0].name",
          message: "Expected another name than that of files, a server of the preset default"
        }
      })
      const command = { question: "?", mcp_servers: [{ name: "x", command: "rm", args: ["-rf"] }] }
      const refused = yield* post(`${url}/plan`, command)
      assert.strictEqual(refused.status, 400)
      const why = "Expected a url instead: only the gateway's configuration may name a command"
      assert.include(refused.text, JSON.stringify({ path: "mcp_servers[0].command", message: why }))
    }).pipe(Effect.scoped)
  )
})
