import { HttpAgent } from "@ag-ui/client"
import { createBowline } from "@bowline/client"
import { BowlineAgent } from "@bowline/client/ag-ui"
import { BowlineChatTransport } from "@bowline/client/ai-sdk"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, type RunningGateway, send, start } from "../../http/RunningGateway.ts"
import { clients } from "../a2a/Clients.ts"
import { client } from "../openai/ChatClient.ts"
import { lastBody, open, openWith } from "../ui/Chat.ts"

const vision = { BOWLINE_MODEL: "openai/gpt-5-mini" }
const picture = Buffer.from(SampleFile.png(1_200, 800)).toString("base64")
const paper = Buffer.from(SampleFile.pdf()).toString("base64")
const pictureUrl = `data:image/png;base64,${picture}`
const paperUrl = `data:application/pdf;base64,${paper}`
const unknown = "file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd"

/** What the provider has been told last: of each message its text, or the types of its parts. */
const told = ({ provider }: RunningGateway) =>
  Effect.map(lastBody(provider), (body) =>
    (
      JSON.parse(body) as {
        readonly messages: ReadonlyArray<{
          role: string
          content: string | null | ReadonlyArray<{ readonly type: string }>
        }>
      }
    ).messages.flatMap(({ content, role }) => {
      if (role === "system" || content === null) return []
      return [typeof content === "string" ? content : content.map(({ type }) => type).join(" ")]
    })
  )

const upload = Effect.fnUntraced(function* (url: string) {
  const headers = { "content-type": "image/png", "content-disposition": 'attachment; filename="diagram.png"' }
  const { body } = yield* send(`${url}/files`, { method: "POST", headers, body: Buffer.from(picture, "base64") })
  return String(body["file_id"])
})

/** How many files the caller has. */
const stored = (url: string) =>
  Effect.map(send(`${url}/files`), ({ body }) => (body["files"] as ReadonlyArray<unknown>).length)

describe("a file of a client", () => {
  it.live("reaches the model through the client of OpenAI, also as one of an earlier message", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], vision)
      const { url } = gateway
      const file_id = yield* upload(url)
      const question = {
        role: "user" as const,
        content: [
          { type: "text" as const, text: "What is this?" },
          { type: "image_url" as const, image_url: { url: pictureUrl } },
          { type: "file" as const, file: { file_data: paperUrl, filename: "rope.pdf" } },
          { type: "file" as const, file: { file_id } }
        ]
      }
      const { completions } = client(url).chat
      yield* Effect.promise(() => completions.create({ model: "bowline", messages: [question] }))
      assert.deepStrictEqual(yield* told(gateway), ["text image_url file image_url"])
      const answered = { role: "assistant" as const, content: "A knot" }
      const next = { role: "user" as const, content: "And the rope?" }
      yield* Effect.promise(() => completions.create({ model: "bowline", messages: [question, answered, next] }))
      assert.deepStrictEqual(yield* told(gateway), ["text image_url file image_url", "A knot", "And the rope?"])
      assert.include(yield* lastBody(gateway.provider), pictureUrl)
      assert.strictEqual(yield* stored(url), 2)
    })
  )

  it.live("reaches the model through Responses, whose input repeats it by its id", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], vision)
      const { responses } = client(gateway.url)
      const input = [
        {
          role: "user" as const,
          content: [
            { type: "input_text" as const, text: "What is this?" },
            { type: "input_image" as const, image_url: pictureUrl, detail: "high" as const },
            { type: "input_file" as const, file_data: paperUrl, filename: "rope.pdf" }
          ]
        }
      ]
      const first = yield* Effect.promise(() => responses.create({ model: "bowline", input }))
      assert.deepStrictEqual(yield* told(gateway), ["text image_url file"])
      const items = yield* Effect.promise(() => responses.inputItems.list(first.id))
      const { body } = yield* send(`${gateway.url}/files`)
      const [pdf, png] = body["files"] as ReadonlyArray<{ readonly file_id: string }>
      assert.deepNestedInclude(items.data[0], {
        content: [
          { type: "input_text", text: "What is this?" },
          { type: "input_image", file_id: png?.file_id, image_url: null, detail: "high" },
          { type: "input_file", file_id: pdf?.file_id, filename: "rope.pdf" }
        ]
      })
      // The item stands for its files, too.
      const again = [{ type: "item_reference" as const, id: items.data[0]?.id ?? "" }]
      yield* Effect.promise(() => responses.create({ model: "bowline", input: again }))
      assert.deepStrictEqual(yield* told(gateway), ["text image_url file"])
      const next = { model: "bowline", input: "And now?", previous_response_id: first.id }
      yield* Effect.promise(() => responses.create(next))
      assert.deepStrictEqual(yield* told(gateway), ["text image_url file", "A knot", "And now?"])
    })
  )

  it.live("reaches the model through the AI SDK, as a data URL and as one of the gateway", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], vision)
      const { url } = gateway
      const file_id = yield* upload(url)
      const chat = open(url)
      const files = [
        { type: "file" as const, mediaType: "application/pdf", filename: "rope.pdf", url: paperUrl },
        // A message that the page has kept for longer than an hour: the id counts, and whose it is.
        { type: "file" as const, mediaType: "image/png", url: `${url}/files/${file_id}/content?token=gone` }
      ]
      yield* Effect.promise(() => chat.sendMessage({ text: "What is this?", files }))
      assert.deepStrictEqual(yield* told(gateway), ["file image_url text"])
      yield* Effect.promise(() => chat.sendMessage({ text: "And now?" }))
      assert.deepStrictEqual(yield* told(gateway), ["file image_url text", "A knot", "And now?"])
      assert.strictEqual(yield* stored(url), 2)
    })
  )

  it.live("reaches the model through AG-UI, in the words of each version", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], vision)
      const { url } = gateway
      const file_id = yield* upload(url)
      const data = { type: "data" as const, value: paper, mimeType: "application/pdf" }
      const content = [
        { type: "text" as const, text: "What is this?" },
        { type: "document" as const, source: data },
        { type: "image" as const, source: { type: "file" as const, value: file_id } }
      ]
      const initialMessages = [{ id: "one", role: "user" as const, content }]
      const agent = new HttpAgent({ url: `${url}/agui`, threadId: "thread", initialMessages })
      yield* Effect.promise(() => agent.runAgent())
      assert.deepStrictEqual(yield* told(gateway), ["text file image_url"])
      const binary = [
        { type: "text", text: "?" },
        { type: "binary", mimeType: "image/png", data: picture }
      ]
      const body = { threadId: "other", runId: "run", messages: [{ id: "one", role: "user", content: binary }] }
      yield* post(`${url}/agui`, body, { accept: "text/event-stream" })
      assert.deepStrictEqual(yield* told(gateway), ["text image_url"])
    })
  )

  it.live("reaches the model through the transports of Bowline's own client", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], vision)
      const { url } = gateway
      const bowline = createBowline({ baseUrl: url })
      const file_id = yield* upload(url)
      const chat = openWith(new BowlineChatTransport({ bowline }))
      const files = [
        { type: "file" as const, mediaType: "application/pdf", filename: "rope.pdf", url: paperUrl },
        { type: "file" as const, mediaType: "image/png", url: `${url}/files/${file_id}/content` }
      ]
      yield* Effect.promise(() => chat.sendMessage({ text: "What is this?", files }))
      assert.deepStrictEqual(yield* told(gateway), ["file image_url text"])
      const data = { type: "data" as const, value: picture, mimeType: "image/png" }
      const content = [
        { type: "text" as const, text: "What is this?" },
        { type: "image" as const, source: data }
      ]
      const initialMessages = [{ id: "one", role: "user" as const, content }]
      const agent = new BowlineAgent({ bowline, threadId: "thread", initialMessages })
      yield* Effect.promise(() => agent.runAgent())
      assert.deepStrictEqual(yield* told(gateway), ["text image_url"])
      assert.strictEqual(yield* stored(url), 2)
    })
  )

  it.live("comes in results of the client's own tools, and beside them", () =>
    Effect.gen(function* () {
      const script: Script = ({ messages }) =>
        messages.some(({ role }) => role === "tool") ? [say("A knot")] : [callTool("camera", {})]
      const gateway = yield* start(script, vision)
      const { url } = gateway
      const { chat, responses } = client(url)
      const saidLast = Effect.map(told(gateway), (all) => all.slice(-3))
      const result = "data:image/png;base64"
      const seen = ["image_url", "text file"]

      const question = { role: "user" as const, content: "Look" }
      const tools = [{ type: "function" as const, function: { name: "camera", parameters: { type: "object" } } }]
      const asked = yield* Effect.promise(() =>
        chat.completions.create({ model: "bowline", messages: [question], tools })
      )
      const called = asked.choices[0]?.message
      const answer = (at: string) => [
        {
          role: "tool",
          tool_call_id: called?.tool_calls?.[0]?.id,
          content: [{ type: "image_url", image_url: { url: at } }]
        },
        {
          role: "user",
          content: [
            { type: "text", text: "And this" },
            { type: "file", file: { file_data: paperUrl } }
          ]
        }
      ]
      const body = (at: string) => ({ model: "bowline", tools, messages: [question, called, ...answer(at)] })
      const wrong = yield* post(`${url}/v1/chat/completions`, body(paperUrl.replace("application/pdf", "image/png")))
      assert.deepInclude(wrong.body["error"], { param: "messages[2].content[0].image_url.url" })
      const looked = yield* post(`${url}/v1/chat/completions`, body(pictureUrl))
      assert.strictEqual(looked.status, 200, JSON.stringify(looked.body))
      const [line, ...files] = yield* saidLast
      assert.match(String(line), /<result [^]*\[image file, 1200×800, file_/)
      assert.deepStrictEqual(files, seen)

      const own = [{ type: "function" as const, name: "camera", parameters: { type: "object" }, strict: false }]
      const first = yield* Effect.promise(() => responses.create({ model: "bowline", input: "Look", tools: own }))
      const call = first.output.find((item) => item.type === "function_call")
      yield* Effect.promise(() =>
        responses.create({
          model: "bowline",
          previous_response_id: first.id,
          tools: own,
          input: [
            {
              type: "function_call_output",
              call_id: call?.call_id ?? "",
              output: [{ type: "input_image", image_url: pictureUrl, detail: "auto" }]
            },
            {
              role: "user",
              content: [
                { type: "input_text", text: "And this" },
                { type: "input_file", file_data: paperUrl }
              ]
            }
          ]
        })
      )
      assert.deepStrictEqual((yield* saidLast).slice(1), seen)

      const agent = new HttpAgent({
        url: `${url}/agui`,
        threadId: "camera",
        initialMessages: [{ id: "one", role: "user", content: "Look" }]
      })
      const page = { tools: [{ name: "camera", description: "Looks", parameters: { type: "object" } }] }
      yield* Effect.promise(() => agent.runAgent(page))
      const shot = agent.messages.flatMap((message) => (message.role === "assistant" ? (message.toolCalls ?? []) : []))
      const source = (value: string, mimeType: string) => ({ type: "data" as const, value, mimeType })
      agent.addMessages([
        {
          id: "two",
          role: "tool",
          toolCallId: shot[0]?.id ?? "",
          content: [{ type: "image", source: source(picture, "image/png") }]
        },
        {
          id: "three",
          role: "user",
          content: [
            { type: "text", text: "And this" },
            { type: "document", source: source(paper, "application/pdf") }
          ]
        }
      ])
      yield* Effect.promise(() => agent.runAgent(page))
      assert.deepStrictEqual((yield* saidLast).slice(1), seen)
      assert.include(yield* lastBody(gateway.provider), result)
      assert.strictEqual(yield* stored(url), 2)
    })
  )

  for (const [name, connect] of Object.entries(clients)) {
    it.live(`reaches the model through A2A ${name}`, () =>
      Effect.gen(function* () {
        const gateway = yield* start(() => [say("A knot")], vision)
        const a2a = yield* Effect.promise(() => connect(gateway.url))
        const file = { bytes: picture, mediaType: "image/png", name: "diagram.png" }
        const task = yield* Effect.promise(() => a2a.send({ text: "What is this?", file }))
        assert.deepInclude(task, { state: "completed", answer: "A knot" })
        assert.deepStrictEqual(yield* told(gateway), ["text image_url"])
      })
    )
  }

  it.live("is named where it is wrong, unknown, or not for the model", () =>
    Effect.gen(function* () {
      const gateway = yield* start(() => [say("A knot")], { ...vision, BOWLINE_ALLOWED_MODELS: "*" })
      const { url } = gateway
      const refused = Effect.fnUntraced(function* (path: string, body: object, code: string, field: string) {
        const { body: answer, status } = yield* post(url + path, body)
        const error = (answer["error"] ?? answer) as {
          readonly code: string
          readonly param?: string
          readonly issues?: ReadonlyArray<{ readonly path: string; readonly message: string }>
          readonly message?: string
        }
        assert.deepStrictEqual([status, error.code, error.param ?? error.issues?.[0]?.path], [400, code, field])
        return error.message ?? error.issues?.[0]?.message ?? ""
      })
      const said = (...content: ReadonlyArray<object>) => ({
        role: "user",
        content: [{ type: "text", text: "?" }, ...content]
      })
      const chat = (part: object, model?: string) => ({
        model: "bowline",
        messages: [said(part)],
        ...(model !== undefined && { bowline: { preferences: { model } } })
      })
      const responses = (part: object) => ({
        model: "bowline",
        input: [said(part)].map((message) => ({ ...message, content: [part] }))
      })
      const completions = "/v1/chat/completions"
      const imageAt = (at: string) => ({ type: "image_url", image_url: { url: at } })
      const place = "messages[0].content[1]"
      const invalid = "invalid_request"
      yield* refused(completions, chat({ type: "file", file: { file_id: unknown } }), invalid, `${place}.file.file_id`)
      yield* refused(completions, chat(imageAt("data:image/png;base64,!")), invalid, `${place}.image_url.url`)
      yield* refused(
        completions,
        chat(imageAt(paperUrl.replace("application/pdf", "image/png"))),
        invalid,
        `${place}.image_url.url`
      )
      yield* refused(completions, chat(imageAt("https://127.0.0.1:1/knot.png")), invalid, `${place}.image_url.url`)
      yield* refused(completions, chat({ type: "file", file: {} }), invalid, `${place}.file`)
      const heard = yield* refused(
        completions,
        chat({ type: "input_audio", input_audio: {} }),
        invalid,
        `${place}.type`
      )
      assert.include(heard, "send the text")
      yield* refused(
        completions,
        chat(imageAt(pictureUrl), "openai/gpt-3.5-turbo"),
        "unsupported_input",
        `${place}.image_url.url`
      )
      yield* refused("/v1/responses", responses({ type: "input_image" }), invalid, "input[0].content[0]")
      yield* refused(
        "/v1/responses",
        responses({ type: "input_file", file_id: unknown }),
        invalid,
        "input[0].content[0].file_id"
      )
      const ui = (part: object, role = "user") => ({ id: "chat", messages: [{ id: "one", role, parts: [part] }] })
      yield* refused(
        "/ui/chat",
        ui({ type: "file", mediaType: "image/png", url: "blob:x" }),
        invalid,
        "messages[0].parts[0].url"
      )
      const gone = { type: "file", mediaType: "image/png", url: `/files/${unknown}/content` }
      yield* refused("/ui/chat", ui(gone), invalid, "messages[0].parts[0].url")
      const agui = (part: object) => ({
        threadId: "t",
        runId: "r",
        messages: [{ id: "one", role: "user", content: [part] }]
      })
      yield* refused(
        "/agui",
        agui({ type: "image", source: { type: "data", value: "!", mimeType: "image/png" } }),
        invalid,
        "messages[0].content[0].source.value"
      )
      yield* refused(
        "/agui",
        agui({ type: "image", source: { type: "file", value: unknown } }),
        invalid,
        "messages[0].content[0].source.value"
      )

      const sendMessage = (part: object, bowline?: object) =>
        Effect.map(
          post(
            `${url}/a2a`,
            {
              jsonrpc: "2.0",
              id: 1,
              method: "SendMessage",
              params: {
                message: { messageId: "m", role: "ROLE_USER", parts: [{ text: "?" }, part], metadata: { bowline } }
              }
            },
            { "a2a-version": "1.0" }
          ),
          ({ body }) => body["error"] as { readonly code: number; readonly message: string }
        )
      const wrong = yield* sendMessage({ raw: paper, mediaType: "image/png" })
      assert.strictEqual(wrong.code, -32602)
      assert.match(wrong.message, /^message\.parts\[1\]: It was sent as image\/png/)
      const blind = { preferences: { model: "openai/gpt-3.5-turbo" } }
      const unseen = yield* sendMessage({ raw: picture, mediaType: "image/png" }, blind)
      assert.strictEqual(unseen.code, -32005)
      assert.match(unseen.message, /takes no images/)
      assert.strictEqual((yield* sendMessage({ url: "ftp://x/y" })).code, -32602)
    })
  )
})
