import { stall, until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { post, send, start, stores } from "../../http/RunningGateway.ts"

const both = { accept: "application/json, text/event-stream" }
const at = (revision: string) => ({ ...both, "mcp-protocol-version": revision })
const key = (name: string) => `io.modelcontextprotocol/${name}`

const modernMeta = { [key("protocolVersion")]: "2026-07-28", [key("clientCapabilities")]: {} }

/** A request of 2026-07-28, whose headers or members may be others. */
const modern = (
  url: string,
  method: string,
  { headers = {}, ...params }: Readonly<Record<string, unknown>> & { readonly headers?: Record<string, string> } = {}
) =>
  post(
    `${url}/mcp`,
    { jsonrpc: "2.0", id: 1, method, params: { _meta: modernMeta, ...params } },
    { ...at("2026-07-28"), "mcp-method": method, ...headers }
  )

const request = (method: string, params: object = {}, id: unknown = 1) => ({ jsonrpc: "2.0", id, method, params })

/** The messages of a stream. */
const messagesOf = (text: string) =>
  Array.from(
    text.matchAll(/^data: (.+)$/gm),
    ([, data = "{}"]) =>
      JSON.parse(data) as {
        readonly id?: number
        readonly method?: string
        readonly result?: { readonly structuredContent?: { readonly plan_id: string; readonly state: string } }
      }
  )

const errorOf = ({ body, status }: { readonly body: Readonly<Record<string, unknown>>; readonly status: number }) => [
  status,
  (body["error"] as { readonly code?: number } | undefined)?.code
]

const ask = (question = "?", more: object = {}) => ({ name: "plan", arguments: { question, ...more } })

describe("a revision", () => {
  it.live.each(["2025-11-25", "2025-06-18", "2025-03-26"])("begins with initialize: %s", (protocolVersion) =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const begun = yield* post(`${url}/mcp`, request("initialize", { protocolVersion }), both)
      assert.deepNestedInclude(begun.body, {
        "result.protocolVersion": protocolVersion,
        "result.serverInfo.name": "bowline",
        "result.capabilities": { tools: { listChanged: false }, prompts: { listChanged: false }, resources: {} }
      })
      const session = begun.headers.get("mcp-session-id") ?? assert.fail("no session")
      const headers = { ...at(protocolVersion), "mcp-session-id": session }
      const initialized = { jsonrpc: "2.0", method: "notifications/initialized" }
      assert.strictEqual((yield* post(`${url}/mcp`, initialized, headers)).status, 202)
      assert.deepStrictEqual((yield* post(`${url}/mcp`, request("ping"), headers)).body["result"], {})
      const { result } = (yield* post(`${url}/mcp`, request("tools/list"), headers)).body as {
        readonly result: { readonly tools: ReadonlyArray<object>; readonly ttlMs?: number }
      }
      const isOldest = protocolVersion === "2025-03-26"
      assert.deepStrictEqual(["outputSchema" in (result.tools[0] ?? {}), "ttlMs" in result], [!isOldest, false])
      const called = yield* post(`${url}/mcp`, request("tools/call", ask()), headers)
      const [response] = messagesOf(called.text)
      assert.strictEqual(response?.result?.structuredContent === undefined, isOldest)
      assert.deepStrictEqual(errorOf(yield* post(`${url}/mcp`, request("server/discover"), headers)), [200, -32_601])
      assert.deepStrictEqual(
        errorOf(yield* post(`${url}/mcp`, request("resources/subscribe"), headers)),
        [200, -32_601]
      )
    })
  )

  it.live(
    "that nobody knows is answered with the newest one that begins with initialize, or with those there are",
    () =>
      Effect.gen(function* () {
        const { url } = yield* start(() => [say("ok")])
        const begun = yield* post(`${url}/mcp`, request("initialize", { protocolVersion: "2024-11-05" }), both)
        assert.deepNestedInclude(begun.body, { "result.protocolVersion": "2025-11-25" })
        const supported = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]
        const old = yield* post(`${url}/mcp`, request("tools/list"), at("2024-11-05"))
        const _meta = { ...modernMeta, [key("protocolVersion")]: "2027-01-01" }
        const future = yield* modern(url, "tools/list", { _meta, headers: { "mcp-protocol-version": "2027-01-01" } })
        for (const answer of [old, future]) {
          assert.deepStrictEqual(errorOf(answer), [400, -32_022])
          assert.deepNestedInclude(answer.body, { "error.data.supported": supported })
        }
      })
  )

  it.live("of 2026-07-28 is in every request, and its headers say what the body says", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const discovered = yield* modern(url, "server/discover")
      assert.deepNestedInclude(discovered.body, { "result.ttlMs": 60_000, "result.cacheScope": "private" })
      const listed = yield* modern(url, "tools/list")
      assert.deepNestedInclude(listed.body, {
        "result.resultType": "complete",
        "result.ttlMs": 60_000,
        "result.cacheScope": "private"
      })
      const etag = listed.headers.get("etag") ?? assert.fail("no ETag")
      const known = yield* modern(url, "tools/list", { headers: { "if-none-match": etag } })
      assert.deepStrictEqual([known.status, known.text], [304, ""])
      for (const [method, more, ...expected] of [
        ["tools/list", { _meta: {} }, 400, -32_602],
        ["tools/list", { _meta: { [key("protocolVersion")]: "2026-07-28" } }, 400, -32_602],
        ["tools/list", { headers: { "mcp-protocol-version": "2025-11-25" } }, 400, -32_020],
        ["tools/list", { headers: { "mcp-method": "tools/call" } }, 400, -32_020],
        ["tools/call", { name: "plan", headers: { "mcp-name": "plan_result" } }, 400, -32_020],
        ["tools/call", { name: "none", headers: { "mcp-name": "none" } }, 200, -32_602],
        ["initialize", {}, 404, -32_601],
        ["ping", {}, 404, -32_601],
        ["prompts/get", { name: "none", headers: { "mcp-name": "other" } }, 400, -32_020],
        ["prompts/get", { name: "none", headers: { "mcp-name": "none" } }, 200, -32_602],
        ["resources/read", { uri: "bowline://x", headers: { "mcp-name": "bowline://x" } }, 200, -32_602],
        ["resources/read", {}, 200, -32_602],
        ["resources/list", { cursor: "x" }, 200, -32_602],
        ["resources/subscribe", {}, 404, -32_601]
      ] as const) {
        assert.deepStrictEqual(errorOf(yield* modern(url, method, more)), expected, `${method} ${JSON.stringify(more)}`)
      }
      const encoded = { "mcp-name": `=?base64?${Buffer.from("plan").toString("base64")}?=` }
      assert.strictEqual((yield* modern(url, "tools/call", { ...ask(), headers: encoded })).status, 200)
    })
  )

  it.live("counts each message of a batch for the rate limit, and makes no call of one that is beyond it", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start(() => [say("ok")], { BOWLINE_RATE_LIMIT: "5/1h" })
      const quota = ({ headers, status }: { readonly headers: Headers; readonly status: number }) => [
        status,
        headers.get("ratelimit-remaining")
      ]
      const pings = [1, 2, 3].map((id) => request("ping", {}, id))
      assert.deepStrictEqual(quota(yield* post(`${url}/mcp`, pings)), [200, "2"])
      const calls = [1, 2, 3].map((id) => request("tools/call", ask(), id))
      assert.deepStrictEqual(quota(yield* post(`${url}/mcp`, calls)), [429, "1"])
      assert.lengthOf(yield* provider.requests.all, 0)
    })
  )

  it.live(
    "refuses a batch that the rate limit never lets in as an error that names the limit, and asks for no other try",
    () =>
      Effect.gen(function* () {
        const { url } = yield* start(() => [say("ok")], { BOWLINE_RATE_LIMIT: "5/1h" })
        const batchOf = (length: number) => Array.from({ length }, (_, id) => request("ping", {}, id))
        const refused = yield* post(`${url}/mcp`, batchOf(6))
        assert.deepStrictEqual([...errorOf(refused), refused.headers.get("retry-after")], [400, -32_600, null])
        assert.include(refused.text, "at most 5 messages")
        assert.include(refused.text, "BOWLINE_RATE_LIMIT")
        const other = yield* start(() => [say("ok")], { BOWLINE_RATE_LIMIT: "5/1h" })
        assert.strictEqual((yield* post(`${other.url}/mcp`, batchOf(5))).status, 200)
      })
  )

  it.live("of 2025-03-26 has batches, and no other one has", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const notified = { jsonrpc: "2.0", method: "notifications/initialized" }
      const batch = [request("ping"), notified, request("none", {}, 2), request("tools/call", ask(), 3)]
      const { status, text } = yield* post(`${url}/mcp`, batch, both)
      assert.deepStrictEqual([status, messagesOf(text).map(({ id }) => id)], [200, [1, 2, 3]])
      const whole = yield* post(`${url}/mcp`, batch)
      assert.deepStrictEqual(
        (JSON.parse(whole.text) as ReadonlyArray<{ readonly id: number }>).map(({ id }) => id),
        [1, 2, 3]
      )
      assert.strictEqual((yield* post(`${url}/mcp`, [notified], both)).status, 202)
      for (const headers of [at("2025-06-18"), at("2025-11-25"), at("2026-07-28")]) {
        assert.deepStrictEqual(errorOf(yield* post(`${url}/mcp`, batch, headers)), [400, -32_600])
      }
      for (const wrong of [[], Array.from({ length: 101 }, () => notified), [request("initialize")]]) {
        assert.deepStrictEqual(errorOf(yield* post(`${url}/mcp`, wrong, both)), [400, -32_600])
      }
    })
  )
})

describe("what is refused", () => {
  it.live("is an error of JSON-RPC with the status of its reason", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], {
        BOWLINE_API_KEYS: "ann=key-of-ann",
        BOWLINE_MAX_BODY: "2000B"
      })
      const headers = { ...both, authorization: "Bearer key-of-ann" }
      for (const [body, more, ...expected] of [
        ["{", {}, 400, -32_700],
        ["[".repeat(200), {}, 400, -32_700],
        ["7", {}, 400, -32_600],
        [{ ...request("ping"), jsonrpc: "1.0" }, {}, 400, -32_600],
        [request("ping", {}, null), {}, 400, -32_600],
        [{ ...request("ping"), params: [] }, {}, 400, -32_600],
        [request("ping"), { "content-type": "text/plain" }, 415, -32_600],
        [request("ping"), { origin: "https://evil.example" }, 403, -32_600],
        [request("ping"), { authorization: "Bearer wrong" }, 401, -32_603],
        [request("x".repeat(2_000)), {}, 413, -32_600]
      ] as const) {
        const answer = yield* post(`${url}/mcp`, body, { ...headers, ...more })
        assert.deepStrictEqual(errorOf(answer), expected, JSON.stringify(more))
        assert.strictEqual(answer.body["jsonrpc"], "2.0")
      }
      const unknown = yield* post(`${url}/mcp`, request("ping"), both)
      assert.strictEqual(unknown.headers.get("www-authenticate"), 'Bearer realm="bowline"')
      for (const method of ["GET", "DELETE", "PUT"]) {
        const { headers: answered, ...other } = yield* send(`${url}/mcp`, { method, headers })
        assert.deepStrictEqual([...errorOf(other), answered.get("allow")], [405, -32_600, "POST"])
      }
    })
  )
})

describe("a call", () => {
  const session = { ...at("2025-11-25"), "mcp-session-id": "s-1" }
  const cancel = (requestId: unknown) => ({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } })

  it.live(
    "answers at once that it runs, before its plan has said anything, and ends its plan when its client leaves",
    () =>
      Effect.gen(function* () {
        const { provider, url } = yield* start([[stall]])
        const leaving = new AbortController()
        const { body, headers, status } = yield* Effect.promise(() =>
          fetch(`${url}/mcp`, {
            method: "POST",
            headers: { ...session, "content-type": "application/json" },
            body: JSON.stringify(request("tools/call", ask())),
            signal: leaving.signal
          })
        )
        assert.deepStrictEqual([status, headers.get("content-type")], [200, "text/event-stream"])
        // fetch would close the body of a response that nobody reads at the next garbage collection.
        body?.getReader()
        const [asked] = yield* provider.requests.awaitCount(1)
        leaving.abort()
        assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
      })
  )

  it.live("that another request cancels ends its plan, and has no response", () =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([[say("a"), stall]])
      const calling = yield* Effect.forkChild(post(`${url}/mcp`, request("tools/call", ask(), "c"), session), {
        startImmediately: true
      })
      const [asked] = yield* provider.requests.awaitCount(1)
      assert.strictEqual((yield* post(`${url}/mcp`, cancel("c"), session)).status, 202)
      assert.deepStrictEqual(messagesOf((yield* Fiber.join(calling)).text), [])
      assert.strictEqual(yield* asked?.ended ?? Effect.succeed("not asked"), "closed")
    })
  )

  it.live("is cancelled by its own session only, and not when its plan was handed out", () =>
    Effect.gen(function* () {
      const proceed = yield* Deferred.make<void>()
      const { provider, url } = yield* start(() => [until(Deferred.await(proceed)), say("done")])
      const out = yield* post(`${url}/mcp`, request("tools/call", ask("?", { wait_ms: 0 }), 7), session)
      const { plan_id } = messagesOf(out.text)[0]?.result?.structuredContent ?? assert.fail(out.text)
      const calling = yield* Effect.forkChild(post(`${url}/mcp`, request("tools/call", ask(), 8), session), {
        startImmediately: true
      })
      yield* provider.requests.awaitCount(2)
      yield* post(`${url}/mcp`, cancel(7), session)
      yield* post(`${url}/mcp`, cancel(8), { ...session, "mcp-session-id": "s-2" })
      yield* post(`${url}/mcp`, cancel(8), at("2025-11-25"))
      yield* Deferred.succeed(proceed, undefined)
      const [called] = messagesOf((yield* Fiber.join(calling)).text)
      assert.strictEqual(called?.result?.structuredContent?.state, "completed")
      const result = { name: "plan_result", arguments: { plan_id } }
      const later = yield* post(`${url}/mcp`, request("tools/call", result), session)
      assert.strictEqual(messagesOf(later.text)[0]?.result?.structuredContent?.state, "completed")
    })
  )

  it.live("is cancelled at any replica, unless its plan was handed out", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const [a, b] = [yield* start(() => [say("a"), stall], settings), yield* start(() => [say("b")], settings)]
      const out = yield* post(`${a.url}/mcp`, request("tools/call", ask("?", { wait_ms: 0 }), 7), session)
      const { plan_id } = messagesOf(out.text)[0]?.result?.structuredContent ?? assert.fail(out.text)
      const calling = yield* Effect.forkChild(post(`${a.url}/mcp`, request("tools/call", ask(), 8), session), {
        startImmediately: true
      })
      yield* a.provider.requests.awaitCount(2)
      yield* post(`${b.url}/mcp`, cancel(7), session)
      yield* post(`${b.url}/mcp`, cancel(8), session)
      const [called] = messagesOf((yield* Fiber.join(calling)).text)
      assert.strictEqual(called?.result?.structuredContent?.state, "aborted")
      assert.strictEqual((yield* send(`${a.url}/plans/${plan_id}`)).body["state"], "running")
      yield* post(`${b.url}/plans/${plan_id}/cancel`, "")
    })
  )

  it.live("of a client that takes no events is one object", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const { body, headers } = yield* post(`${url}/mcp`, request("tools/call", ask()), {
        "mcp-protocol-version": "2025-11-25"
      })
      assert.strictEqual(headers.get("content-type"), "application/json")
      assert.deepNestedInclude(body, { "result.structuredContent.text": "ok", id: 1 })
    })
  )
})
