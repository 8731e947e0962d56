import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { results } from "@bowline/testing/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import OpenAI from "openai"
import { post, send, start } from "../http/RunningGateway.ts"

const responses = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).responses

const script: Parameters<typeof start>[0] = (asked) =>
  results(asked).length === 0
    ? [say("I look."), callTool("weather_forecast", { city: "Oslo" })]
    : [say(JSON.stringify({ said: results(asked).join() }))]

const serve = ScriptedMcpServer.serve({
  list: () => ({ tools: [{ name: "forecast", inputSchema: { type: "object" } }] }),
  call: (request) =>
    Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "clear in Oslo" }] }))
})

const toolAt = (url: string, require_approval: "always" | "never") => ({
  type: "mcp" as const,
  server_label: "weather",
  server_url: `${url}/mcp`,
  authorization: "secret-token",
  headers: { "x-tenant": "secret-tenant" },
  require_approval
})

const ask = { model: "bowline", input: "How is it?" }

/** The response once it waits for an approval, and the request for that. */
const waiting = (url: string, id: string) =>
  Effect.promise(() => responses(url).retrieve(id)).pipe(
    Effect.map(({ output, status }) => {
      const request = output.find((item) => item.type === "mcp_approval_request")
      return request === undefined ? undefined : { request, status }
    }),
    Effect.repeat({ until: (found) => found !== undefined, schedule: Schedule.spaced("20 millis") }),
    Effect.map((found) => found ?? assert.fail())
  )

const typesOf = ({ output }: Pick<OpenAI.Responses.Response, "output">) => output.map(({ type }) => type)

describe("the MCP servers of a response", () => {
  it.live("are called by the planner, and shown without their secrets", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const tools = [toolAt(server.url, "never")]
      const schema = { type: "object", properties: { said: { type: "string" } }, required: ["said"] }
      const text = { format: { type: "json_schema" as const, name: "said", schema } }
      const { data, response } = yield* Effect.promise(() =>
        responses(url)
          .create({ ...ask, tools, text })
          .withResponse()
      )
      assert.deepStrictEqual(typesOf(data), ["message", "mcp_call", "message"])
      assert.deepInclude(
        data.output.find(({ type }) => type === "mcp_call"),
        {
          server_label: "weather",
          name: "forecast",
          arguments: `{"city":"Oslo"}`,
          output: "clear in Oslo",
          status: "completed",
          error: null
        } as object
      )
      assert.deepStrictEqual<unknown>(data.tools, [
        { type: "mcp", server_label: "weather", server_url: `${server.url}/mcp`, require_approval: "never" }
      ])
      const parse = () => responses(url).parse({ ...ask, tools, text })
      assert.match(JSON.stringify((yield* Effect.promise(parse)).output_parsed), /clear in Oslo/)
      const stored = yield* send(`${url}/v1/responses/${data.id}`)
      assert.notInclude(stored.text + JSON.stringify(Array.from(response.headers)), "secret-")
      const [asked] = yield* server.asked
      assert.isDefined(asked)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each([
    [true, undefined, ["mcp_call", "message"], "clear in Oslo"],
    [false, "Too dear", ["mcp_call", "message"], "Too dear"]
  ] as const)("wait for an approval, which a response to the request decides: %s", ([approve, reason, types, said]) =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const first = yield* Effect.promise(() =>
        responses(url).create({ ...ask, tools: [toolAt(server.url, "always")], background: true })
      )
      const { request, status } = yield* waiting(url, first.id)
      assert.strictEqual(status, "in_progress")
      assert.deepInclude(request, { server_label: "weather", name: "forecast", arguments: `{"city":"Oslo"}` })
      const answer = { type: "mcp_approval_response" as const, approval_request_id: request.id, approve }
      const decided = yield* Effect.promise(() =>
        responses(url).create({
          model: "bowline",
          previous_response_id: first.id,
          input: [{ ...answer, ...(reason !== undefined && { reason }) }]
        })
      )
      assert.deepInclude(decided, { id: `${first.id}_2`, previous_response_id: first.id })
      assert.deepStrictEqual(yield* Effect.promise(() => responses(url).retrieve(decided.id)), decided)
      const whole = yield* Effect.promise(() => responses(url).retrieve(first.id))
      assert.deepStrictEqual<ReadonlyArray<string>>(typesOf(whole), ["message", "mcp_approval_request", ...types])
      assert.strictEqual(decided.status, "completed")
      assert.deepStrictEqual<ReadonlyArray<string>>(typesOf(decided), types)
      assert.include(decided.output_text, said)
      const call = decided.output.find((item) => item.type === "mcp_call")
      assert.deepInclude(call, { approval_request_id: request.id, status: approve ? "completed" : "failed" } as object)
      const other = yield* post(`${url}/v1/responses`, {
        ...ask,
        previous_response_id: first.id,
        input: [{ ...answer, approve: !approve }]
      })
      assert.deepStrictEqual([other.status, other.headers.get("x-should-retry")], [409, "false"])
      assert.deepNestedInclude(other.body, { "error.code": "approval_conflict" })
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("answer with the approval request, and wait on when the client has left with it", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const tools = [toolAt(server.url, "always")]
      const first = yield* Effect.promise(() => responses(url).create({ ...ask, tools }))
      assert.strictEqual(first.status, "in_progress")
      const request = first.output.find((item) => item.type === "mcp_approval_request")
      const approve = { type: "mcp_approval_response" as const, approval_request_id: request?.id ?? "", approve: true }
      // As a client sends it that keeps the history itself.
      const input = [{ role: "user" as const, content: ask.input }, ...first.output, approve]
      const decided = yield* post(`${url}/v1/responses`, { model: "bowline", input })
      assert.deepInclude(decided.body, { id: `${first.id}_2`, status: "completed" })
      assert.include(decided.text, "clear in Oslo")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("go on in the same stream when the native route decides", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const stream = yield* Effect.promise(() =>
        responses(url).create({ ...ask, tools: [toolAt(server.url, "always")], stream: true })
      )
      const types = yield* Effect.promise(async () => {
        const types: Array<string> = []
        for await (const event of stream) {
          types.push(event.type)
          if (event.type !== "response.output_item.done" || event.item.type !== "mcp_approval_request") continue
          const [, plan = "", task = ""] = /^mcpr_(.{36})_(.+)$/.exec(event.item.id) ?? []
          await fetch(`${url}/plans/plan_${plan}/approvals/${task}`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ decision: "approve" })
          })
        }
        return types
      })
      assert.strictEqual(types.at(-1), "response.completed")
      assert.include(types, "response.mcp_call.completed")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )
})
