import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, file, produces, text } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { folderOf } from "../../config/file/ConfigFolder.ts"
import { HttpAgent } from "@ag-ui/client"
import { createBowline } from "@bowline/client"
import { BowlineAgent } from "@bowline/client/ag-ui"
import { BowlineChatTransport } from "@bowline/client/ai-sdk"
import { post, send, start } from "../../http/RunningGateway.ts"
import { modernClient } from "../mcp/McpClients.ts"
import { client } from "../openai/ChatClient.ts"
import { ask, lastBody, open, openWith } from "../ui/Chat.ts"

const picture = Buffer.from(SampleFile.png(1_200, 800)).toString("base64")
const large = Buffer.from(SampleFile.png(1_200, 800, 1_048_576)).toString("base64")
const paper = Buffer.from(SampleFile.pdf()).toString("base64")

/** Has a chart plotted, and answers then. */
const plots: Script = ({ messages }) =>
  messages.at(-1)?.role === "user" && !messages.some(({ role }) => role === "tool")
    ? [callTool("plot_chart", { input: "?" })]
    : [say("Here it is")]

/** A gateway whose planner has an agent that plots: a chart, a large one, and a paper about them. */
const plotting = Effect.fnUntraced(function* (settings: Readonly<Record<string, string>> = {}) {
  const given = (name: string, mimeType: string, bytes: string) => produces([file({ name, mimeType, bytes })])
  const peer = yield* ScriptedPeer.serve({
    acts: [
      produces([text("Plotted")]),
      given("chart.png", "image/png", picture),
      given("large.png", "image/png", large),
      given("rope.pdf", "application/pdf", paper),
      completes("Done")
    ]
  })
  const agent = { name: "plot", endpoint: peer.url, dialect: "a2a-0.3", skills: [{ id: "chart" }] }
  const folder = yield* folderOf({ "gateway.json": JSON.stringify({ agents: [agent] }) })
  return yield* start(plots, {
    BOWLINE_MODEL: "openai/gpt-5-mini",
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    ...settings
  })
})

const idsOf = Effect.fnUntraced(function* (url: string) {
  const { body } = yield* send(`${url}/files`)
  const files = body["files"] as ReadonlyArray<{ readonly file_id: string; readonly name: string }>
  return Object.fromEntries(files.map(({ file_id, name }) => [name, file_id]))
})

/** What a message of Chat Completions has of files. */
interface Shown {
  readonly content: string
  readonly images?: ReadonlyArray<{ readonly image_url: { readonly url: string } }>
  readonly files?: ReadonlyArray<{ readonly file: object }>
}

const publicUrl = "https://gateway.example"
const linkTo = (id: string | undefined) => new RegExp(`^${publicUrl}/files/${id}/content\\?token=[\\w-]+$`)

describe("a file that a tool gives", () => {
  it.live("is an image of Responses, streamed and read again, and the client may send it back", () =>
    Effect.gen(function* () {
      const { url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
      const { responses } = client(url)
      const images = (output: ReadonlyArray<{ readonly type: string }>) =>
        output.flatMap((item) =>
          item.type === "image_generation_call" && "result" in item
            ? [item.result === picture || item.result === large]
            : []
        )
      const stream = yield* Effect.promise(() => responses.create({ model: "bowline", input: "Plot", stream: true }))
      const done = yield* Effect.promise(async () => {
        const items: Array<{ readonly type: string }> = []
        let id = ""
        for await (const event of stream) {
          if (event.type === "response.output_item.done") items.push(event.item)
          if (event.type === "response.completed") id = event.response.id
        }
        return { id, items }
      })
      assert.deepStrictEqual(images(done.items), [true, true])
      const again = yield* Effect.promise(() => responses.retrieve(done.id))
      assert.deepStrictEqual(images(again.output), [true, true])
      const input = [...again.output, { role: "user" as const, content: "And now?" }]
      const next = yield* Effect.promise(() =>
        responses.create({
          model: "bowline",
          input: input as Parameters<typeof responses.create>[0]["input"] & Array<never>
        })
      )
      assert.strictEqual(next.output_text, "Here it is")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live(
    "is beside the answer of Chat Completions, streamed, whole and stored, and the model sees what the client sends back",
    () =>
      Effect.gen(function* () {
        const { provider, url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
        const { completions } = client(url).chat
        const question = { role: "user" as const, content: "Plot" }
        const asked = { model: "bowline", messages: [question] }
        const [image, link, document] = yield* Effect.promise(async () => {
          const shown = async (message: unknown) => {
            const { content, files = [], images = [] } = message as Shown
            assert.strictEqual(content, "Here it is")
            return [...images.map(({ image_url }) => image_url.url), ...files.map(({ file }) => file)]
          }
          const whole = await completions.create({ ...asked, store: true })
          const first = await shown(whole.choices[0]?.message)
          const stored = await completions.retrieve(whole.id)
          const streamed = await completions.stream(asked).finalChatCompletion()
          for (const { choices } of [stored, streamed]) {
            const again = await shown(choices[0]?.message)
            // Each URL has a token of its own.
            assert.deepStrictEqual([again[0], again[2]], [first[0], first[2]])
          }
          return first
        })
        assert.strictEqual(image, `data:image/png;base64,${picture}`)
        const ids = yield* idsOf(url)
        assert(typeof link === "string")
        assert.match(link, linkTo(ids["large.png"]))
        assert.deepStrictEqual<unknown>(document, {
          filename: "rope.pdf",
          file_data: `data:application/pdf;base64,${paper}`
        })

        const answered = {
          role: "assistant" as const,
          content: "Here it is",
          images: [image, link, "blob:elsewhere", "https://gone.example/chart.png"].map((at) => ({
            type: "image_url",
            image_url: { url: at }
          })),
          files: [{ type: "file", file: document }]
        }
        const next = { role: "user" as const, content: "And now?" }
        yield* Effect.promise(() => completions.create({ model: "bowline", messages: [question, answered, next] }))
        const told = JSON.parse(yield* lastBody(provider)) as {
          readonly messages: ReadonlyArray<{ role: string; content: unknown }>
        }
        const imageOf = (bytes: string) => ({ type: "image_url", image_url: { url: `data:image/png;base64,${bytes}` } })
        assert.deepInclude(told.messages, {
          role: "user",
          content: [
            { type: "text", text: "[files of the answer]" },
            imageOf(picture),
            imageOf(large),
            { type: "file", file: document }
          ]
        })
        assert.deepStrictEqual(yield* idsOf(url), ids)
      }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is in the result of its call in AG-UI, with its bytes, or with a URL where it is large", () =>
    Effect.gen(function* () {
      const { url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
      const initialMessages = [{ id: "one", role: "user" as const, content: "Plot" }]
      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread", initialMessages })
      yield* Effect.promise(() => agent.runAgent())
      const result = agent.messages.find(({ role }) => role === "tool")
      const content = result?.content as ReadonlyArray<{ type: string; source: { value: string } }>
      assert.deepStrictEqual(
        content.map(({ type }) => type),
        ["text", "image", "image", "document"]
      )
      const [, image, link, document] = content
      assert.deepStrictEqual<unknown>(image?.source, { type: "data", value: picture, mimeType: "image/png" })
      assert.deepStrictEqual<unknown>(document?.source, { type: "data", value: paper, mimeType: "application/pdf" })
      assert.match(link?.source.value ?? "", linkTo((yield* idsOf(url))["large.png"]))
      // Bowline's own agent gets all bytes with its caller's key.
      const own = new BowlineAgent({ bowline: createBowline({ baseUrl: url }), threadId: "own", initialMessages })
      yield* Effect.promise(() => own.runAgent())
      const ownResult = own.messages.find(({ role }) => role === "tool")?.content
      const [ownText, ownImage, ownLarge, ownDocument] = ownResult as typeof content
      assert.deepStrictEqual([ownText, ownImage, ownDocument], [content[0], image, document])
      assert.strictEqual(ownLarge?.source.value === large, true)
      // The thread with all of it comes again.
      agent.addMessage({ id: "two", role: "user", content: "And now?" })
      yield* Effect.promise(() => agent.runAgent())
      assert.strictEqual(agent.messages.at(-1)?.content, "Here it is")
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is a file part of the AI SDK, with its bytes, or with a URL where it is large", () =>
    Effect.gen(function* () {
      const { url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
      const chat = open(url)
      yield* ask(chat, "Plot")
      const files = (chat.lastMessage?.parts ?? []).flatMap((part) => (part.type === "file" ? [part] : []))
      assert.deepStrictEqual(
        files.map(({ mediaType }) => mediaType),
        ["image/png", "image/png", "application/pdf"]
      )
      const [chart, big, document] = files.map((part) => part.url)
      assert.strictEqual(chart, `data:image/png;base64,${picture}`)
      assert.strictEqual(document, `data:application/pdf;base64,${paper}`)
      assert.match(big ?? "", linkTo((yield* idsOf(url))["large.png"]))
      // Bowline's own transport gets the bytes with its caller's key, but for one that is too large.
      const huge: typeof fetch = async (input, init) => {
        const response = await fetch(input, init)
        if (!(Number(response.headers.get("content-length")) > 1_048_576)) return response
        const said = new Response(response.body, { headers: { "content-length": "8388609" } })
        return Object.defineProperty(said, "url", { value: response.url })
      }
      const filesBy = Effect.fnUntraced(function* (given: typeof fetch) {
        const bowline = createBowline({ baseUrl: url, fetch: given })
        const own = openWith(new BowlineChatTransport({ bowline }), { id: crypto.randomUUID() })
        yield* ask(own, "Plot")
        return (own.lastMessage?.parts ?? []).flatMap((part) => (part.type === "file" ? [part.url] : []))
      })
      const inline = `data:image/png;base64,${large}`
      const named = (at: string) => (at === inline ? "large" : at)
      assert.deepStrictEqual((yield* filesBy(fetch)).map(named), [chart, "large", document])
      const at = `${url}/files/${(yield* idsOf(url))["large.png"]}/content`
      assert.deepStrictEqual((yield* filesBy(huge)).map(named), [chart, at, document])
      // The page sends all of its messages again.
      yield* ask(chat, "And now?")
      assert.strictEqual(chat.lastMessage?.parts.at(-1)?.type, "text")
      assert.strictEqual(chat.error, undefined)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is in the artifacts of A2A, with its bytes, or with a URL where it is large", () =>
    Effect.gen(function* () {
      const { url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
      const call = (method: string, params: object) =>
        Effect.map(
          post(`${url}/a2a`, { jsonrpc: "2.0", id: 1, method, params }, { "a2a-version": "1.0" }),
          ({ body }) => body["result"] as { readonly id: string; readonly task: Task }
        )
      type Task = {
        readonly id: string
        readonly artifacts: ReadonlyArray<{ readonly parts: ReadonlyArray<Readonly<Record<string, string>>> }>
      }
      const message = { messageId: "m", role: "ROLE_USER", parts: [{ text: "Plot" }] }
      const { task } = yield* call("SendMessage", { message })
      const again = (yield* call("GetTask", { id: task.id })) as unknown as Task
      for (const { artifacts } of [task, again]) {
        const parts = artifacts.flatMap(({ parts }) => parts)
        assert.deepInclude(parts, { raw: picture, filename: "chart.png", mediaType: "image/png" })
        assert.deepInclude(parts, { raw: paper, filename: "rope.pdf", mediaType: "application/pdf" })
        assert.match(
          parts.find(({ filename }) => filename === "large.png")?.["url"] ?? "",
          linkTo((yield* idsOf(url))["large.png"])
        )
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("is an image in the result of MCP's tool, or else a resource", () =>
    Effect.gen(function* () {
      const { url } = yield* plotting({ BOWLINE_PUBLIC_URL: publicUrl })
      const mcp = yield* modernClient(url)
      const { content } = yield* mcp.call("plan", { question: "Plot" })
      const ids = yield* idsOf(url)
      assert.deepStrictEqual((content as ReadonlyArray<object>).slice(1), [
        { type: "image", data: picture, mimeType: "image/png" },
        { type: "image", data: large, mimeType: "image/png" },
        {
          type: "resource_link",
          uri: `bowline://files/${ids["rope.pdf"]}`,
          name: "rope.pdf",
          mimeType: "application/pdf"
        }
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
