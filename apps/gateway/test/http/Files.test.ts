import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { BowlineError } from "@bowline/client"
import { createBowline } from "@bowline/client/files"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { randomInt } from "node:crypto"
import { request as nodeRequest } from "node:http"
import { send, start, startOn, stores } from "./RunningGateway.ts"

const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })

const upload = (
  url: string,
  bytes: Uint8Array | string,
  headers: Readonly<Record<string, string>> = {},
  name = "ann"
) =>
  send(`${url}/files`, {
    method: "POST",
    headers: { ...by(name), "content-type": "application/octet-stream", ...headers },
    body: typeof bytes === "string" ? bytes : Uint8Array.from(bytes)
  })

const codeOf = ({ body, status }: Effect.Success<ReturnType<typeof send>>) => [status, body["code"]]

/** The bytes of an answer, with its status and headers. */
const fetchBytes = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async (signal) => {
    const response = await fetch(url, { headers: { ...by("ann"), ...headers }, signal })
    return { status: response.status, headers: response.headers, bytes: Buffer.from(await response.arrayBuffer()) }
  })

describe("files", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`are stored, shown, read and deleted by their caller alone (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(() => [say("?")], callers)
        const picture = Buffer.from(SampleFile.png(1_200, 800, 600_000))
        const disposition = "attachment; filename=\"copy.png\"; filename*=UTF-8''sch%C3%A9ma.png"
        const { body: file, status } = yield* upload(url, picture, { "content-disposition": disposition })
        assert.strictEqual(status, 201)
        assert.deepInclude(file, {
          name: "schéma.png",
          media_type: "image/png",
          bytes: picture.length,
          width: 1_200,
          height: 800
        })
        const id = String(file["file_id"])
        assert.strictEqual(
          Date.parse(String(file["expires_at"])) - Date.parse(String(file["created_at"])),
          7 * 86_400_000
        )

        const again = yield* upload(url, picture, { "content-disposition": "attachment; filename=other.png" })
        assert.strictEqual(again.status, 200)
        assert.deepInclude(again.body, { file_id: id, name: "schéma.png" })
        const { body: shown } = yield* send(`${url}/files/${id}`, { headers: by("ann") })
        assert.deepStrictEqual(shown, again.body)
        const { body: listed } = yield* send(`${url}/files?limit=1`, { headers: by("ann") })
        assert.deepStrictEqual(listed, { files: [shown], next_cursor: null })

        const whole = yield* fetchBytes(`${url}/files/${id}/content`)
        assert.isTrue(whole.bytes.equals(picture))
        const etag = whole.headers.get("etag") ?? ""
        assert.deepInclude(Object.fromEntries(whole.headers), {
          "content-type": "image/png",
          "content-length": String(picture.length),
          "accept-ranges": "bytes",
          "cache-control": "private, no-cache",
          "x-content-type-options": "nosniff",
          "content-disposition": "inline; filename=\"sch?ma.png\"; filename*=UTF-8''sch%C3%A9ma.png",
          etag: `"${String(file["sha256"])}"`
        })
        const part = yield* fetchBytes(`${url}/files/${id}/content`, { range: "bytes=262140-262150" })
        assert.strictEqual(part.status, 206)
        assert.strictEqual(part.headers.get("content-range"), `bytes 262140-262150/${picture.length}`)
        assert.isTrue(part.bytes.equals(picture.subarray(262_140, 262_151)))
        const end = yield* fetchBytes(`${url}/files/${id}/content`, { range: "bytes=-5", "if-range": etag })
        assert.isTrue(end.bytes.equals(picture.subarray(-5)))
        for (const headers of [{ "if-range": '"other"' }, { range: "bytes=0-1,4-5" }, { range: "lines=1-2" }]) {
          const { status } = yield* fetchBytes(`${url}/files/${id}/content`, { range: "bytes=-5", ...headers })
          assert.strictEqual(status, 200)
        }
        const behind = yield* send(`${url}/files/${id}/content`, { headers: { ...by("ann"), range: "bytes=9999999-" } })
        assert.deepStrictEqual(codeOf(behind), [416, "range_not_satisfiable"])
        assert.strictEqual(behind.headers.get("content-range"), `bytes */${picture.length}`)
        const known = yield* fetchBytes(`${url}/files/${id}/content`, { "if-none-match": etag })
        assert.deepStrictEqual([known.status, known.bytes.length], [304, 0])

        for (const path of [id, `${id}/content`]) {
          assert.deepStrictEqual(codeOf(yield* send(`${url}/files/${path}`, { headers: by("bob") })), [
            404,
            "not_found"
          ])
        }
        const bobs = yield* upload(url, picture, {}, "bob")
        assert.deepStrictEqual([bobs.status, bobs.body["file_id"] === id], [201, false])
        const remove = (name: string) => send(`${url}/files/${id}`, { method: "DELETE", headers: by(name) })
        assert.deepStrictEqual(codeOf(yield* remove("bob")), [404, "not_found"])
        assert.strictEqual((yield* remove("ann")).status, 204)
        assert.deepStrictEqual(codeOf(yield* remove("ann")), [404, "not_found"])
        assert.strictEqual((yield* fetchBytes(`${url}/files/${id}/content`)).status, 404)
        assert.deepStrictEqual((yield* send(`${url}/files`, { headers: by("ann") })).body["files"], [])
      })
    )
  }

  it.live("come as the one file of a form, too", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("?")], { ...callers, BOWLINE_MAX_FILE: "300000" })
      const post = (...parts: ReadonlyArray<readonly [name: string, value: string | File]>) => {
        const form = new FormData()
        for (const [name, value] of parts) form.append(name, value)
        return send(`${url}/files`, { method: "POST", headers: by("ann"), body: form })
      }
      const file = new File([SampleFile.png(30, 40, 280_000)], "дом.png", { type: "image/png" })
      const { body, status } = yield* post(["purpose", "vision"], ["file", file], ["note", "?"])
      assert.strictEqual(status, 201)
      assert.deepInclude(body, { name: "дом.png", media_type: "image/png", bytes: file.size, width: 30 })
      assert.deepStrictEqual(codeOf(yield* post(["purpose", "vision"])), [400, "invalid_request"])
      assert.deepStrictEqual(codeOf(yield* post(["picture", file])), [400, "invalid_request"])
      const other = new File(["a"], "a.txt", { type: "text/plain" })
      assert.deepStrictEqual(codeOf(yield* post(["file", other], ["file", file])), [400, "invalid_request"])
      assert.lengthOf((yield* send(`${url}/files`, { headers: by("ann") })).body["files"] as Array<unknown>, 1)
      const large = new File([Buffer.alloc(300_001)], "a.bin", { type: "application/octet-stream" })
      assert.deepStrictEqual(codeOf(yield* post(["file", large])), [413, "payload_too_large"])
      const headers = { ...by("ann"), "content-type": "multipart/form-data; boundary=x" }
      const broken = yield* send(`${url}/files`, {
        method: "POST",
        headers,
        body: '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nabc'
      })
      assert.deepStrictEqual(codeOf(broken), [400, "invalid_request"])
    })
  )

  it.live("are what their bytes are, as small as the operator says, and kept for as long", () =>
    Effect.gen(function* () {
      const limits = { BOWLINE_MAX_FILE: "300000", BOWLINE_FILES_CALLER_QUOTA: "400000", BOWLINE_FILES_TTL: "90s" }
      const { url } = yield* start(() => [say("?")], { ...callers, ...limits })
      const refused = (bytes: Uint8Array | string, headers: Readonly<Record<string, string>> = {}) =>
        Effect.map(upload(url, bytes, headers), codeOf)
      assert.deepStrictEqual(yield* refused(SampleFile.png(1, 1), { "content-type": "image/jpeg" }), [
        415,
        "media_type_mismatch"
      ])
      assert.deepStrictEqual(yield* refused(SampleFile.png(50_000, 50_000)), [400, "invalid_file"])
      assert.deepStrictEqual(yield* refused(""), [400, "invalid_file"])
      assert.deepStrictEqual(yield* refused(Buffer.alloc(300_001)), [413, "payload_too_large"])
      const packed = (yield* upload(url, "a", { "content-encoding": "gzip" })).body
      assert.strictEqual(packed["code"], "unsupported_media_type")
      assert.notInclude(String(packed["title"]), "JSON")
      assert.strictEqual(packed["detail"], "Expected a body without a Content-Encoding")
      assert.strictEqual((yield* upload(url, Buffer.alloc(300_000))).status, 201)
      assert.deepStrictEqual(yield* refused(Buffer.alloc(100_001)), [409, "quota_exceeded"])
      // The same of uploads by the client, and of those that it or its caller ends.
      const clientOf = (apiKey: string) => createBowline({ baseUrl: url, apiKey }).files
      const failed = (uploading: Promise<unknown>) =>
        Effect.promise(() =>
          uploading.then(
            () => "stored",
            (error: unknown) => (error instanceof BowlineError ? error.code : "ended")
          )
        )
      const files = clientOf("key-of-ann")
      const before = (yield* send(`${url}/files`, { headers: by("ann") })).text
      assert.strictEqual(yield* failed(files.upload(new Blob([Buffer.alloc(300_001)]))), "payload_too_large")
      assert.strictEqual(
        yield* failed(files.upload(new File(["text"], "a.png", { type: "image/png" }))),
        "media_type_mismatch"
      )
      assert.strictEqual(yield* failed(clientOf("other").upload(new Blob(["text"]))), "unauthorized")
      const breaks = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          controller.enqueue(new Uint8Array(200_000))
          controller.error(new Error("The disk is gone"))
        }
      })
      assert.notStrictEqual(yield* failed(files.upload(breaks)), "stored")
      const leaving = new AbortController()
      const endless = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          controller.enqueue(new Uint8Array(1_000))
          leaving.abort()
          return new Promise(() => {})
        }
      })
      assert.notStrictEqual(yield* failed(files.upload(endless, { signal: leaving.signal })), "stored")
      assert.strictEqual((yield* send(`${url}/files`, { headers: by("ann") })).text, before)
      const page = yield* upload(url, "<script>alert(1)</script>", { "content-type": "text/html" })
      const { created_at, expires_at, file_id } = page.body
      assert.strictEqual(Date.parse(String(expires_at)) - Date.parse(String(created_at)), 90_000)
      const { headers } = yield* fetchBytes(`${url}/files/${String(file_id)}/content`)
      assert.deepInclude(Object.fromEntries(headers), {
        "content-type": "text/html; charset=utf-8",
        "content-disposition": "attachment; filename=file",
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'; sandbox"
      })
    })
  )

  it.live("leave nothing when their upload is cut, and a body without a length is bounded, too", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const { url } = yield* start(() => [say("?")], {
        ...callers,
        ...settings,
        BOWLINE_MAX_FILE: "600000",
        BOWLINE_FILES_CALLER_QUOTA: "600000"
      })
      const sql = yield* PgClient.makeClient({ url: Redacted.make(settings.DATABASE_URL) }).pipe(
        Effect.provide(Reactivity.layer)
      )
      const left = Effect.orDie(
        sql<{ readonly id: string }>`select id from files union select file_id from file_chunks`
      )
      const begun = new Set<string>()
      const cut = (headers: Readonly<Record<string, string>>, offset: number) =>
        Effect.callback<void>((resume) => {
          const request = nodeRequest(`${url}/files`, { method: "POST", headers: { ...by("ann"), ...headers } })
          request.on("error", () => resume(Effect.void))
          request.write(Buffer.alloc(offset, 0xfe), () => request.destroy())
          request.on("close", () => resume(Effect.void))
        })
      /** Leaves when a chunk of it is stored. */
      const leave = Effect.gen(function* () {
        const request = nodeRequest(`${url}/files`, {
          method: "POST",
          headers: { ...by("ann"), "content-length": "600000" }
        })
        request.on("error", () => {})
        request.write(Buffer.alloc(randomInt(262_144, 600_000), 0xfe))
        const rows = yield* Effect.repeat(left, {
          until: (rows) => rows.length > 0,
          schedule: Schedule.spaced("5 millis")
        })
        for (const { id } of rows) begun.add(id)
        request.destroy()
        yield* Effect.repeat(left, { until: (rows) => rows.length === 0, schedule: Schedule.spaced("5 millis") })
      })
      for (const at of [1, 262_143, 262_144, 262_145]) yield* cut({ "content-length": "600000" }, at)
      for (let times = 0; times < 8; times++) {
        const headers = times % 2 === 0 ? { "content-length": "600000" } : { "transfer-encoding": "chunked" }
        yield* cut(headers, randomInt(1, 600_000))
      }
      // No row and no chunk is left, long before the sweeper comes.
      yield* Effect.repeat(left, { until: (rows) => rows.length === 0, schedule: Schedule.spaced("5 millis") })
      for (let times = 0; times < 3; times++) yield* leave
      // What was cut may begin late, and leave something for a moment, too.
      assert.isAtLeast(begun.size, 3)
      assert.deepStrictEqual((yield* send(`${url}/files`, { headers: by("ann") })).body["files"], [])
      // The quota has room for one such file: nothing that was cut counts.
      const whole = upload(url, Buffer.alloc(600_000, 0xfd))
      const { status } = yield* Effect.repeat(whole, {
        until: ({ status }) => status === 201,
        schedule: Schedule.recurs(3)
      })
      assert.strictEqual(status, 201)
      const endless = yield* Effect.promise(async () => {
        const body = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536)) })
        const init = { method: "POST", headers: by("ann"), body, duplex: "half" } as const
        return fetch(`${url}/files`, init).then(
          ({ status }) => status,
          () => 413
        )
      })
      assert.strictEqual(endless, 413)
    })
  )
})
