import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type OpenAI from "openai"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { post, send, start } from "../../http/RunningGateway.ts"
import { ask, client } from "./ChatClient.ts"

const stored = { ...ask, store: true, metadata: { desk: "7" } }

const completions = (url: string) => client(url).chat.completions
const create = (url: string, body: OpenAI.ChatCompletionCreateParamsNonStreaming) =>
  Effect.promise(() => completions(url).create(body))

const errorOf = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) =>
  body["error"] as { readonly code: string; readonly param: string | null }

describe("completions that are stored", () => {
  it.live("are listed, read and deleted by an unchanged client, as they were answered", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Hello"), usage({ input_tokens: 3, output_tokens: 2 })])
      const answer = yield* create(url, stored)
      const [first, second] = [answer.id, (yield* create(url, stored)).id]
      yield* create(url, ask)
      const streamed = yield* Effect.promise(() => completions(url).stream(stored).finalChatCompletion())
      const listed = yield* Effect.promise(async () => {
        const found: Array<OpenAI.ChatCompletion> = []
        for await (const one of completions(url).list({ limit: 1 })) found.push(one)
        return found
      })
      assert.deepStrictEqual(
        listed.map(({ id }) => id),
        [first, second, streamed.id]
      )
      const read = yield* Effect.promise(() => completions(url).retrieve(first))
      assert.deepStrictEqual<object>(read, { ...answer, metadata: { desk: "7" } })
      assert.deepStrictEqual(read, listed[0])

      const described = yield* Effect.promise(() => completions(url).update(first, { metadata: { desk: "8" } }))
      assert.deepStrictEqual<object>(described, { ...answer, metadata: { desk: "8" } })
      assert.deepStrictEqual(yield* Effect.promise(() => completions(url).retrieve(first)), described)
      const wrong = yield* post(`${url}/v1/chat/completions/${first}`, { metadata: { desk: 8 } })
      assert.deepStrictEqual([wrong.status, errorOf(wrong).param], [400, "metadata.desk"])

      const gone = yield* Effect.promise(() => completions(url).delete(first))
      assert.deepStrictEqual(gone, { id: first, object: "chat.completion.deleted", deleted: true })
      const again = yield* send(`${url}/v1/chat/completions/${first}`)
      assert.deepStrictEqual([again.status, errorOf(again).code], [404, "not_found"])
      const plan = first.replace("chatcmpl-", "")
      assert.strictEqual((yield* send(`${url}/plans/${plan}`)).status, 404)
      const { body } = yield* send(`${url}/v1/chat/completions`)
      assert.lengthOf(body["data"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("are not there before they are whole, where they have failed, or without store", () =>
    Effect.gen(function* () {
      const { url } = yield* start(
        (asked) => (asked.tools.some(({ name }) => name === "pick") ? [callTool("pick", {})] : [say("Hello")]),
        { BOWLINE_SHUTDOWN_GRACE: "0s" }
      )
      const { id: plain } = yield* create(url, ask)
      const pick = { type: "function" as const, function: { name: "pick" } }
      const { id: waiting } = yield* create(url, { ...stored, tools: [pick] })
      const { body } = yield* post(`${url}/plan`, { question: "?" })
      for (const id of [plain, waiting, `chatcmpl-${String(body["plan_id"])}`, "chatcmpl-x"]) {
        assert.strictEqual((yield* send(`${url}/v1/chat/completions/${id}`)).status, 404, id)
      }
      const { body: list } = yield* send(`${url}/v1/chat/completions`)
      assert.deepStrictEqual(list, { object: "list", data: [], first_id: null, last_id: null, has_more: false })
    })
  )

  it.live("of a named session stay in its history when they are deleted", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Hello")])
      const named = { "x-bowline-session": "desk" }
      const { body } = yield* post(`${url}/v1/chat/completions`, stored, named)
      const at = `${url}/v1/chat/completions/${String(body["id"])}`
      assert.strictEqual((yield* send(at, { method: "DELETE" })).status, 200)
      assert.strictEqual((yield* send(at)).status, 404)
      const { body: history } = yield* send(`${url}/sessions/desk/messages`)
      assert.lengthOf(history["messages"] as ReadonlyArray<unknown>, 2)
    })
  )

  it.live("tell what they were asked: the instructions, the history and the question", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Hello")])
      const messages = [
        { role: "developer" as const, content: "Be brief." },
        { role: "user" as const, content: "one" },
        { role: "assistant" as const, content: "two" },
        { role: "user" as const, content: "three" }
      ]
      const { id } = yield* create(url, { ...stored, messages })
      const told = yield* Effect.promise(async () => {
        const found: Array<OpenAI.Chat.Completions.ChatCompletionStoreMessage> = []
        for await (const one of completions(url).messages.list(id, { limit: 2 })) found.push(one)
        return found
      })
      assert.deepStrictEqual(
        told.map(({ content, id, role }) => [id, role, content]),
        [
          [`${id}-0`, "system", "Be brief."],
          [`${id}-1`, "user", "one"],
          [`${id}-2`, "assistant", "two"],
          [`${id}-3`, "user", "three"]
        ]
      )
      const newest = yield* send(`${url}/v1/chat/completions/${id}/messages?order=desc&limit=1`)
      assert.deepInclude(newest.body, { first_id: `${id}-3`, has_more: true })
      const { id: plain } = yield* create(url, ask)
      assert.strictEqual((yield* send(`${url}/v1/chat/completions/${plain}/messages`)).status, 404)
    })
  )

  it.live("are listed by their model and their newest metadata, in both orders, page by page", () =>
    Effect.gen(function* () {
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ presets: { knots: {} } }) })
      const { url } = yield* start(() => [say("Hello")], { BOWLINE_CONFIG: join(folder, "gateway.json") })
      const knots = { ...stored, model: "bowline/knots" }
      const [first, second, third] = [
        (yield* create(url, stored)).id,
        (yield* create(url, knots)).id,
        (yield* create(url, { ...stored, metadata: { desk: "8", team: "a [b]=c" } })).id
      ]
      const listed = (query: OpenAI.ChatCompletionListParams) =>
        Effect.promise(async () => {
          const found: Array<string> = []
          for await (const { id } of completions(url).list(query)) found.push(id)
          return found
        })
      assert.deepStrictEqual(yield* listed({ order: "desc", limit: 2 }), [third, second, first])
      assert.deepStrictEqual(yield* listed({ order: "asc", after: first, limit: 1 }), [second, third])
      assert.deepStrictEqual(yield* listed({ order: "desc", after: second }), [first])
      assert.deepStrictEqual(yield* listed({ model: "bowline/knots" }), [second])
      assert.deepStrictEqual(yield* listed({ model: "bowline", metadata: { desk: "7" } }), [first])
      assert.deepStrictEqual(yield* listed({ metadata: { desk: "8", team: "a [b]=c" } }), [third])
      yield* Effect.promise(() => completions(url).update(first, { metadata: { desk: "9" } }))
      assert.deepStrictEqual(yield* listed({ metadata: { desk: "7" } }), [second])
      assert.deepStrictEqual(yield* listed({ metadata: { desk: "9" } }), [first])
      const wrong = { after: "plan_x", limit: "0", order: "up", desk: "7", metadata: "7" }
      for (const [param, value] of Object.entries(wrong)) {
        const refused = yield* send(`${url}/v1/chat/completions?${param}=${value}`)
        assert.deepStrictEqual([refused.status, errorOf(refused).param], [400, param])
      }
      // Behind one that is not there would be nothing, and a client took that for the end of the list.
      yield* Effect.promise(() => completions(url).delete(second))
      const lost = yield* send(`${url}/v1/chat/completions?after=${second}`)
      assert.deepStrictEqual([lost.status, errorOf(lost).param], [400, "after"])
    })
  )
})
