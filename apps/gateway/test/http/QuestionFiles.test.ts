import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { read, replay } from "@bowline/testing/replay/Replay"
import { createHash } from "node:crypto"
import { gunzipSync } from "node:zlib"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { join } from "node:path"
import { fileServer } from "./FileServer.ts"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_MODEL: "openai/gpt-5-mini" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const ann = by("ann")

const answers = () => [say("A knot")]

const upload = Effect.fnUntraced(function* (
  url: string,
  bytes: Uint8Array,
  name: string,
  type: string,
  caller: string = "ann"
) {
  const headers = { ...by(caller), "content-type": type, "content-disposition": `attachment; filename="${name}"` }
  const { body } = yield* send(`${url}/files`, { method: "POST", headers, body: Uint8Array.from(bytes) })
  return String(body["file_id"])
})

const picture = Buffer.from(SampleFile.png(1_200, 800))
const paper = Buffer.from(SampleFile.pdf())
const inline = (bytes: Uint8Array, media_type: string, name: string) => ({
  type: "file",
  data: Buffer.from(bytes).toString("base64"),
  media_type,
  name
})

/** What the provider was asked last, as text. */
const lastAsked = ({ provider }: Effect.Success<ReturnType<typeof start>>) =>
  Effect.map(provider.requests.all, (all) => all.at(-1)?.body ?? "")

describe("the files of a question", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`reach the model, and nothing else has their bytes (${name})`, () =>
      Effect.gen(function* () {
        const gateway = yield* startOn(store)(answers, callers)
        const { url } = gateway
        const id = yield* upload(url, picture, "diagram.png", "image/png")
        const parts = [
          { type: "text", text: "What is this?" },
          { type: "file", file_id: id },
          inline(paper, "application/pdf", "rope.pdf"),
          inline(Buffer.from("left over right"), "text/plain", "knot.txt")
        ]
        const { body, status } = yield* post(`${url}/plan`, { question: parts, session_id: "knots" }, ann)
        assert.deepStrictEqual([status, body["state"]], [200, "completed"])
        const sent = JSON.parse(yield* lastAsked(gateway)) as { messages: ReadonlyArray<{ content: unknown }> }
        const { body: listed } = yield* send(`${url}/files`, { headers: ann })
        const [text, pdf] = listed["files"] as ReadonlyArray<{ readonly file_id: string }>
        const textLine = `[file knot.txt, text/plain, ${text?.file_id}]`
        assert.deepStrictEqual(sent.messages.at(-1)?.content, [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${picture.toString("base64")}` } },
          {
            type: "file",
            file: { filename: "rope.pdf", file_data: `data:application/pdf;base64,${paper.toString("base64")}` }
          },
          { type: "text", text: `${textLine}\n\nleft over right` }
        ])

        const { body: plan } = yield* send(`${url}/plans/${String(body["plan_id"])}`, { headers: ann })
        const line = `[image diagram.png, 1200×800, ${id}]`
        assert.strictEqual(
          plan["question"],
          `What is this?\n\n${line}\n\n[file rope.pdf, application/pdf, ${pdf?.file_id}]\n\n${textLine}`
        )
        assert.deepStrictEqual((plan["request"] as { readonly question: unknown }).question, [
          parts[0],
          parts[1],
          { type: "file", file_id: pdf?.file_id },
          { type: "file", file_id: text?.file_id }
        ])
        const { body: history } = yield* send(`${url}/sessions/knots/messages`, { headers: ann })
        const [asked] = history["messages"] as ReadonlyArray<{ readonly parts: ReadonlyArray<unknown> }>
        const reference = { type: "file", file_id: id, media_type: "image/png", name: "diagram.png" }
        assert.deepStrictEqual(asked?.parts.slice(0, 2), [
          parts[0],
          { ...reference, bytes: picture.length, width: 1_200, height: 800 }
        ])
        const events = yield* send(`${url}/plans/${String(body["plan_id"])}/events`, { headers: ann })
        for (const shown of [plan, history, events.text]) {
          assert.notInclude(JSON.stringify(shown), picture.toString("base64").slice(0, 40))
        }

        // The next question has the history: with the picture as long as it is there, and a line when it is gone.
        yield* post(`${url}/plan`, { question: "And now?", session_id: "knots" }, ann)
        assert.include(yield* lastAsked(gateway), `data:image/png;base64,`)
        yield* send(`${url}/files/${id}`, { method: "DELETE", headers: ann })
        const after = yield* post(`${url}/plan`, { question: "And then?", session_id: "knots" }, ann)
        const later = yield* lastAsked(gateway)
        assert.notInclude(later, `data:image/png;base64,`)
        assert.include(later, "[diagram.png, deleted]")
        const { body: told } = yield* send(`${url}/sessions/knots/messages`, { headers: ann })
        const [first] = told["messages"] as ReadonlyArray<{ readonly parts: ReadonlyArray<unknown> }>
        const gone = { type: "text", text: "[diagram.png, deleted]" }
        assert.deepStrictEqual(first?.parts.slice(0, 2), [parts[0], gone])
        assert.include(JSON.stringify(first?.parts[2]), '"name":"rope.pdf"')

        // An export says what stands for its files, and those that are there by their digests. It can be run again.
        const exported = yield* Effect.promise(async () => {
          const answer = await fetch(`${url}/plans/${String(after.body["plan_id"])}/export`, { headers: ann })
          return new Uint8Array(await answer.arrayBuffer())
        })
        const lines = gunzipSync(exported).toString().trimEnd().split("\n")
        const named = lines
          .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
          .filter((line) => line["type"] === "named")
        const digestOf = (bytes: string | Buffer) => createHash("sha256").update(bytes).digest("hex")
        assert.deepStrictEqual(named, [
          { type: "named", file_id: id, text: "[diagram.png, deleted]", sha256: null },
          {
            type: "named",
            file_id: pdf?.file_id,
            text: `[file rope.pdf, application/pdf, ${pdf?.file_id}]`,
            sha256: digestOf(paper)
          },
          { type: "named", file_id: text?.file_id, text: textLine, sha256: digestOf("left over right") }
        ])
        const [recording] = read(exported)
        assert(recording !== undefined)
        assert.deepStrictEqual(yield* Effect.promise(() => replay(recording)), { _tag: "Same" })

        // A fork of the plan asks what is left of its question.
        const forked = yield* post(`${url}/plans/${String(body["plan_id"])}/fork`, {}, ann)
        assert.deepStrictEqual([forked.status, forked.body["state"]], [200, "completed"], JSON.stringify(forked.body))
        const askedAgain = yield* lastAsked(gateway)
        assert.include(askedAgain, "[diagram.png, deleted]")
        assert.include(askedAgain, paper.toString("base64"))
        const { body: fork } = yield* send(`${url}/plans/${String(forked.body["plan_id"])}`, { headers: ann })
        assert.match(String(fork["question"]), /^What is this\?\n\n\[diagram\.png, deleted\]\n\n\[file rope\.pdf/)
      })
    )
  }

  it.live("are refused where they are unknown, another caller's, or not what was said: the part is named", () =>
    Effect.gen(function* () {
      const { url } = yield* start(answers, callers)
      const bobs = yield* upload(url, picture, "bobs.png", "image/png", "bob")
      const refused = Effect.fnUntraced(function* (question: unknown, expected: string) {
        const { body, status } = yield* post(`${url}/plan`, { question }, ann)
        assert.deepStrictEqual([status, body["code"]], [400, "invalid_request"])
        const [issue] = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        assert.strictEqual(issue?.path, expected)
        return issue?.message
      })
      const text = { type: "text", text: "?" }
      const unknown = { type: "file", file_id: "file_01a2209e-7ce5-75be-80d1-2446ecd8a1cd" }
      const messages = [
        yield* refused([text, unknown], "question[1].file_id"),
        yield* refused([text, { type: "file", file_id: bobs }], "question[1].file_id")
      ]
      assert.deepStrictEqual(messages, ["There is no such file", "There is no such file"])
      yield* refused([inline(picture, "image/jpeg", "a.jpg")], "question[0].data")
      yield* refused([inline(SampleFile.png(50_000, 50_000), "image/png", "a.png")], "question[0].data")
      yield* refused([{ type: "text", text: " " }], "question")
      yield* refused([], "question")
      yield* refused(
        Array.from({ length: 65 }, () => text),
        "question"
      )
      yield* refused(
        Array.from({ length: 21 }, () => unknown),
        "question"
      )
    })
  )

  it.live("are fetched from their URLs before the plan is created, or the part is named", () =>
    Effect.gen(function* () {
      const { environment, host } = yield* fileServer
      const gateway = yield* start(answers, {
        ...callers,
        ...environment,
        BOWLINE_MAX_FILE: "100000",
        BOWLINE_PUBLIC_URL: "https://gateway.example/bowline"
      })
      const { url } = gateway
      const ask = (place: string) =>
        post(
          `${url}/plan`,
          {
            question: [
              { type: "text", text: "?" },
              { type: "file", url: place }
            ]
          },
          ann
        )
      const { body } = yield* ask(`https://${host}/a%20knot.png`)
      assert.strictEqual(body["state"], "completed")
      assert.include(yield* lastAsked(gateway), picture.toString("base64"))
      const { body: plan } = yield* send(`${url}/plans/${String(body["plan_id"])}`, { headers: ann })
      assert.match(String(plan["question"]), /\[image a knot\.png, 1200×800, file_/)
      for (const path of ["/unsaid", "/moved"]) assert.strictEqual((yield* ask(`https://${host}${path}`)).status, 200)

      const noUrl = "Expected an https URL without a user and a password"
      const refused = Effect.fnUntraced(function* (place: string) {
        const { body, status } = yield* ask(place)
        const [issue] = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        assert.deepStrictEqual([status, body["code"], issue?.path], [400, "invalid_request", "question[1].url"])
        return issue?.message.replaceAll(host, "HOST")
      })
      const messages = yield* Effect.forEach(
        ["/none", "/moved/on", "/moved/plain", "/lie.jpg", "/packed", "/huge", "/endless"],
        (path) => refused(`https://${host}${path}?token=secret`)
      )
      // A file of this gateway, by its public URL and by where the request was sent to. The same path of another host is fetched.
      const own = yield* upload(url, picture, "own.png", "image/png", "ann")
      const at = `/files/${own}/content`
      for (const root of [url, "https://gateway.example/bowline"]) {
        const asked = yield* ask(`${root}${at}${root === url ? "" : "?token=old"}`)
        assert.strictEqual(asked.body["state"], "completed", JSON.stringify(asked.body))
      }
      assert.strictEqual(yield* refused(`https://${host}${at}`), "HOST answered 404")
      assert.strictEqual(yield* refused(`${url}/files/${own.replace(/.$/, "_")}/content`), noUrl)
      const bobs = yield* upload(url, paper, "bobs.pdf", "application/pdf", "bob")
      assert.strictEqual(yield* refused(`${url}/files/${bobs}/content`), "There is no such file")
      assert.deepStrictEqual(messages, [
        "HOST answered 404",
        "HOST redirects once more, after 3 times",
        "HOST redirects to what is no https URL",
        "It was sent as image/jpeg, and its bytes are image/png",
        "HOST sends it compressed, which nobody has asked for",
        "A file may have 100000 bytes at most",
        "A file may have 100000 bytes at most"
      ])
      for (const odd of [`http://${host}/a.png`, `https://ann:secret@${host}/a.png`, "file:///etc/passwd", "a.png"]) {
        assert.strictEqual(yield* refused(odd), noUrl)
      }
      // Keys make it a gateway that connects to nothing near it, unless it is told to.
      const { url: other } = yield* start(answers, { ...callers, ...environment, BOWLINE_EGRESS_DENY: "localhost" })
      const question = [{ type: "file", url: `https://${host}/a%20knot.png` }]
      const denied = yield* post(`${other}/plan`, { question }, ann)
      assert.match(JSON.stringify(denied.body["issues"]), /does not connect to localhost: BOWLINE_EGRESS_DENY/)
      const { body: left } = yield* send(`${other}/files`, { headers: ann })
      assert.deepStrictEqual(left["files"], [])
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("are refused where they are too much for their session, of which the model is told the 50 newest", () =>
    Effect.gen(function* () {
      const quotas = { BOWLINE_FILES_SESSION_QUOTA: "1000", BOWLINE_FILES_CALLER_QUOTA: "2300" }
      const gateway = yield* start(answers, { ...callers, ...quotas })
      const { url } = gateway
      const ask = (text: string, session_id: string) =>
        post(`${url}/plan`, { session_id, question: [inline(Buffer.from(text.repeat(600)), "text/plain", text)] }, ann)
      assert.strictEqual((yield* ask("a", "one")).status, 200)
      assert.strictEqual((yield* ask("a", "one")).status, 200)
      const { body, status } = yield* ask("b", "one")
      assert.deepStrictEqual([status, body["code"]], [409, "quota_exceeded"])
      assert.include(JSON.stringify(body["issues"]), "BOWLINE_FILES_SESSION_QUOTA")
      assert.strictEqual((yield* ask("b", "two")).status, 200)
      yield* ask("c", "three")
      const all = yield* ask("d", "four")
      assert.deepStrictEqual([all.status, all.body["code"]], [409, "quota_exceeded"])
      assert.deepStrictEqual(all.body["issues"], [
        {
          path: "question[0].data",
          message: "Your files may have 2300 bytes together (BOWLINE_FILES_CALLER_QUOTA): delete some first"
        }
      ])

      const names = Array.from({ length: 51 }, (_, index) => `${index}.txt`)
      const files = names.map((name) => inline(Buffer.from(name), "text/plain", name))
      for (const from of [0, 20, 40]) {
        const question = files.slice(from, from + 20)
        assert.strictEqual((yield* post(`${url}/plan`, { session_id: "many", question }, ann)).status, 200)
      }
      const { messages } = JSON.parse(yield* lastAsked(gateway)) as {
        readonly messages: ReadonlyArray<{ content: string }>
      }
      const told = Array.from(messages[0]?.content.matchAll(/^- \[file (\S+), text\/plain/gm) ?? [], ([, name]) => name)
      assert.deepStrictEqual(told, names.toReversed().slice(0, 50))
    })
  )

  it.live("are refused before the plan where no model takes them, and asked of the models that do", () =>
    Effect.gen(function* () {
      const file = JSON.stringify({
        models: { "gpt-4": { input: ["text", "image"], max_image_bytes: 1_000 }, "gpt-4o": { max_pdf_pages: 20 } }
      })
      const folder = yield* folderOf({ "gateway.json": file })
      const gateway = yield* start(answers, {
        ...callers,
        BOWLINE_CONFIG: join(folder, "gateway.json"),
        BOWLINE_MODEL: "openai/gpt-3.5-turbo",
        BOWLINE_ALLOWED_MODELS: "*",
        BOWLINE_FALLBACK_MODELS: "openai/gpt-4"
      })
      const { url } = gateway
      const ask = (media: object, preferences: object = {}) =>
        post(`${url}/plan`, { question: [{ type: "text", text: "?" }, media], preferences }, ann)
      const image = yield* ask(inline(picture, "image/png", "diagram.png"))
      assert.strictEqual(image.body["state"], "completed")
      assert.include(yield* lastAsked(gateway), '"model":"gpt-4"')
      const pdf = yield* ask(inline(paper, "application/pdf", "rope.pdf"))
      assert.deepStrictEqual([pdf.status, pdf.body["code"]], [400, "unsupported_input"])
      assert.match(JSON.stringify(pdf.body["issues"]), /question\[1\].*takes no PDFs: rope\.pdf/)
      const large = yield* ask(inline(SampleFile.png(3, 4, 2_000), "image/png", "large.png"))
      assert.strictEqual(large.body["code"], "unsupported_input")
      const long = { model: "openai/gpt-4o" }
      const allowed = yield* ask(inline(Buffer.from(SampleFile.pdf(20)), "application/pdf", "long.pdf"), long)
      assert.strictEqual(allowed.body["state"], "completed")
      const bomb = yield* ask(inline(Buffer.from(SampleFile.pdf(10_000)), "application/pdf", "bomb.pdf"), long)
      assert.deepStrictEqual([bomb.status, bomb.body["code"]], [400, "unsupported_input"])
      assert.match(
        JSON.stringify(bomb.body["issues"]),
        /takes PDFs of 20 pages at most, and this one has 10000: bomb\.pdf/
      )
      // What was asked before is a line for a model that does not take it.
      const named = { question: "?", session_id: "mixed" }
      yield* post(`${url}/plan`, { ...named, question: [inline(picture, "image/png", "diagram.png")] }, ann)
      yield* post(`${url}/plan`, named, ann)
      const asked = yield* lastAsked(gateway)
      assert.include(asked, '"model":"gpt-3.5-turbo"')
      assert.match(asked, /\[image diagram\.png, 1200×800, file_/)
      assert.notInclude(asked, "base64")
    })
  )

  it.live(
    "come in texts of an inbox and in results of the client's tools, too, also where the text moves to the next plan",
    () =>
      Effect.gen(function* () {
        const script: Script = ({ messages }) => {
          const last = messages.at(-1)
          return last?.role === "user" && last.text === "Look" ? [callTool("camera", {})] : [say("A knot")]
        }
        const gateway = yield* start(script, { ...callers, BOWLINE_MODEL: "openai/gpt-5-mini" })
        const { url } = gateway
        const tools = [{ name: "camera", input_schema: { type: "object" } }]
        const preferences = { on_disconnect: "continue" }
        const id = yield* upload(url, picture, "knot.png", "image/png")
        const bobs = yield* upload(url, paper, "bobs.pdf", "application/pdf", "bob")
        const begun = yield* Effect.promise((signal) =>
          fetch(`${url}/plan`, {
            method: "POST",
            headers: { ...ann, "content-type": "application/json" },
            body: JSON.stringify({ question: "Look", session_id: "inbox", tools, preferences }),
            signal
          })
        )
        const reader = begun.body?.getReader()
        assert(reader !== undefined)
        let shown = ""
        const readTo = (text: string) =>
          Effect.promise(async () => {
            while (!shown.includes(text)) shown += Buffer.from((await reader.read()).value ?? []).toString()
          })
        yield* readTo("event: waiting")
        const [, plan = ""] = /"plan_id":"([^"]+)"/.exec(shown) ?? []
        const [, task = ""] = /"task_id":"([^"]+)"/.exec(shown) ?? []
        const tell = (entry: object, to = plan) => post(`${url}/plans/${to}/inbox`, entry, ann)

        const refused = yield* tell({ type: "text", text: "See this", files: [bobs] })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "invalid_request"])
        assert.deepStrictEqual(refused.body["issues"], [{ path: "files[0]", message: "There is no such file" }])
        assert.strictEqual((yield* tell({ type: "text", text: "See this", files: [id] })).status, 202)
        const given = {
          type: "result",
          task_id: task,
          content: [{ type: "text", text: "Here" }, inline(paper, "application/pdf", "rope.pdf")]
        }
        const many = Array.from({ length: 21 }, () => inline(paper, "application/pdf", "rope.pdf"))
        const tooMany = yield* tell({ ...given, content: many })
        assert.deepStrictEqual(tooMany.body["issues"], [
          { path: "content", message: "Expected at most 64 parts, with at most 20 files" }
        ])
        const first = yield* tell(given)
        assert.strictEqual(first.status, 202)
        // The same bytes are the same file, so it is the same result.
        assert.strictEqual((yield* tell(given)).body["entry_id"], first.body["entry_id"])
        yield* readTo("event: done")
        for (const bytes of [picture, paper]) assert.notInclude(shown, bytes.toString("base64").slice(0, 40))
        const sent = JSON.parse(yield* lastAsked(gateway)) as { readonly messages: ReadonlyArray<{ content: unknown }> }
        const [result, ...files] = sent.messages.slice(-3)
        assert.match(String(result?.content), /Here[^]*\[file rope\.pdf, application\/pdf, file_/)
        const pdf = `data:application/pdf;base64,${paper.toString("base64")}`
        const image = { url: `data:image/png;base64,${picture.toString("base64")}` }
        assert.deepStrictEqual<unknown>(files, [
          { role: "user", content: [{ type: "file", file: { filename: "rope.pdf", file_data: pdf } }] },
          {
            role: "user",
            content: [
              { type: "text", text: "See this" },
              { type: "image_url", image_url: image }
            ]
          }
        ])

        const moved = yield* tell({ type: "text", text: "And this?", files: [id] })
        assert.strictEqual(moved.body["moved"], true)
        yield* send(`${url}/plans/${String(moved.body["plan_id"])}/events`, { headers: ann })
        const next = yield* lastAsked(gateway)
        assert.include(next.slice(next.lastIndexOf("And this?")), `"image_url":{"url":"${image.url}"}`)
        const { body } = yield* send(`${url}/plans/${String(moved.body["plan_id"])}`, { headers: ann })
        assert.match(String(body["question"]), /^And this\?\n\n\[image knot\.png, 1200×800, file_/)
      })
  )
})
