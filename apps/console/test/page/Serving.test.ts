import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { start } from "../browser/Gateway.ts"

const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly bytes: Buffer
}

/** One request as it stands: `fetch` would add an `Accept-Encoding`, and decode the answer. */
const send = (url: string, headers: Readonly<Record<string, string>> = {}, method = "GET") =>
  Effect.callback<Answer>((resume) => {
    request(url, { method, headers }, (response) => {
      const pieces: Array<Buffer> = []
      response.on("data", (piece: Buffer) => pieces.push(piece))
      response.on("end", () =>
        resume(
          Effect.succeed({
            status: response.statusCode ?? 0,
            headers: response.headers as Answer["headers"],
            bytes: Buffer.concat(pieces)
          })
        )
      )
    }).end()
  })

const typeOf = ({ headers }: Answer) => headers["content-type"]?.split(";")[0]

const isPage = ({ bytes, headers }: Answer) =>
  headers["content-type"] === "text/html; charset=utf-8" && bytes.toString().includes("<!doctype html>")

const shared = [
  "/overview",
  "/usage",
  "/plans",
  "/plans/plan_x",
  "/sessions",
  "/sessions/s%2F1?x=1",
  "/schedules",
  "/schedules/schedule_x",
  "/waiting",
  "/approvals",
  "/accounts",
  "/peers",
  "/credentials/"
]

/** The settings of a gateway with this configuration file. */
const withFile = (content: object) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-console-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
    ),
    (folder) => {
      const path = join(folder, "gateway.json")
      writeFileSync(path, JSON.stringify(content))
      return { BOWLINE_CONFIG: path }
    }
  )

/** One gateway for all tests that want nothing special of it. */
class Served extends Context.Service<Served, Effect.Success<ReturnType<typeof start>>>()("Served") {
  static readonly layer = Layer.effect(
    Served,
    start([], { BOWLINE_API_KEYS: "ann=key-of-ann", BOWLINE_PUBLIC_HOSTS: "bowline.example" })
  )
}

layer(Served.layer, { excludeTestServices: true })("the console", (it) => {
  it.effect("shares its URLs with the API: browsers get the page, and everybody else JSON", () =>
    Effect.gen(function* () {
      const { url } = yield* Served
      for (const path of shared) {
        const page = yield* send(url + path, { accept: browser })
        assert.strictEqual(page.status, 200, path)
        assert.isTrue(isPage(page), path)
        assert.strictEqual(page.headers["vary"], "Accept, Accept-Encoding")
        for (const accept of [
          undefined,
          "*/*",
          "application/json",
          "application/json, text/html",
          "text/html;q=0.5,*/*"
        ]) {
          const answer = yield* send(url + path, accept === undefined ? {} : { accept })
          assert.strictEqual(answer.status, 401, `${path} ${accept}`)
          assert.strictEqual(typeOf(answer), "application/problem+json")
          assert.strictEqual(answer.headers["vary"], "Accept")
        }
        const key = { authorization: "Bearer key-of-ann", accept: "application/json" }
        assert.strictEqual(typeOf(yield* send(url + path, key))?.endsWith("json"), true)
      }
      for (const accept of [undefined, "*/*", browser]) {
        assert.isTrue(isPage(yield* send(`${url}/?a=1`, accept === undefined ? {} : { accept })))
      }
      const none = yield* send(url, { accept: "application/json" })
      assert.deepStrictEqual([none.status, none.headers["vary"]], [404, "Accept"])
    })
  )

  it.effect("says that a page is unknown with the status 404, and to programs as a problem", () =>
    Effect.gen(function* () {
      const { url } = yield* Served
      for (const path of [
        "/nothing",
        "/plans/a/b/c",
        "/assets/gone.js",
        "/assets/../../package.json",
        "/index.html.br"
      ]) {
        const page = yield* send(url + path, { accept: browser })
        assert.strictEqual(page.status, 404, path)
        assert.isTrue(isPage(page), path)
        const problem = yield* send(url + path, { accept: "*/*" })
        assert.deepStrictEqual([problem.status, typeOf(problem)], [404, "application/problem+json"])
        assert.strictEqual(problem.headers["vary"], "Accept")
      }
      const api = yield* send(`${url}/health`, { accept: browser })
      assert.deepStrictEqual([api.status, typeOf(api)], [200, "application/json"])
    })
  )

  it.effect("sends each file compressed, once for each browser, with a policy that allows only its own files", () =>
    Effect.gen(function* () {
      const { url } = yield* Served
      const page = yield* send(url, { accept: browser })
      const assets = Array.from(
        page.bytes.toString().matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g),
        ([, path = ""]) => path
      )
      assert.isAtLeast(assets.length, 2)
      for (const path of ["/", ...assets]) {
        const plain = yield* send(url + path)
        assert.strictEqual(plain.status, 200, path)
        assert.isUndefined(plain.headers["content-encoding"])
        for (const [accepted, encoding, decode] of [
          ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
          ["gzip", "gzip", gunzipSync],
          ["br;q=0, gzip", "gzip", gunzipSync]
        ] as const) {
          const packed = yield* send(url + path, { "accept-encoding": accepted })
          assert.strictEqual(packed.headers["content-encoding"], encoding)
          assert.deepStrictEqual(decode(packed.bytes), plain.bytes)
          assert.notStrictEqual(packed.headers["etag"], plain.headers["etag"])
          const again = yield* send(url + path, {
            "accept-encoding": accepted,
            "if-none-match": packed.headers["etag"] ?? ""
          })
          assert.deepStrictEqual([again.status, again.bytes.length], [304, 0])
        }
        const head = yield* send(url + path, {}, "HEAD")
        assert.deepStrictEqual([head.status, head.bytes.length], [200, 0])
        assert.strictEqual(head.headers["content-length"], String(plain.bytes.length))
        assert.strictEqual(
          plain.headers["cache-control"],
          path === "/" ? "no-cache" : "public, max-age=31536000, immutable"
        )
        assert.deepInclude(plain.headers, {
          "content-security-policy": policy,
          "x-content-type-options": "nosniff",
          "referrer-policy": "no-referrer",
          "cross-origin-opener-policy": "same-origin"
        })
      }
    })
  )

  it.effect("weighs 60 KiB of JavaScript at most for the first page, and 90 KiB in all", () =>
    Effect.gen(function* () {
      const { url } = yield* Served
      const weigh = Effect.fnUntraced(function* (names: RegExp) {
        const seen = new Map<string, number>()
        const add: (path: string) => Effect.Effect<void> = Effect.fnUntraced(function* (path) {
          const { bytes } = yield* send(url + path, { "accept-encoding": "gzip" })
          seen.set(path, path === "/" ? 0 : bytes.length)
          const text = gunzipSync(bytes).toString()
          for (const [, name = ""] of text.matchAll(path === "/" ? /"\/assets\/([\w-]+\.js)"/g : names)) {
            if (!seen.has(`/assets/${name}`)) yield* add(`/assets/${name}`)
          }
        })
        yield* add("/")
        return { files: seen.size - 1, bytes: Array.from(seen.values()).reduce((sum, bytes) => sum + bytes, 0) }
      })
      const first = yield* weigh(/(?:from|import)\s*["'`]\.\/([\w-]+\.js)["'`]/g)
      // Files name all others that they may ask for.
      const all = yield* weigh(/["'`](?:\.\/|\/?assets\/)([\w-]+\.js)["'`]/g)
      assert.isAtLeast(first.files, 1)
      assert.isAbove(all.files, first.files)
      assert.isAtMost(first.bytes, 60 * 1_024)
      assert.isAtMost(all.bytes, 90 * 1_024)
    })
  )

  it.effect("tells people its address before anything else", () =>
    Effect.gen(function* () {
      const { lines, url } = yield* Served
      const messages = lines.map((line) => (JSON.parse(line) as { readonly message?: unknown }).message)
      assert.strictEqual(String(messages[0]), `The console is at ${url}/`)
    })
  )

  it.effect("is not there where it is switched off", () =>
    Effect.gen(function* () {
      const { lines, url } = yield* start([], yield* withFile({ console: { enabled: false } }))
      assert.notInclude(lines.join("\n"), "console")
      for (const path of ["/", "/plans/plan_x", "/nothing"]) {
        const answer = yield* send(url + path, { accept: browser })
        assert.deepStrictEqual([answer.status, typeOf(answer)], [404, "application/problem+json"], path)
      }
      assert.strictEqual(typeOf(yield* send(`${url}/plans`, { accept: browser })), "application/json")
    })
  )

  it.effect("comes to nobody who may not come in", () =>
    Effect.gen(function* () {
      const { url } = yield* Served
      for (const path of ["/", "/plans"]) {
        const rebound = yield* send(url + path, { accept: browser, host: "evil.example" })
        assert.deepStrictEqual([rebound.status, typeOf(rebound)], [403, "application/problem+json"])
      }
    })
  )
})
