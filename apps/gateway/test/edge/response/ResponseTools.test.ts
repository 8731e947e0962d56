import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { createOpenAI } from "@ai-sdk/openai"
import { assert, describe, it } from "@effect/vitest"
import { Agent, hostedMcpTool, OpenAIProvider, Runner } from "@openai/agents"
import { generateText, type ModelMessage, streamText } from "ai"
import { Effect, Schedule } from "effect"
import OpenAI from "openai"
import { post, send, start } from "../../http/RunningGateway.ts"

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

  it.live("wait for a person who decides in an unchanged program of @openai/agents", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const output = yield* Effect.promise(async () => {
        const modelProvider = new OpenAIProvider({ baseURL: `${url}/v1`, apiKey: "none" })
        const runner = new Runner({ modelProvider, tracingDisabled: true })
        const weather = { serverLabel: "weather", serverUrl: `${server.url}/mcp`, requireApproval: "always" as const }
        const agent = new Agent({ name: "asker", model: "bowline", tools: [hostedMcpTool(weather)] })
        const { interruptions, state } = await runner.run(agent, ask.input)
        for (const interruption of interruptions) state.approve(interruption)
        assert.lengthOf(interruptions, 1)
        return (await runner.run(agent, state)).finalOutput
      })
      assert.include(output, "clear in Oslo")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each([false, true])(
    "wait for a person who decides in an unchanged program of the AI SDK, streamed: %s",
    (isStreamed) =>
      Effect.gen(function* () {
        const server = yield* serve
        const { url } = yield* start(script)
        const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" })
        const weather = { serverLabel: "weather", serverUrl: `${server.url}/mcp`, requireApproval: "always" as const }
        const tools = { mcp: openai.tools.mcp(weather) }
        const messages: Array<ModelMessage> = [{ role: "user", content: ask.input }]
        const turn = () =>
          Effect.promise(async () => {
            const asked = { model: openai.responses("bowline"), messages, tools, maxRetries: 0 }
            const result = isStreamed ? streamText(asked) : await generateText(asked)
            const [content, text, step] = await Promise.all([result.content, result.text, result.finalStep])
            messages.push(...step.response.messages)
            return { approval: content.find((part) => part.type === "tool-approval-request"), text }
          })
        // The second time it repeats what it has decided before.
        for (const question of ["And now?", undefined]) {
          const { approval } = yield* turn()
          const approvalId = approval?.approvalId ?? assert.fail()
          const approved = {
            type: "tool-approval-response" as const,
            approvalId,
            approved: true,
            providerExecuted: true
          }
          messages.push({ role: "tool", content: [approved] })
          assert.include((yield* turn()).text, "clear in Oslo")
          if (question !== undefined) messages.push({ role: "user", content: question })
        }
      }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("end their stream with the approval request, behind which the client reads on", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const tools = [toolAt(server.url, "always")]
      const read = (stream: AsyncIterable<OpenAI.Responses.ResponseStreamEvent>) =>
        Effect.promise(async () => {
          const events: Array<OpenAI.Responses.ResponseStreamEvent> = []
          for await (const event of stream) events.push(event)
          return events
        })
      const events = yield* read(yield* Effect.promise(() => responses(url).create({ ...ask, tools, stream: true })))
      const last = events.at(-1)
      const first = last?.type === "response.completed" ? last.response : assert.fail()
      assert.strictEqual(first.status, "in_progress")
      assert.deepStrictEqual(typesOf(first), ["message", "mcp_approval_request"])
      const [starting_after = -1] = [last?.sequence_number]
      const rest = yield* Effect.promise(() => responses(url).retrieve(first.id, { stream: true, starting_after }))
      const [, plan = "", task = ""] = /^mcpr_(.{36})_(.+)$/.exec(first.output[1]?.id ?? "") ?? []
      yield* post(`${url}/plans/plan_${plan}/approvals/${task}`, { decision: "approve" })
      const behind = yield* read(rest)
      assert.strictEqual(behind[0]?.sequence_number, starting_after + 1)
      assert.strictEqual(behind.at(-1)?.type, "response.completed")
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("let a client ask on that repeats what it has decided about a response that is gone", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const tools = [toolAt(server.url, "always")]
      const first = yield* Effect.promise(() => responses(url).create({ ...ask, tools }))
      const approval_request_id = first.output.find((item) => item.type === "mcp_approval_request")?.id ?? assert.fail()
      const approve = { type: "mcp_approval_response", approval_request_id, approve: true }
      const gone = { ...approve, approval_request_id: approval_request_id.replace(/.$/, "x") }
      yield* send(`${url}/v1/responses/${first.id}`, { method: "DELETE" })
      const old = [{ role: "user", content: ask.input }, approve, gone]
      const input = [...old, { role: "user", content: "And now?" }]
      const next = yield* post(`${url}/v1/responses`, { ...ask, input })
      assert.strictEqual(next.status, 200)
      assert.strictEqual(next.headers.get("x-bowline-ignored"), "input[1], input[2]")
      const alone = yield* post(`${url}/v1/responses`, { ...ask, input: old.slice(0, 2) })
      assert.strictEqual(alone.status, 404)
    }).pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))
  )

  it.live("go on in the same stream of a background response when the native route decides", () =>
    Effect.gen(function* () {
      const server = yield* serve
      const { url } = yield* start(script)
      const stream = yield* Effect.promise(() =>
        responses(url).create({ ...ask, tools: [toolAt(server.url, "always")], background: true, stream: true })
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
