import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { globSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"
import { promisify } from "node:util"
import { beforeAll } from "vitest"
import { send, start } from "../http/RunningGateway.ts"

const root = join(import.meta.dirname, "../../../..")
const site = join(root, "apps/gateway/docs")

beforeAll(() => promisify(execFile)(process.execPath, [join(root, ".ci/pages.mjs")]))

const pages = () =>
  globSync("**/*.html", { cwd: site }).map((path) => ({ path, html: readFileSync(join(site, path), "utf8") }))

const values = (html: string, attribute: string) =>
  Array.from(html.matchAll(new RegExp(` ${attribute}="([^"]*)"`, "g")), ([, value = ""]) => value)

it.live("the documentation is served under /docs to everybody, with a policy that allows only its own files", () =>
  Effect.gen(function* () {
    const { url } = yield* start([], { BOWLINE_API_KEYS: "ann=key-of-ann" })
    for (const path of ["/docs", "/docs/", "/docs/reference/http", "/docs/reference/http.html", "/docs/decisions/"]) {
      const { headers, status, text } = yield* send(url + path)
      assert.strictEqual(status, 200, path)
      assert.strictEqual(headers.get("content-type"), "text/html; charset=utf-8", path)
      assert.include(headers.get("content-security-policy"), "default-src 'none'; script-src 'self'; style-src 'self'")
      assert.strictEqual(headers.get("cache-control"), "no-cache")
      assert.include(text, "<title>")
      const again = yield* send(url + path, { headers: { "if-none-match": headers.get("etag") ?? "" } })
      assert.deepStrictEqual([again.status, again.text], [304, ""], path)
    }
    const home = yield* send(`${url}/docs`)
    const assets = [...values(home.text, "src"), ...values(home.text, "href")].filter((path) =>
      path.includes("/assets/")
    )
    assert.isAtLeast(assets.length, 4)
    for (const path of assets) {
      const { headers, status } = yield* send(url + path)
      assert.deepStrictEqual([status, headers.get("cache-control")], [200, "public, max-age=31536000, immutable"], path)
    }
    for (const path of ["/docs", ...assets.filter((path) => /\.(js|css|svg)$/.test(path))]) {
      const [packed, plain] = [
        yield* send(url + path, { headers: { "accept-encoding": "gzip" } }),
        yield* send(url + path, { headers: { "accept-encoding": "identity" } })
      ]
      assert.deepStrictEqual(
        [packed.headers.get("content-encoding"), plain.headers.get("content-encoding")],
        ["gzip", null],
        path
      )
      assert.isBelow(Number(packed.headers.get("content-length")), plain.text.length, path)
      assert.strictEqual(packed.text, plain.text, path)
    }
    const llms = yield* send(`${url}/docs/llms.txt`)
    const listed = Array.from(llms.text.matchAll(/\]\(([^)]+)\)/g), ([, path = ""]) => path)
    assert.isAtLeast(listed.length, 40)
    for (const path of listed) {
      const { headers, text } = yield* send(url + path)
      assert.strictEqual(headers.get("content-type"), "text/markdown; charset=utf-8", path)
      assert.match(text, /^# /, path)
    }
    for (const path of ["/docs/nothing", "/docs/../package.json", "/docs/assets", "/docsx"]) {
      assert.strictEqual((yield* send(url + path)).status, 404, path)
    }
    const api = yield* send(`${url}/docs/api`)
    assert.strictEqual(api.status, 200)
    assert.include(api.text, "<code>GET /plans/{id}/events</code>")
    assert.notMatch(api.text, /<script(?![^>]* src=)[^>]*>|<style|<[^>]* (?:style|on[a-z]+)="/)
    for (const [path, type] of [
      ["/docs/api.css", "text/css; charset=utf-8"],
      ["/docs/api.js", "text/javascript; charset=utf-8"]
    ] as const) {
      const asset = yield* send(url + path)
      assert.deepStrictEqual([asset.status, asset.headers.get("content-type")], [200, type])
      assert.include(asset.headers.get("content-security-policy") ?? "", "default-src 'none'")
    }
  })
)

it("no page of the documentation has a script or a style in its markup, or loads anything from elsewhere", () => {
  const found = pages()
  assert.isAtLeast(found.length, 100)
  for (const { html, path } of found) {
    assert.notMatch(html, /<script(?![^>]* src=)[^>]*>|<style|<[^>]* (?:style|on[a-z]+)="/, path)
    const loaded = Array.from(html.matchAll(/<(?:script|img|source|link)[^>]* (?:src|srcset|href)="([^"]*)"/g))
    assert.isNotEmpty(loaded, path)
    for (const [, from = ""] of loaded) assert.match(from, /^\/docs\//, path)
  }
})

/** What the gateway shows beside the site: its console, and the page of its API. */
const ofGateway = new Set(["/", "/docs/api"])

it("every link of the documentation leads to a page that has its anchor", () => {
  const found = pages()
  const ids = new Map(found.map(({ html, path }) => [path, new Set(values(html, "id"))]))
  const files = new Set(
    readdirSync(site, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(site, join(entry.parentPath, entry.name)))
  )
  const fileOf = (path: string) => [path, `${path}.html`, `${path}index.html`].find((name) => files.has(name))
  const broken = found.flatMap(({ html, path }) =>
    values(html, "href")
      .filter((href) => href !== "" && !/^[a-z]+:/.test(href) && !ofGateway.has(href))
      .flatMap((href) => {
        const target = new URL(href.replaceAll("&amp;", "&"), `http://site/docs/${dirname(path)}/`)
        const file = href.startsWith("#") ? path : fileOf(decodeURI(target.pathname).slice("/docs/".length))
        if (file === undefined) return [`${path}: ${href}`]
        const anchor = decodeURIComponent(target.hash.slice(1))
        // The theme makes this one when the page runs.
        return anchor === "" || anchor === "VPContent" || (ids.get(file)?.has(anchor) ?? true)
          ? []
          : [`${path}: ${href}`]
      })
  )
  assert.deepStrictEqual(broken, [])
})
