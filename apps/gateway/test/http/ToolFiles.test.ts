import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
import { completes, data, file, produces, text } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { fileServer } from "./FileServer.ts"
import { payloads, post, send, start, startOn, stores } from "./RunningGateway.ts"

const settings = { BOWLINE_API_KEYS: "ann=key-of-ann", BOWLINE_MODEL: "openai/gpt-5-mini" }
const ann = { authorization: "Bearer key-of-ann" }

const chart = Buffer.from(SampleFile.png(1_200, 800))
const paper = Buffer.from(SampleFile.pdf())
const inBase64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64")

/** Asks for what the last question names, once, and then answers. */
const script: Script = ({ messages }) => {
  const last = messages.at(-1)
  const [tool = "", argument = ""] = last?.role === "user" ? last.text.split(" ") : []
  if (tool === "plot_chart") return [callTool(tool, { input: "?" })]
  if (tool === "shop_scan") return [callTool(tool, {})]
  return tool === "view_file" ? [callTool(tool, { file_id: argument })] : [say("done")]
}

type Shown = {
  readonly media_type: string
  readonly content: unknown
  readonly file_id?: string
  readonly name?: string
}
type Sent = { readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }> }

/** A schema that wants a list of files, so described. */
const wanting = (file: Readonly<Record<string, string>>) => ({
  type: "object",
  properties: { pictures: { type: "array", items: { type: "string", ...file } } }
})

/** Calls the tool that the question names, with the file that it names. */
const callNamed: Script = ({ messages }) => {
  const last = messages.at(-1)
  const [tool = "", id = ""] = last?.role === "user" ? last.text.split(" ") : []
  return /^(plot|shop)_/.test(tool) ? [callTool(tool, { pictures: [id] })] : [say("done")]
}

/** A gateway, and who is called there. */
interface Place {
  readonly url: string
  readonly peer: string
  readonly server: string
}

/** Stores a file, and asks about it in a session. */
const uploaded = Effect.fnUntraced(function* (
  { url }: Place,
  bytes: Uint8Array,
  type: string = "application/octet-stream",
  session_id: string = "plots"
) {
  const headers = { ...ann, "content-type": type, "content-disposition": 'attachment; filename="chart.png"' }
  const sent = yield* send(`${url}/files`, { method: "POST", headers, body: Uint8Array.from(bytes) })
  const file_id = String(sent.body["file_id"])
  yield* post(`${url}/plan`, { question: [{ type: "file", file_id }], session_id }, ann)
  return file_id
})

/** Has a tool called with a file: the state of the call, or what is wrong with it. */
const called = Effect.fnUntraced(function* ({ peer, server, url }: Place, tool: string, picture: string) {
  const skills = [{ id: "chart", input_schema: wanting({ format: "bowline-file" }) }]
  const asked = {
    question: `${tool} ${picture}`,
    session_id: "plots",
    agents: [{ name: "plot", endpoint: peer, dialect: "a2a-0.3", skills }],
    mcp_servers: [{ name: "shop", url: server }]
  }
  const { text } = yield* post(`${url}/plan`, asked, { ...ann, accept: "text/event-stream" })
  assert.notInclude(text, inBase64(chart).slice(0, 40))
  assert.notInclude(text, "token=")
  const [end] = payloads(text, "task.finished") as ReadonlyArray<{ state: string; error?: { message: string } }>
  return end?.error?.message ?? end?.state
})

describe("the files of tools", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are stored for their session: the stream has their ids, and the model sees them (${name})`, () =>
      Effect.gen(function* () {
        const peer = yield* ScriptedPeer.serve({
          acts: [
            produces([text("Here it is"), data({ n: 1 })]),
            produces([file({ name: "chart.png", mimeType: "image/png", bytes: inBase64(chart) })]),
            produces([file({ name: "lie.gif", mimeType: "image/gif", bytes: inBase64(paper) })]),
            produces([
              file({ name: "knots.md", mimeType: "text/markdown", bytes: inBase64(Buffer.from("# Bowline")) })
            ]),
            produces([file({ name: "far.png", mimeType: "image/png", uri: "https://files.example/far.png" })]),
            completes("Done")
          ]
        })
        const server = yield* ScriptedMcpServer.serve({
          list: () => ({ tools: [{ name: "scan", inputSchema: { type: "object" } }] }),
          call: (request) =>
            Effect.succeed(
              ScriptedMcpServer.result(request, {
                content: [
                  { type: "text", text: "Two pages" },
                  { type: "image", mimeType: "image/png", data: inBase64(chart) },
                  {
                    type: "resource",
                    resource: { uri: "scan://1/rope.pdf", mimeType: "application/pdf", blob: inBase64(paper) }
                  }
                ]
              })
            )
        })
        const gateway = yield* startOn(store)(script, settings)
        const { url } = gateway
        const lastAsked = Effect.map(gateway.provider.requests.all, (all) => JSON.parse(all.at(-1)?.body ?? "") as Sent)
        const ask = Effect.fnUntraced(function* (question: string) {
          const asked = {
            question,
            session_id: "plots",
            agents: [{ name: "plot", endpoint: peer.url, dialect: "a2a-0.3", skills: [{ id: "chart" }] }],
            mcp_servers: [{ name: "shop", url: server.url }]
          }
          const { text } = yield* post(`${url}/plan`, asked, { ...ann, accept: "text/event-stream" })
          assert.match(text, /^event: final$/m, text)
          for (const bytes of [chart, paper]) assert.notInclude(text, inBase64(bytes).slice(0, 40))
          return payloads(text, "task.artifact") as ReadonlyArray<Shown>
        })

        const [words, picture, lie, markdown, far] = yield* ask("plot_chart")
        assert.deepStrictEqual(words?.media_type, "application/json")
        const line = `[image chart.png, 1200×800, ${picture?.file_id}]`
        assert.deepInclude<unknown>(picture, { media_type: "image/png", name: "chart.png", content: line })
        const why = "It was sent as image/gif, and its bytes are application/pdf"
        assert.deepInclude<unknown>(lie, {
          media_type: "text/plain",
          content: `[file lie.gif, which is not kept: ${why}]`
        })
        assert.deepInclude<unknown>(markdown, { media_type: "text/markdown", name: "knots.md" })
        assert.deepInclude<unknown>(far, { media_type: "image/png" })
        assert.isUndefined(far?.file_id)
        const { text: content } = yield* send(`${url}/files/${picture?.file_id}/content`, { headers: ann })
        assert.include(content, "PNG")
        const { messages } = yield* lastAsked
        const [result, shown] = messages.slice(-2)
        assert.strictEqual(result?.role, "tool")
        // The text of a text file is data of the peer, and in its envelope.
        assert.match(
          String(result?.content),
          /<result [^]*# Bowline[^]*\[image chart\.png, 1200×800, file_[^]*<\/result/
        )
        assert.deepStrictEqual(shown, {
          role: "user",
          content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${inBase64(chart)}` } }]
        })

        const scanned = yield* ask("shop_scan")
        // The same bytes are the same file.
        assert.deepStrictEqual(
          scanned.map(({ file_id, media_type, name }) => [media_type, name, file_id === picture?.file_id]),
          [
            ["text/plain", undefined, false],
            ["image/png", "chart.png", true],
            ["application/pdf", "rope.pdf", false]
          ]
        )
        const system = (yield* lastAsked).messages[0]?.content
        assert.match(String(system), /these files, the newest one first[^]*- \[file knots\.md[^]*- \[image chart\.png/)

        yield* ask(`view_file ${picture?.file_id}`)
        const seen = (yield* lastAsked).messages.slice(-2)
        assert.deepStrictEqual(seen[0]?.content, line)
        assert.deepStrictEqual(seen[1]?.content, shown?.content)
        yield* ask("view_file file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd")
        assert.match(String((yield* lastAsked).messages.at(-1)?.content), /no such file/)
      }).pipe(Effect.provide(LoopbackNetwork.layer))
    )
  }

  it.live(
    "go with calls whose schemas want them: as parts of a message, as base64, or as URLs that are good for an hour",
    () =>
      Effect.gen(function* () {
        const peer = yield* ScriptedPeer.serve({ acts: [completes("Done")] })
        const server = yield* ScriptedMcpServer.serve({
          list: () => ({
            tools: [
              { name: "scan", inputSchema: wanting({ contentMediaType: "image/png", contentEncoding: "base64" }) },
              { name: "link", inputSchema: wanting({ format: "bowline-file" }) }
            ]
          }),
          call: (request) =>
            Effect.succeed(ScriptedMcpServer.result(request, { content: [{ type: "text", text: "seen" }] }))
        })
        const { url } = yield* startOn(stores.memory)(callNamed, settings)
        const theirs = { url, peer: peer.url, server: server.url }
        const id = yield* uploaded(theirs, chart, "image/png")
        const text = yield* uploaded(theirs, Buffer.from("left over right"), "text/plain")
        const huge = yield* uploaded(theirs, Buffer.alloc(8_388_609, 0xfe))
        const elsewhere = yield* uploaded(theirs, paper, "application/pdf", "other")
        const call = (tool: string, picture: string) => called(theirs, tool, picture)

        assert.strictEqual(yield* call("plot_chart", id), "completed")
        const { sends } = yield* peer.seen
        assert.deepStrictEqual<unknown>(sends[0]?.message.parts, [
          { kind: "data", data: { pictures: [id] } },
          { kind: "file", file: { name: "chart.png", mimeType: "image/png", bytes: inBase64(chart) } }
        ])
        assert.strictEqual(yield* call("shop_scan", id), "completed")
        const scanned = (yield* server.requests).find(({ body }) => body.includes("tools/call"))
        assert.include(scanned?.body, `"pictures":["${inBase64(chart)}"]`)
        const refused = yield* Effect.forEach(
          [
            ["shop_scan", text],
            ["shop_link", id],
            ["plot_chart", elsewhere],
            ["plot_chart", "chart.png"],
            ["plot_chart", huge]
          ] as const,
          ([tool, picture]) => call(tool, picture)
        )
        const unknown = "input.pictures.0: Expected the id of a file of this conversation, which begins with file_"
        assert.deepStrictEqual(refused, [
          "input.pictures.0: Expected a file of type image/png, and chart.png is text/plain",
          "input.pictures.0: The server wants a URL of the file, and this gateway gives none without BOWLINE_PUBLIC_URL. A schema with contentEncoding base64 gets its bytes",
          unknown,
          unknown,
          "The files of a call may have 8388608 bytes together, and these have 8388609. With BOWLINE_PUBLIC_URL the gateway would send their URLs"
        ])
        assert.strictEqual((yield* peer.seen).sends.length, 1)

        const linked = yield* startOn(stores.memory)(callNamed, {
          ...settings,
          BOWLINE_PUBLIC_URL: "https://gateway.example/bowline/"
        })
        const place = { ...theirs, url: linked.url }
        const [small, large] = [yield* uploaded(place, chart), yield* uploaded(place, Buffer.alloc(1_048_577, 0xfe))]
        assert.strictEqual(yield* called(place, "plot_chart", small), "completed")
        assert.strictEqual(yield* called(place, "plot_chart", large), "completed")
        assert.strictEqual(yield* called(place, "shop_link", small), "completed")
        const parts = (yield* peer.seen).sends.map(({ message }) => message.parts[1])
        const [inlined, byUrl] = parts.slice(1) as ReadonlyArray<{ file: { uri?: string; bytes?: string } } | undefined>
        assert.strictEqual(inlined?.file.bytes, inBase64(chart))
        const uri = byUrl?.file.uri ?? ""
        const link = /"(https:[^"]+)"/.exec((yield* server.requests).at(-1)?.body ?? "")?.[1] ?? ""
        const read = (link: string) => send(link.replace("https://gateway.example/bowline", linked.url))
        for (const [url, file] of [
          [uri, large],
          [link, small]
        ] as const) {
          assert.match(url, new RegExp(`^https://gateway\\.example/bowline/files/${file}/content\\?token=[\\w-]+$`))
          assert.strictEqual((yield* read(url)).status, 200)
        }
        assert.include((yield* read(link)).text, "PNG")
        const forbidden = [
          uri.replace(large, small),
          link.replace(/token=./, (start) => (start.endsWith("A") ? "token=B" : "token=A")),
          link.replace(/=.*/, "="),
          link.replace(/^https.*token/, `${linked.url}/files/file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd/content?token`)
        ]
        for (const url of forbidden) assert.deepInclude(yield* read(url), { status: 403 })
        // It opens the bytes of the file, and nothing else.
        for (const url of [link.replace("/content", ""), link.replace(/\?.*/, "")]) {
          assert.deepInclude(yield* read(url), { status: 401 })
        }
      }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
  it.live("are fetched from where their tool says only if the request says so, and under the egress rules", () =>
    Effect.gen(function* () {
      const { environment, host } = yield* fileServer
      const at = (path: string) => `https://${host}${path}`
      const peer = yield* ScriptedPeer.serve({
        acts: [
          produces([file({ name: "chart.png", mimeType: "image/png", uri: at("/a%20knot.png") })]),
          produces([file({ mimeType: "image/jpeg", uri: at("/lie.jpg") })]),
          completes("Done")
        ]
      })
      const sound = Buffer.concat([Buffer.from("0000001866747970", "hex"), Buffer.from("M4A la la la")])
      const server = yield* ScriptedMcpServer.serve({
        list: () => ({ tools: [{ name: "scan", inputSchema: { type: "object" } }] }),
        call: (request) =>
          Effect.succeed(
            ScriptedMcpServer.result(request, {
              content: [
                { type: "resource_link", uri: at("/moved"), name: "scan.png", mimeType: "image/png" },
                { type: "audio", mimeType: "audio/mp4", data: inBase64(sound) }
              ]
            })
          )
      })
      const shown = Effect.fnUntraced(function* (url: string, question: string, fetch_files?: boolean) {
        const fetches = fetch_files === undefined ? {} : { fetch_files }
        const asked = {
          question,
          agents: [{ name: "plot", endpoint: peer.url, dialect: "a2a-0.3", skills: [{ id: "chart", ...fetches }] }],
          mcp_servers: [{ name: "shop", url: server.url, ...fetches }]
        }
        const { text } = yield* post(`${url}/plan`, asked, { ...ann, accept: "text/event-stream" })
        assert.match(text, /^event: final$/m, text)
        const artifacts = payloads(text, "task.artifact") as ReadonlyArray<Shown>
        return artifacts.flatMap(({ content, file_id, name }) => {
          if (file_id !== undefined) return [`kept ${name}`]
          return typeof content === "string" ? [content.replaceAll(host, "HOST")] : []
        })
      })
      const { url } = yield* start(script, { ...settings, ...environment })
      const lie = "It was sent as image/jpeg, and its bytes are image/png"
      assert.deepStrictEqual(yield* shown(url, "plot_chart", true), [
        "kept chart.png",
        `[file image/jpeg, which is not kept: ${lie}]`
      ])
      const link = "[link] scan.png: https://HOST/moved"
      assert.deepStrictEqual(yield* shown(url, "shop_scan", true), [link, "kept chart.png", "kept audio.mp4"])
      for (const fetches of [false, undefined]) {
        assert.deepStrictEqual(yield* shown(url, "plot_chart", fetches), [])
        assert.deepStrictEqual(yield* shown(url, "shop_scan", fetches), [link, "kept audio.mp4"])
      }
      const { url: careful } = yield* start(script, { ...settings, ...environment, BOWLINE_EGRESS_DENY: "localhost" })
      for (const tool of ["plot_chart", "shop_scan"]) {
        assert.include(
          yield* shown(careful, tool, true),
          `[file ${tool === "plot_chart" ? "chart" : "scan"}.png, which is not kept: The gateway does not connect to localhost: BOWLINE_EGRESS_DENY (egress.deny in the file) names it]`
        )
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
