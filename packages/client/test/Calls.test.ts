import { assert, describe, it } from "vitest"
import { type BowlineError, type BowlineOptions, makeBowline } from "../src/Bowline.ts"
import { fullJitter } from "../src/Requests.ts"
import { json, makeClock, makeGateway, planId, problem, settle } from "./Gateway.ts"

const setUp = (options: Partial<BowlineOptions> = {}) => {
  const time = makeClock()
  const gateway = makeGateway()
  const bowline = makeBowline({
    options: { baseUrl: "http://gateway", fetch: gateway.fetch, ...options },
    clock: time.clock,
    backoff: fullJitter(time.clock)
  })
  return { ...time, ...gateway, bowline }
}

const failureOf = async (promise: Promise<unknown>): Promise<BowlineError> =>
  promise.then(
    () => assert.fail("It resolves"),
    (error: BowlineError) => error
  )

describe("a request that is no stream", () => {
  it("is repeated twice after a failure that may pass, and then fails with it", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(new TypeError("fetch failed"), problem(503, "unavailable"), json({ plan_id: planId }))
    const found = bowline.plans.get(planId)
    await advance(1_500)
    assert.strictEqual((await found).plan_id, planId)

    answer(problem(502, "unavailable"), problem(503, "draining"), problem(503, "draining"))
    const failed = failureOf(bowline.plans.get(planId))
    await advance(1_500)
    assert.deepInclude(await failed, { code: "draining", status: 503, retryable: true })
    assert.strictEqual(asked.length, 6)

    const never = setUp({ maxRetries: 0 })
    never.answer(new TypeError("fetch failed"))
    assert.deepInclude(await failureOf(never.bowline.plans.get(planId)), { code: "network", retryable: true })
  })

  it("is repeated when its answer ended in its head, which Chromium takes for whole over plain http", async () => {
    const { advance, answer, asked, bowline } = setUp()
    // What it makes of `HTTP/1.1 2` has a status that no constructor gives.
    const half = Object.defineProperty(new Response(""), "status", { value: 2 })
    Object.defineProperty(half, "ok", { value: false })
    answer(new Response(""), half, json({ plan_id: planId }))
    const found = bowline.plans.get(planId)
    await advance(1_500)
    assert.strictEqual((await found).plan_id, planId)
    assert.strictEqual(asked.length, 3)
    answer(new Response(null, { status: 204 }))
    assert.isUndefined(await bowline.plans.check({ question: "Which knot?" }))
    assert.deepInclude(asked[3], { method: "POST", path: "/plan/check", body: { question: "Which knot?" } })
  })

  it("has 10 s for its answer, each time", async () => {
    const { advance, answer, bowline } = setUp({ maxRetries: 1 })
    const never = () => new Promise<Response>(() => {})
    answer(never, never)
    const failed = failureOf(bowline.plans.get(planId))
    await advance(10_000 + 500 + 10_000)
    assert.deepInclude(await failed, { code: "timeout", retryable: true })
  })

  it("waits for Retry-After, and not for one that is too far away", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(problem(429, "rate_limited", { headers: { "retry-after": "3" } }), json({}))
    const found = bowline.plans.get(planId)
    await advance(2_999)
    assert.strictEqual(asked.length, 1)
    await advance(1)
    await found

    answer(problem(429, "rate_limited", { headers: { "retry-after": "86400" } }))
    assert.deepInclude(await failureOf(bowline.plans.get(planId)), { code: "rate_limited", retryAfterMs: 86_400_000 })
  })

  it("is not repeated when the gateway refuses it", async () => {
    const { answer, asked, bowline } = setUp()
    for (const [status, code] of [
      [400, "invalid_request"],
      [403, "forbidden"],
      [404, "not_found"],
      [500, "internal"]
    ] as const) {
      answer(problem(status, code))
      assert.deepInclude(await failureOf(bowline.plans.get(planId)), { code, status })
    }
    assert.strictEqual(asked.length, 4)
  })

  it("is not repeated, nor sent, when it cannot be: for its URL, a header, or its body", async () => {
    const failures = [{ baseUrl: "localhost:3000" }, { baseUrl: "gateway" }, { headers: { "x-name": "a\nb" } }].map(
      (options) => setUp(options).bowline.plans.get(planId)
    )
    const { asked, bowline } = setUp()
    const round: { question: string; metadata?: object } = { question: "?" }
    round.metadata = round
    failures.push(
      bowline.plan({ question: "?" }, { idempotencyKey: "Schlüssel 🪢" }).result() as Promise<never>,
      bowline.plan(round as { question: string }).result() as Promise<never>
    )
    for (const failure of failures) {
      const error = await failureOf(failure)
      assert.deepInclude(error, { code: "invalid_request", retryable: false })
      // What is not known is not there.
      assert.notProperty(error, "status")
    }
    assert.strictEqual(asked.length, 0)
  })

  it("fails with a code of the gateway also where something else answers in its place", async () => {
    const { answer, bowline } = setUp({ maxRetries: 0 })
    for (const [status, code] of [
      [413, "payload_too_large"],
      [502, "unavailable"],
      [418, "unexpected_response"]
    ] as const) {
      answer(new Response("<html>", { status }))
      assert.deepInclude(await failureOf(bowline.plans.get(planId)), { code, status })
    }
    answer(new Response("<html>"))
    assert.deepInclude(await failureOf(bowline.plans.get(planId)), { code: "unexpected_response", retryable: false })
  })

  it("asks what it says", async () => {
    const { answer, asked, bowline } = setUp()
    const last = async (call: Promise<unknown>) => {
      await call
      const { body, method, path } = asked.at(-1) ?? {}
      return [method, path, body]
    }
    answer(...Array.from({ length: 12 }, () => () => json({})))
    const task = "00000000-0000-4000-8000-000000000003"
    const approve = `/plans/${planId}/approvals/${task}`
    assert.deepStrictEqual(await last(bowline.plans.cancel(planId)), ["POST", `/plans/${planId}/cancel`, undefined])
    assert.deepStrictEqual(await last(bowline.plans.approve(planId, task, "approve")), [
      "POST",
      approve,
      { decision: "approve" }
    ])
    assert.deepStrictEqual(await last(bowline.plans.approve(planId, task, "reject", { note: "No" })), [
      "POST",
      approve,
      { decision: "reject", note: "No" }
    ])
    assert.deepStrictEqual(await last(bowline.sessions.get("my knots/1")), [
      "GET",
      "/sessions/my%20knots%2F1",
      undefined
    ])
    assert.deepStrictEqual(await last(bowline.sessions.revert("s", "msg_1")), [
      "POST",
      "/sessions/s/revert",
      { to_message_id: "msg_1" }
    ])
    assert.deepStrictEqual(await last(bowline.sessions.compact("s")), ["POST", "/sessions/s/compact", undefined])
    assert.deepStrictEqual(await last(bowline.credentials.clear("openai-1")), [
      "POST",
      "/credentials/openai-1/clear",
      undefined
    ])
    assert.deepStrictEqual(await last(bowline.peers.list().page()), ["GET", "/peers", undefined])
    assert.deepStrictEqual(await last(bowline.presets.list().page()), ["GET", "/presets", undefined])
    assert.deepStrictEqual(await last(bowline.approvals.list({ caller: "ann" }).page()), [
      "GET",
      "/approvals?caller=ann",
      undefined
    ])
    assert.deepStrictEqual(await last(bowline.plans.list({ state: ["queued", "running"], limit: 5 }).page("abc")), [
      "GET",
      "/plans?state=queued&state=running&limit=5&cursor=abc",
      undefined
    ])
    answer(new Response(null, { status: 204 }))
    assert.deepStrictEqual(await last(bowline.sessions.delete("s")), ["DELETE", "/sessions/s", undefined])
  })

  it("gives a compaction the time that it takes", async () => {
    const { advance, answer, bowline } = setUp()
    let respond: ((response: Response) => void) | undefined
    answer(() => new Promise((resolve) => void (respond = resolve)))
    const compacted = bowline.sessions.compact("s")
    await advance(120_000)
    respond?.(json({ compaction: null }))
    assert.deepStrictEqual(await compacted, { compaction: null })
  })
})

describe("a list", () => {
  it("is all entries over all pages, one request for each page, no earlier than it is read", async () => {
    const { answer, asked, bowline } = setUp()
    answer(json({ sessions: [1, 2], next_cursor: "two" }), json({ sessions: [3], next_cursor: null }))
    const list = bowline.sessions.list({ limit: 2 })
    await settle()
    assert.strictEqual(asked.length, 0)
    const found: Array<unknown> = []
    for await (const session of list) found.push(session)
    assert.deepStrictEqual(found, [1, 2, 3])
    assert.deepStrictEqual(
      asked.map(({ path }) => path),
      ["/sessions?limit=2", "/sessions?limit=2&cursor=two"]
    )
  })

  it("gives one page as it came", async () => {
    const { answer, bowline } = setUp()
    const calls = { calls: 0, failures: 0, duration_ms: null, last_error: null }
    const server = { url: "u", revision: null, error: null, error_at: null, configured: [], calls }
    answer(json({ peers: [], mcp_servers: [server] }))
    assert.deepStrictEqual(await bowline.peers.list().page(), { peers: [], mcp_servers: [server] })
  })
})
