import { completes } from "@bowline/testing/peer/Act"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { Agent, OpenAIConversationsSession, OpenAIProvider, Runner, tool } from "@openai/agents"
import { post, send, start } from "../../http/RunningGateway.ts"

const client = (url: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })

const said = (role: "user" | "assistant", content: string) => ({ type: "message" as const, role, content })

/** What each item says, or calls. */
const wordsOf = (items: ReadonlyArray<OpenAI.Conversations.ConversationItem>) =>
  items.map((item) => {
    if (item.type === "mcp_call") return [item.server_label, item.name, item.output?.includes("fine")]
    return item.type === "message" ? item.content.map((part) => ("text" in part ? part.text : "")) : item.type
  })

const errorOf = ({ body, status }: { readonly body: Readonly<Record<string, unknown>>; readonly status: number }) => {
  const { code, param } = body["error"] as { readonly code: string; readonly param: string | null }
  return [status, code, param]
}

describe("a conversation that an unchanged client begins", () => {
  it.live("has what it is given and what responses say in it, and is described and deleted", () =>
    Effect.gen(function* () {
      const peer = yield* Effect.provide(ScriptedPeer.serve({ acts: [completes("fine")] }), LoopbackNetwork.layer)
      const agents = [{ name: "rigger", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }]
      const { provider, url } = yield* start((asked) =>
        results(asked).length === 0 ? [callTool("rigger_ask", { input: "?" })] : [say("Tie it twice.")]
      )
      const { conversations, responses } = client(url)
      const given = [said("user", "Hello"), said("assistant", "Hello. What is it?")]
      const made = yield* Effect.promise(() => conversations.create({ items: given, metadata: { desk: "7" } }))
      assert.match(made.id, /^conv_/)
      assert.deepInclude(made, { object: "conversation", metadata: { desk: "7" } })
      const described = yield* Effect.promise(() => conversations.update(made.id, { metadata: { desk: "8" } }))
      assert.deepStrictEqual(described, { ...made, metadata: { desk: "8" } })
      assert.deepStrictEqual(yield* Effect.promise(() => conversations.retrieve(made.id)), described)

      const body = { model: "bowline", input: "How safe is it?", conversation: made.id, bowline: { agents } }
      const response = yield* Effect.promise(() => responses.create(body))
      assert.deepStrictEqual(response.conversation, { id: made.id })
      const added = yield* Effect.promise(() =>
        conversations.items.create(made.id, { items: [said("user", "Thanks")] })
      )
      assert.deepStrictEqual(wordsOf(added.data), [["Thanks"]])
      const read = yield* Effect.promise(async () => {
        const found: Array<OpenAI.Conversations.ConversationItem> = []
        for await (const item of conversations.items.list(made.id, { order: "asc", limit: 2 })) found.push(item)
        return found
      })
      assert.deepStrictEqual(wordsOf(read), [
        ["Hello"],
        ["Hello. What is it?"],
        ["How safe is it?"],
        ["rigger", "ask", true],
        ["Tie it twice."],
        ["Thanks"]
      ])
      const call = read[3] ?? assert.fail()
      assert.deepStrictEqual(
        yield* Effect.promise(() => conversations.items.retrieve(String(call.id), { conversation_id: made.id })),
        call
      )
      const prompt = (yield* provider.requests.all)[0]?.body ?? ""
      assert.include(prompt, "Hello. What is it?")

      const last = String(read[5]?.id)
      yield* Effect.promise(() => conversations.items.delete(last, { conversation_id: made.id }))
      const at = `${url}/v1/conversations/${made.id}`
      const gap = yield* send(`${at}/items/${String(read[1]?.id)}`, { method: "DELETE" })
      assert.deepStrictEqual(errorOf(gap), [400, "invalid_request", "item_id"])
      const left = yield* Effect.promise(() => conversations.items.list(made.id, { limit: 1 }))
      assert.deepStrictEqual([wordsOf(left.data), left.has_more], [[["Tie it twice."]], true])

      const gone = yield* Effect.promise(() => conversations.delete(made.id))
      assert.deepStrictEqual(gone, { id: made.id, object: "conversation.deleted", deleted: true })
      for (const path of ["", "/items", `/items/${last}`]) {
        assert.strictEqual((yield* send(at + path)).status, 404, path)
      }
      const late = yield* post(`${url}/v1/responses`, body)
      assert.deepStrictEqual(errorOf(late), [400, "invalid_request", "conversation"])
      assert.strictEqual((yield* send(`${url}/v1/responses/${response.id}`)).status, 404)
    })
  )

  it.live("refuses what it cannot keep, by its place, and messages while a response runs in it", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[stall]])
      const items = [
        { type: "function_call_output", call_id: "call_1", output: 7 },
        said("user", " "),
        { ...said("user", ""), role: "system" },
        { ...said("user", ""), content: [{ type: "input_image", image_url: "ftp://example.com/a.png" }] },
        { type: "web_search_call", id: "ws_1", status: "completed" }
      ]
      const refused = yield* post(`${url}/v1/conversations`, { items, metadata: {} })
      assert.deepStrictEqual(errorOf(refused), [400, "invalid_request", "items[0].output"])
      const { message } = refused.body["error"] as { readonly message: string }
      for (const place of ["items[1].content", "items[2].role", "items[3].content[0].image_url", "items[4].type"])
        assert.include(message, place)
      const many = Array.from({ length: 21 }, () => said("user", "?"))
      const tooMany = yield* post(`${url}/v1/conversations`, { items: many })
      assert.deepStrictEqual(errorOf(tooMany), [400, "invalid_request", "items"])

      const { body } = yield* post(`${url}/v1/conversations`, {})
      const id = String(body["id"])
      assert.deepStrictEqual(body["metadata"], {})
      const { body: asked } = yield* post(`${url}/v1/responses`, {
        model: "bowline",
        input: "?",
        conversation: id,
        background: true
      })
      yield* provider.requests.awaitCount(1)
      const busy = yield* post(`${url}/v1/conversations/${id}/items`, { items: [said("user", "more")] })
      assert.deepStrictEqual(errorOf(busy), [409, "session_busy", null])
      yield* send(`${url}/v1/responses/${String(asked["id"])}/cancel`, { method: "POST" })
    })
  )

  it.live("keeps calls, results, reasoning and images as they came, and tells them to the next response", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("So be it.")])
      const { conversations, responses } = client(url)
      const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
      const items: Array<OpenAI.Responses.ResponseInputItem> = [
        {
          role: "user",
          content: [
            { type: "input_text", text: "What is it?" },
            { type: "input_image", image_url: `data:image/png;base64,${pixel}`, detail: "auto" }
          ]
        },
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
        { type: "function_call", call_id: "look-1", name: "look", arguments: '{"at":"it"}' },
        { type: "function_call_output", call_id: "look-1", output: "a knot" },
        { type: "function_call", call_id: "look-2", name: "look", arguments: "{}" },
        {
          type: "function_call_output",
          call_id: "look-2",
          output: [
            { type: "input_text", text: "a bend" },
            { type: "input_image", image_url: `data:image/png;base64,${pixel}`, detail: "auto" }
          ]
        },
        said("assistant", "A knot.")
      ]
      const made = yield* Effect.promise(() => conversations.create({ items }))
      const all = (limit: number, order: "asc" | "desc") =>
        Effect.promise(async () => {
          const found: Array<OpenAI.Conversations.ConversationItem> = []
          for await (const item of conversations.items.list(made.id, { order, limit })) found.push(item)
          return found
        })
      const read = yield* all(2, "asc")
      assert.deepStrictEqual(
        read.map(({ type }) => type),
        [
          "message",
          "reasoning",
          "function_call",
          "function_call_output",
          "function_call",
          "function_call_output",
          "message"
        ]
      )
      assert.deepInclude(read[2], { call_id: "look-1", name: "look", arguments: '{"at":"it"}' })
      assert.deepInclude(read[3], { call_id: "look-1", output: "a knot" })
      const [question, , , , , drawn] = read
      assert.deepNestedInclude(drawn, { "output[0]": { type: "input_text", text: "a bend" }, "output.length": 2 })
      assert.deepNestedInclude(drawn, { "output[1].type": "input_image", "output[1].image_url": null })
      assert.deepNestedInclude(question, { "content[1].type": "input_image" })
      assert.deepStrictEqual(yield* all(2, "desc"), read.toReversed())

      yield* Effect.promise(() => responses.create({ model: "bowline", input: "Sure?", conversation: made.id }))
      const prompt = (yield* provider.requests.all)[0]?.body ?? ""
      for (const told of ["look", "a knot", "a bend", "A knot."]) assert.include(prompt, told)
      assert.lengthOf(prompt.split(pixel), 3)

      const file_id = "file_0194d3c0-7d1c-7000-8000-3f1a5e0c2b4d"
      const unknown = { role: "user", content: [{ type: "input_image", file_id }] }
      const lost = yield* post(`${url}/v1/conversations`, { items: [said("user", "?"), unknown] })
      assert.deepStrictEqual(errorOf(lost), [400, "invalid_request", "items[1].content[0].file_id"])
    })
  )

  it.live("is the session of an unchanged agent, which calls its own function in it", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        asked.tools.some(({ name }) => name === "get_weather") && results(asked).length === 0
          ? [callTool("get_weather", { place: "Oslo" })]
          : [say("It rains.")]
      )
      const bowline = client(url)
      const session = new OpenAIConversationsSession({ client: bowline })
      const get_weather = tool({
        name: "get_weather",
        description: "The weather of a place",
        parameters: {
          type: "object",
          properties: { place: { type: "string" } },
          required: ["place"],
          additionalProperties: false
        },
        strict: true,
        execute: () => "rain"
      })
      const runner = new Runner({
        modelProvider: new OpenAIProvider({ openAIClient: bowline, useResponses: true }),
        tracingDisabled: true
      })
      const agent = new Agent({ name: "sailor", instructions: "Be brief.", model: "bowline", tools: [get_weather] })
      const run = (question: string) => Effect.promise(() => runner.run(agent, question, { session }))
      assert.strictEqual((yield* run("How is the weather?")).finalOutput, "It rains.")
      const typesOf = Effect.map(
        Effect.promise(() => session.getItems()),
        (items) => items.map(({ type }) => type)
      )
      const first = ["message", "function_call", "function_call_result", "message"] as const
      assert.deepStrictEqual(yield* typesOf, [...first])
      assert.strictEqual((yield* run("And now?")).finalOutput, "It rains.")
      assert.isAbove((yield* typesOf).length, first.length)
      const popped = yield* Effect.promise(() => session.popItem())
      assert.deepInclude(popped, { type: "message", role: "assistant" })
      yield* Effect.promise(() => session.clearSession())
    })
  )
})
