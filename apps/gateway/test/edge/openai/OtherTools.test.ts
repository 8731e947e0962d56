import { HttpAgent } from "@ag-ui/client"
import { type Asked, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls as isComplete } from "ai"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import type OpenAI from "openai"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { Cluster } from "../../plan/Cluster.ts"
import { post, send, start, startOn, stores } from "../../http/RunningGateway.ts"
import { ask as askChat, lastOf, openWith, until } from "../ui/Chat.ts"
import { client } from "./ChatClient.ts"

const schema = { type: "object", properties: { among: { type: "integer" } } }
const own = (name: string) => ({ name, description: `Does ${name}`, parameters: schema })
const tool = (name: string) => ({ type: "function" as const, function: own(name) })

const offered = ({ tools }: Asked) => tools.map(({ name }) => name)

/** Calls the tool that it is offered, three times, and then says what it was offered last. */
const thrice = (asked: Asked) =>
  results(asked).length < 3
    ? [callTool(offered(asked)[0] ?? "none", { among: results(asked).length })]
    : [say(`Offered: ${offered(asked).join()}`)]

type Message = OpenAI.ChatCompletionMessageParam

/** A conversation of a client whose tools change from one request to the next; in place of undefined it names none. */
const converse = Effect.fnUntraced(function* (urls: ReadonlyArray<string>, names: ReadonlyArray<string | undefined>) {
  const messages: Array<Message> = [{ role: "user", content: "Which one?" }]
  const ids = new Set<string>()
  const called: Array<string> = []
  for (const [index, name] of names.entries()) {
    const tools = name === undefined ? {} : { tools: [tool(name)] }
    const { choices, id } = yield* Effect.promise(() =>
      client(urls[index] ?? urls[0] ?? "").chat.completions.create({ model: "bowline", messages, ...tools })
    )
    ids.add(id)
    const message = choices[0]?.message ?? assert.fail()
    messages.push(message)
    for (const call of message.tool_calls ?? []) {
      if (call.type === "function") called.push(call.function.name)
      messages.push({ role: "tool", tool_call_id: call.id, content: "red" })
    }
  }
  return { called, content: messages.at(-1)?.content, plans: ids.size }
})

describe("other tools that the client names for a plan that goes on", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`hold from the next step on, and as long as no others come (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(thrice)
        const told = yield* converse([url], ["pick", "paint", undefined, "pick"])
        assert.deepStrictEqual(told, { called: ["pick", "paint", "paint"], content: "Offered: pick", plans: 1 })
      })
    )
  }

  it.live("are none with tool_choice none, and are refused by the names of the body", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0 ? thrice(asked) : [say(`Offered: ${offered(asked).join()}`)]
      )
      const ask = { model: "bowline", messages: [{ role: "user", content: "?" }], tools: [tool("pick")] }
      const chat = (body: object) => post(`${url}/v1/chat/completions`, { ...ask, ...body })
      const first = (yield* chat({})).body as unknown as OpenAI.ChatCompletion
      const id = first.choices[0]?.message.tool_calls?.[0]?.id
      const messages = [...ask.messages, first.choices[0]?.message, { role: "tool", tool_call_id: id, content: "red" }]
      const wrong = { type: "function", function: { name: "pick", parameters: { type: 7 } } }
      const refused = yield* chat({ messages, tools: [tool("ok"), wrong] })
      assert.strictEqual(refused.status, 400)
      assert.deepNestedInclude(refused.body, { "error.param": "tools[1].function.parameters" })
      const none = yield* chat({ messages, tool_choice: "none" })
      assert.deepNestedInclude(none.body, { "choices[0].message.content": "Offered: " })
    })
  )

  it.live("hold in Responses, too", () =>
    Effect.gen(function* () {
      const { url } = yield* start(thrice)
      const responses = client(url).responses
      const create = (
        name: string,
        rest: Pick<OpenAI.Responses.ResponseCreateParamsNonStreaming, "input">,
        previous?: string
      ) =>
        Effect.promise(() =>
          responses.create({
            model: "bowline",
            tools: [{ type: "function", strict: false, ...own(name) }],
            ...rest,
            ...(previous !== undefined && { previous_response_id: previous })
          })
        )
      const called: Array<string> = []
      let response = yield* create("pick", { input: "Which one?" })
      for (const name of ["paint", "paint", "pick"]) {
        const calls = response.output.filter((item) => item.type === "function_call")
        called.push(...calls.map((call) => call.name))
        const input = calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "red" }))
        response = yield* create(name, { input }, response.id)
      }
      assert.deepStrictEqual([called, response.output_text], [["pick", "paint", "paint"], "Offered: pick"])
    })
  )

  it.live("hold in the AI SDK's chat and in AG-UI", () =>
    Effect.gen(function* () {
      const { url } = yield* start(thrice)
      let now = "pick"
      const called: Array<string> = []
      const body = () => ({ tools: [{ name: now, input_schema: schema }] })
      const chat = openWith(new DefaultChatTransport({ api: `${url}/ui/chat`, body }), {
        sendAutomaticallyWhen: isComplete,
        onToolCall: ({ toolCall: { toolCallId, toolName } }) => {
          called.push(toolName)
          now = "paint"
          void chat.addToolOutput({ tool: toolName, toolCallId, output: "red" })
        }
      })
      yield* askChat(chat)
      yield* until(chat, () => lastOf(chat).at(-1) === "text: Offered: paint")
      assert.deepStrictEqual(called, ["pick", "paint", "paint"])

      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread" })
      agent.addMessage({ id: "q", role: "user", content: "Which one?" })
      for (const name of ["pick", "paint", "paint", "paint"]) {
        yield* Effect.promise(() => agent.runAgent({ tools: [own(name)] }))
        const { messages } = agent
        const last = messages.at(-1)
        const calls = last?.role === "assistant" ? (last.toolCalls ?? []) : []
        for (const { id } of calls) agent.addMessage({ id: `r-${id}`, role: "tool", toolCallId: id, content: "red" })
      }
      assert.deepInclude(agent.messages.at(-1), { content: "Offered: paint" })
      const { body: list } = yield* send(`${url}/plans`)
      assert.lengthOf(list["plans"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("are known to the replica that takes the plan over", () =>
    Effect.gen(function* () {
      const { answer, gateways } = yield* Cluster
      const [here, there] = gateways
      if (here === undefined || there === undefined) return assert.fail()
      answer("Which one?", thrice)
      const messages: Array<Message> = [{ role: "user", content: "Which one?" }]
      const next = Effect.fnUntraced(function* (url: string, name?: string) {
        const tools = name === undefined ? {} : { tools: [tool(name)] }
        const { choices } = yield* Effect.promise(() =>
          client(url).chat.completions.create({ model: "bowline", messages, ...tools })
        )
        const message = choices[0]?.message ?? assert.fail()
        messages.push(message)
        for (const { id } of message.tool_calls ?? []) messages.push({ role: "tool", tool_call_id: id, content: "red" })
        return message.content
      })
      yield* next(here.url, "pick")
      yield* next(here.url, "paint")
      process.kill(here.pid, "SIGKILL")
      yield* next(there.url)
      assert.strictEqual(yield* next(there.url), "Offered: paint")
    }).pipe(
      Effect.provide(
        Layer.unwrap(
          Effect.map(folderOf({ "bowline.yaml": "streams: { takeover_grace: 1s }" }), (folder) =>
            Cluster.layer(2, { BOWLINE_LEASE_TTL: "1s", BOWLINE_CONFIG: join(folder, "bowline.yaml") })
          )
        )
      )
    )
  )
})
