import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { ask } from "./RawExchange.ts"
import { post, send, start } from "./RunningGateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann" }
const withKey = "Authorization: Bearer key-of-ann"
const publicHosts = { BOWLINE_PUBLIC_HOSTS: "Bowline.Example, 10.1.2.3,[2001:DB8::1]" }

const portOf = (url: string): string => new URL(url).port

/** Asks for the plans in the name of these hosts. */
const asFor = (url: string, hosts: ReadonlyArray<string>, ...headers: ReadonlyArray<string>) =>
  ask(url, "GET /plans HTTP/1.1", ...hosts.map((host) => `Host: ${host}`), ...headers)

const loopback = [
  "localhost",
  "LocalHost:1",
  "localhost.",
  "localhost.:80",
  "127.0.0.1",
  "127.1.2.3:99",
  "[::1]",
  "[::1]:3774"
]
const foreign = [
  "evil.example",
  "evil.example:3774",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "evil.example.",
  "localhost@evil.example",
  "evil.example@localhost",
  "localhost:evil",
  "localhost:3774:1",
  "localhost,evil.example",
  "localhost evil.example",
  "localhost/evil.example",
  "::1",
  "[::1",
  "[fe80::1]",
  "[::ffff:10.0.0.1]",
  "0.0.0.0",
  "128.0.0.1",
  "1127.0.0.1",
  "10.1.2.3",
  ""
]

describe("the Host of a request", () => {
  it.live("is a loopback name where nobody needs a key, whatever its port and its spelling", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      for (const host of loopback) assert.strictEqual((yield* asFor(url, [host])).status, 200, host)
      for (const host of foreign) {
        const { code, status } = yield* asFor(url, [host])
        assert.deepStrictEqual([status, code], [403, "forbidden"], host)
      }
    })
  )

  it.live("is a public host or a loopback name where there are public hosts", () =>
    Effect.gen(function* () {
      for (const environment of [publicHosts, { ...keys, ...publicHosts }]) {
        const { url } = yield* start([], environment)
        const ours = ["bowline.example", "BOWLINE.example.:8443", "10.1.2.3:80", "[2001:db8::1]:3774"]
        for (const host of [...loopback, ...ours]) {
          assert.strictEqual((yield* asFor(url, [host], withKey)).status, 200, host)
        }
        for (const host of [...foreign.filter((name) => name !== "10.1.2.3"), "api.bowline.example"]) {
          assert.strictEqual((yield* asFor(url, [host], withKey)).status, 403, host)
        }
      }
    })
  )

  it.live("is any name where callers need a key and there are no public hosts", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      assert.strictEqual((yield* asFor(url, ["bowline.internal:3774"], withKey)).status, 200)
      assert.strictEqual((yield* asFor(url, ["a b"], withKey)).status, 403)
    })
  )

  it.live("stands there once, and the URL of a target has to be right as well", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      for (const hosts of [
        [],
        ["localhost", "localhost"],
        ["localhost", "evil.example"],
        ["evil.example", "localhost"]
      ]) {
        const { code, status } = yield* asFor(url, hosts)
        assert.deepStrictEqual([status, code], [400, "invalid_request"], hosts.join())
      }
      const atTarget = (target: string) => ask(url, `GET ${target} HTTP/1.1`, "Host: localhost")
      for (const target of ["http://localhost/plans", "HTTP://127.0.0.1:3774/plans"]) {
        assert.include([200, 404], (yield* atTarget(target)).status, target)
      }
      for (const target of [
        "http://evil.example/plans",
        "https://evil.example/plans",
        "http://localhost@evil.example/plans",
        "http://evil.example/health",
        "http://evil.example?/health",
        "http:///plans"
      ]) {
        assert.strictEqual((yield* atTarget(target)).status, 403, target)
      }
      assert.strictEqual((yield* ask(url, "GET http://localhost/plans HTTP/1.1", "Host: evil.example")).status, 403)
    })
  )

  it.live("is any for /health and /ready, and for nothing that only looks like them", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const statusOf = (target: string) => ask(url, `GET ${target} HTTP/1.1`, "Host: 10.42.0.7:3774")
      for (const target of ["/health", "/ready", "/health?probe=1"]) {
        assert.strictEqual((yield* statusOf(target)).status, 200, target)
      }
      for (const target of [
        "/healthy",
        "/health/../plans",
        "/health/plans",
        "/plans?/health",
        "/.well-known/did.json"
      ]) {
        assert.strictEqual((yield* statusOf(target)).status, 403, target)
      }
    })
  )

  it.live("is looked at before the body is read, and before the key", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("x")]], { ...keys, ...publicHosts })
      const { head, status } = yield* ask(
        url,
        "POST /plan HTTP/1.1",
        "Host: evil.example",
        "Content-Type: application/json",
        "Content-Length: 100000"
      )
      assert.strictEqual(status, 403)
      assert.match(head, /^x-request-id: \S+/im)
      assert.match(head, /^content-type: application\/problem\+json/im)
      assert.lengthOf(yield* provider.requests.all, 0)
    })
  )
})

describe("the Origin of a request", () => {
  it.live("is the gateway's own, or there is none", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const host = `localhost:${portOf(url)}`
      const from = (...headers: ReadonlyArray<string>) => asFor(url, [host], ...headers)
      for (const headers of [
        [],
        ["Sec-Fetch-Site: none"],
        ["Sec-Fetch-Site: cross-site"],
        [`Origin: http://${host}`],
        [`Origin: http://${host.toUpperCase()}`],
        [`Origin: https://${host}`, "Sec-Fetch-Site: same-origin"]
      ]) {
        assert.strictEqual((yield* from(...headers)).status, 200, headers.join())
      }
      for (const headers of [
        ["Origin: null"],
        ["Origin: "],
        ["Origin: http://evil.example"],
        [`Origin: http://evil.example:${portOf(url)}`],
        ["Origin: http://localhost"],
        ["Origin: http://localhost:1"],
        [`Origin: http://127.0.0.1:${portOf(url)}`],
        [`Origin: http://${host}/`],
        [`Origin: http://${host}@evil.example`],
        [`Origin: http://${host}.evil.example`],
        [`Origin: http://${host}`, "Origin: http://evil.example"],
        [`Origin: file://${host}`],
        [`Origin: http://${host}`, "Sec-Fetch-Site: cross-site"]
      ]) {
        const { code, status } = yield* from(...headers)
        assert.deepStrictEqual([status, code], [403, "forbidden"], headers.join())
      }
    })
  )

  it.live("may be a page at a public host, which a proxy serves under another port", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...keys, ...publicHosts })
      const from = (origin: string) => asFor(url, ["localhost"], withKey, `Origin: ${origin}`)
      assert.strictEqual((yield* from("https://bowline.example")).status, 200)
      assert.strictEqual((yield* from("https://bowline.example:8443")).status, 200)
      assert.strictEqual((yield* from("https://api.bowline.example")).status, 403)
    })
  )

  it.live("may be any where a card, a DID document or a check is read, and nowhere else", () =>
    Effect.gen(function* () {
      const { url } = yield* start([])
      const statusOf = (target: string) =>
        Effect.map(
          ask(url, `GET ${target} HTTP/1.1`, "Host: localhost", "Origin: https://evil.example"),
          ({ status }) => status
        )
      for (const target of ["/health", "/ready", "/.well-known/agent-card.json"])
        assert.strictEqual(yield* statusOf(target), 200, target)
      const documents = ["/.well-known/did.json", "/a2a/agents/none/.well-known/agent-card.json"]
      for (const target of documents) assert.strictEqual(yield* statusOf(target), 404, target)
      for (const target of [
        "/openapi.json",
        "/docs",
        "/plans",
        "/a2a/agents/a/b/.well-known/agent-card.json",
        "/nowhere"
      ]) {
        assert.strictEqual(yield* statusOf(target), 403, target)
      }
    })
  )

  it.live("starts no plan if it is foreign: neither by a form, nor behind a preflight", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("x")])
      const body = JSON.stringify({ question: "?" })
      for (const type of ["text/plain", "application/json"]) {
        const answer = yield* post(`${url}/plan`, body, { origin: "https://evil.example", "content-type": type })
        assert.strictEqual(answer.status, 403)
      }
      const preflight = yield* send(`${url}/plan`, {
        method: "OPTIONS",
        headers: { origin: "https://evil.example", "access-control-request-method": "POST" }
      })
      assert.strictEqual(preflight.status, 403)
      assert.isNull(preflight.headers.get("access-control-allow-origin"))
      assert.lengthOf(yield* provider.requests.all, 0)
    })
  )
})

const app = "https://app.example"

const withCors = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>> = {}) {
  const folder = yield* folderOf({ "gateway.yaml": `cors: { origins: ["${app}", http://localhost:5173] }` })
  return yield* start(() => [say("x")], { BOWLINE_CONFIG: join(folder, "gateway.yaml"), ...environment })
})

describe("a page of another origin", () => {
  it.live("may call the gateway and read its answers, if its origin is listed", () =>
    Effect.gen(function* () {
      const { url } = yield* withCors(keys)
      const preflight = yield* send(`${url}/plan`, {
        method: "OPTIONS",
        headers: {
          origin: app,
          "sec-fetch-site": "cross-site",
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization,content-type,idempotency-key"
        }
      })
      assert.strictEqual(preflight.status, 204)
      const { headers } = preflight
      assert.strictEqual(headers.get("access-control-allow-origin"), app)
      assert.include(headers.get("access-control-allow-methods"), "POST")
      assert.strictEqual(headers.get("access-control-allow-headers"), "authorization,content-type,idempotency-key")
      assert.strictEqual(headers.get("access-control-max-age"), "600")
      assert.isNull(headers.get("access-control-allow-credentials"))
      assert.match(headers.get("vary") ?? "", /origin/i)

      const plan = { question: "?" }
      const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "plan", arguments: plan } }
      for (const [path, body, key, status] of [
        ["/plan", plan, "key-of-ann", 200],
        ["/plan", plan, "wrong", 401],
        ["/mcp", call, "key-of-ann", 200],
        ["/mcp", call, "wrong", 401]
      ] as const) {
        const answer = yield* post(`${url}${path}`, body, {
          origin: app,
          "sec-fetch-site": "cross-site",
          authorization: `Bearer ${key}`
        })
        assert.deepStrictEqual([answer.status, answer.headers.get("access-control-allow-origin")], [status, app])
        const exposed = answer.headers.get("access-control-expose-headers") ?? ""
        for (const name of ["X-Request-Id", "Retry-After", "RateLimit-Remaining", "Mcp-Session-Id"])
          assert.include(exposed, name)
      }
    })
  )

  it.live("may not, if it is not, or if none is", () =>
    Effect.gen(function* () {
      const listed = yield* withCors()
      for (const origin of ["https://evil.example", "https://app.example:8443", "http://app.example", "null"]) {
        const { headers, status } = yield* send(`${listed.url}/plans`, { headers: { origin } })
        assert.deepStrictEqual([status, headers.get("access-control-allow-origin")], [403, null], origin)
        const atMcp = yield* post(`${listed.url}/mcp`, { jsonrpc: "2.0", id: 1, method: "tools/list" }, { origin })
        assert.strictEqual(atMcp.status, 403)
        assert.deepNestedInclude(atMcp.body, { "error.code": -32_600, "error.data.code": "forbidden" })
      }
      const plain = yield* send(`${listed.url}/plans`)
      assert.deepStrictEqual([plain.status, plain.headers.get("access-control-allow-origin")], [200, null])
      const { url } = yield* start([])
      assert.isNull((yield* send(`${url}/plans`)).headers.get("access-control-expose-headers"))
    })
  )
})

it.live("refused requests are counted by their reason", () =>
  Effect.gen(function* () {
    const { url } = yield* start([])
    yield* asFor(url, ["evil.example"])
    yield* asFor(url, ["localhost", "localhost"])
    yield* asFor(url, ["localhost"], "Origin: null")
    yield* asFor(url, ["localhost"])
    const counts = (yield* Metric.snapshot).flatMap((metric) =>
      metric.id === "bowline.refused" && metric.type === "Counter"
        ? [[metric.attributes?.["reason"], metric.state.count]]
        : []
    )
    assert.deepStrictEqual(counts, [
      ["host", 2],
      ["origin", 1]
    ])
  }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
)
