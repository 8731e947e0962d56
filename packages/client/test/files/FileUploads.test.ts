import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createBowline } from "../../src/files/FileUploads.ts"

const stored = { file_id: "file_1", name: "a", bytes: 5 }

/** A server that keeps what it is sent, and answers as it is told. */
const serve = (statuses: ReadonlyArray<number>) =>
  Effect.acquireRelease(
    Effect.callback<{
      readonly url: string
      readonly asked: ReadonlyArray<{ readonly headers: IncomingHttpHeaders; readonly body: string }>
      readonly close: () => void
    }>((resume) => {
      const asked: Array<{ readonly headers: IncomingHttpHeaders; readonly body: string }> = []
      const server = createServer((request, response) => {
        let body = ""
        request.on("data", (chunk: Buffer) => (body += chunk.toString()))
        request.on("end", () => {
          asked.push({ headers: request.headers, body })
          const status = statuses[asked.length - 1] ?? 201
          response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(stored))
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" ? address?.port : undefined
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}`, asked, close: () => void server.close() }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

const streamOf = (...texts: ReadonlyArray<string>) =>
  new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const text of texts) controller.enqueue(new TextEncoder().encode(text))
      controller.close()
    }
  })

describe("an upload of the client", () => {
  it.live("sends a blob with its type, its name and the key, and again after a failure that may pass", () =>
    Effect.gen(function* () {
      const { asked, url } = yield* serve([503, 201])
      const { files } = createBowline({ baseUrl: url, apiKey: async () => "key" })
      const file = new File(["knots"], "d'(é)*.txt", { type: "text/plain" })
      assert.deepStrictEqual(yield* Effect.promise(() => files.upload(file)), stored as never)
      assert.strictEqual(asked.length, 2)
      for (const { body, headers } of asked) {
        assert.strictEqual(body, "knots")
        assert.deepInclude(headers, {
          "content-type": "text/plain",
          "content-length": "5",
          "content-disposition": "attachment; filename*=UTF-8''d%27%28%C3%A9%29%2a.txt",
          authorization: "Bearer key"
        })
      }
    })
  )

  it.live("sends a stream once, and says how far it is", () =>
    Effect.gen(function* () {
      const { asked, url } = yield* serve([201, 503])
      const { files } = createBowline({ baseUrl: url })
      const told: Array<ReadonlyArray<number | undefined>> = []
      const onProgress = (...progress: ReadonlyArray<number | undefined>) => void told.push(progress)
      yield* Effect.promise(() =>
        files.upload(streamOf("kno", "ts"), { name: "a.txt", type: "text/plain", onProgress })
      )
      assert.deepStrictEqual(told, [
        [3, undefined],
        [5, undefined]
      ])
      assert.deepInclude(asked[0], { body: "knots" })
      const error = yield* Effect.promise(() => files.upload(streamOf("a")).catch((error: unknown) => error))
      assert.deepInclude(error, { code: "incomplete", retryable: false })
      assert.strictEqual(asked.length, 2)
    })
  )

  it.live("reads the file of a path, and counts its bytes", () =>
    Effect.gen(function* () {
      const folder = mkdtempSync(join(tmpdir(), "bowline-upload-"))
      yield* Effect.addFinalizer(() => Effect.sync(() => rmSync(folder, { recursive: true })))
      writeFileSync(join(folder, "a.csv"), "1,2,3")
      const { asked, url } = yield* serve([])
      const told: Array<ReadonlyArray<number | undefined>> = []
      const { files } = createBowline({ baseUrl: url })
      yield* Effect.promise(() =>
        files.upload(join(folder, "a.csv"), { onProgress: (...progress) => void told.push(progress) })
      )
      assert.deepStrictEqual(told, [[5, 5]])
      assert.strictEqual(asked[0]?.headers["content-disposition"], "attachment; filename*=UTF-8''a.csv")
      assert.strictEqual(asked[0]?.body, "1,2,3")
    })
  )

  it.live("ends with its signal", () =>
    Effect.gen(function* () {
      const { asked, url } = yield* serve([])
      const leaving = new AbortController()
      const content = new ReadableStream<Uint8Array>({ pull: () => leaving.abort(new Error("left")) })
      const { files } = createBowline({ baseUrl: url })
      const error = yield* Effect.promise(() =>
        files.upload(content, { signal: leaving.signal }).catch((error: unknown) => error)
      )
      assert.deepInclude(error, { message: "left" })
      assert.deepStrictEqual(asked, [])
    })
  )
})
