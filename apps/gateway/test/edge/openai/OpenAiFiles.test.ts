import { say } from "@bowline/testing/provider/Turn"
import * as SampleFile from "@bowline/testing/unstable/file/SampleFile"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect } from "effect"
import { until } from "@bowline/testing/http/Move"
import OpenAI, { toFile } from "openai"
import { send, start } from "../../http/RunningGateway.ts"
import { client } from "./ChatClient.ts"

const picture = Buffer.from(SampleFile.png(1_200, 800))
const by = (name: string) => `key-of-${name}`
const settings = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_MODEL: "openai/gpt-5-mini" }

const failure = (call: () => PromiseLike<unknown>) =>
  Effect.promise(async () => {
    try {
      await call()
    } catch (cause) {
      if (cause instanceof OpenAI.APIError) {
        const { code, param, status } = cause as InstanceType<typeof OpenAI.APIError>
        return { status, code, param }
      }
      throw cause
    }
    throw new Error("The call did not fail")
  })

const named = (name: string, text: string) => toFile(Buffer.from(text), name, { type: "text/plain" })

describe("the client of OpenAI and its files", () => {
  it.live("uploads a file, finds it again with its purpose, reads it, asks about it and deletes it", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { url } = yield* start([[until(Deferred.await(proceed)), say("A knot")]], settings)
      const { chat, files } = client(url, by("ann"))
      const made = yield* Effect.promise(async () =>
        files.create({ file: await toFile(picture, "diagram.png", { type: "image/png" }), purpose: "vision" })
      )
      const { created_at, expires_at, ...told } = JSON.parse(JSON.stringify(made)) as Record<string, number>
      assert.deepEqual<object>(told, {
        id: made.id,
        object: "file",
        bytes: picture.length,
        filename: "diagram.png",
        purpose: "vision",
        status: "processed"
      })
      assert.isAbove(expires_at ?? 0, created_at ?? 0)
      assert.deepStrictEqual(yield* Effect.promise(() => files.retrieve(made.id)), made)
      const bytes = yield* Effect.promise(async () => (await files.content(made.id)).arrayBuffer())
      assert.deepStrictEqual(Buffer.from(bytes), picture)

      // The same file, in the words of the gateway, which keep what was said first.
      const headers = { authorization: `Bearer ${by("ann")}` }
      const { body } = yield* send(`${url}/files/${made.id}`, { headers })
      assert.deepInclude(body, { file_id: made.id, name: "diagram.png", width: 1_200 })
      assert.notProperty(body, "purpose")
      const again = yield* Effect.promise(async () =>
        files.create({ file: await toFile(picture, "copy.png", { type: "image/png" }), purpose: "assistants" })
      )
      assert.deepInclude(again, { id: made.id, filename: "diagram.png", purpose: "vision" })

      const content = [{ type: "file" as const, file: { file_id: made.id } }]
      const asking = { model: "bowline", messages: [{ role: "user" as const, content }], stream: true as const }
      const stream = yield* Effect.promise(() => chat.completions.create(asking))
      const used = yield* failure(() => files.delete(made.id))
      assert.deepStrictEqual(used, { status: 409, code: "file_in_use", param: null })
      yield* Deferred.succeed(proceed, undefined)
      yield* Effect.promise(async () => {
        for await (const _ of stream);
      })
      const deleted = yield* Effect.promise(() => files.delete(made.id))
      assert.deepStrictEqual(deleted, { id: made.id, object: "file", deleted: true })
      assert.deepStrictEqual((yield* failure(() => files.retrieve(made.id))).status, 404)
    })
  )

  it.live("lists its own files page by page, of one purpose", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], settings)
      const { files } = client(url, by("ann"))
      const bobs = client(url, by("bob")).files
      yield* Effect.promise(async () => {
        for (const name of ["one", "two", "three"]) {
          await files.create({ file: await named(name, name), purpose: name === "two" ? "assistants" : "user_data" })
        }
        await bobs.create({ file: await named("theirs", "theirs"), purpose: "user_data" })
      })
      const all = (query: OpenAI.FileListParams) =>
        Effect.promise(async () => {
          const names: Array<string> = []
          for await (const { filename } of files.list(query)) names.push(filename)
          return names
        })
      assert.deepStrictEqual(yield* all({ limit: 1 }), ["three", "two", "one"])
      assert.deepStrictEqual(yield* all({ limit: 1, purpose: "user_data" }), ["three", "one"])
      const theirs = yield* Effect.promise(async () => (await bobs.list()).data[0]?.id ?? "")
      for (const call of [
        () => files.retrieve(theirs),
        () => files.content(theirs),
        () => files.delete(theirs),
        () => files.retrieve("nobody")
      ]) {
        assert.deepStrictEqual(yield* failure(call), { status: 404, code: "not_found", param: null })
      }
      const behind = yield* failure(() => files.list({ after: theirs }))
      assert.deepStrictEqual(behind, { status: 400, code: "invalid_request", param: "after" })
      assert.strictEqual((yield* failure(() => files.list({ order: "asc" }))).param, "order")
    })
  )

  it.live("hears what is wrong with a file", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...settings, BOWLINE_MAX_FILE: "1KiB" })
      const { files } = client(url, by("ann"))
      const upload = (type: string, text: string, purpose: string) =>
        failure(async () =>
          files.create({
            file: await toFile(Buffer.from(text), "a", { type }),
            purpose: purpose as OpenAI.FilePurpose
          })
        )
      assert.deepInclude(yield* upload("image/png", "text", "vision"), { status: 415, code: "media_type_mismatch" })
      assert.deepInclude(yield* upload("text/plain", "a".repeat(2_000), "vision"), { status: 413 })
      assert.deepInclude(yield* upload("text/plain", "a", "no purpose"), { status: 400, param: "purpose" })
      const listed = yield* Effect.promise(() => files.list())
      assert.deepStrictEqual(listed.data, [])
    })
  )
})
