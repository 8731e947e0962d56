import { assert, describe, it } from "vitest"
import type { BowlineError } from "../src/Bowline.ts"
import { fullJitter } from "../src/Requests.ts"
import { answered, frame, json, makeClock, openStream, planId, problem, settle, stream } from "./Gateway.ts"
import { setUp, watch } from "./Reading.ts"

const frames = answered("Hel", "lo")
const all = frames.map((_, i) => i + 1)
const question = { question: "Which knot?" }

const usage = { input_tokens: 3, output_tokens: 2, cached_input_tokens: 0, reasoning_tokens: 0 }
const answer = { stop_reason: "stop", text: "Hello", usage, steps: 1, tool_calls: 0, duration_ms: 12 }
const failure = { code: "loop_detected", message: "It called the same thing", retryable: false, stage: null }

describe("a stream that is cut", () => {
  it.each([
    ["final", { state: "completed", final: answer, error: null }],
    ["error", { state: "failed", final: null, error: failure }]
  ])("gives what the plan has come to when its frames are no longer kept: %s", async (event, outcome) => {
    const { advance, answer, asked, bowline } = setUp()
    const plan = { plan_id: planId, session_id: "session_1", finished_at: "2026-01-01T00:00:01.000Z", ...outcome }
    answer(stream(...frames.slice(0, 4)), problem(410, "events_expired"), json(plan))
    const reading = bowline.attach(planId)
    const result = reading.result().catch((error: unknown) => error)
    const seen = watch(reading)
    await advance(500)
    assert.deepStrictEqual(seen, { ids: [1, 2, 3, 4, 5, 6], isOver: true })
    assert.strictEqual(asked[2]?.path, `/plans/${planId}`)
    assert.strictEqual(asked.length, 3)
    assert.include(await result, event === "final" ? { text: "Hello" } : { code: "loop_detected" })
    assert.strictEqual(reading.view().state, outcome.state)
    assert.isTrue(reading.view().isDone)
  })

  it("that begins with a question asked before gives what its plan has come to, too", async () => {
    const { advance, answer: respond, asked, bowline } = setUp()
    const plan = { plan_id: planId, session_id: "session_1", finished_at: "2026-01-01T00:00:01.000Z" }
    const expired = problem(410, "events_expired", { plan_id: planId })
    respond(expired, json({ ...plan, state: "completed", final: answer, error: null }))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: [1, 2], isOver: true })
    assert.strictEqual(asked[1]?.path, `/plans/${planId}`)
  })

  it("is resumed behind its last frame when it ends without done", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, 4)), stream(...frames.slice(4)))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.deepStrictEqual(cuts(), ["ended"])
    assert.strictEqual(asked[1]?.method, "GET")
    assert.strictEqual(asked[1]?.path, `/plans/${planId}/events`)
    assert.strictEqual(asked[1]?.headers.get("last-event-id"), "4")
  })

  it("is resumed after 30 s without a byte, and every byte starts them anew", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    const silent = openStream(...frames.slice(0, 3))
    answer(silent.response, stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(29_000)
    silent.send(": ping\n\n")
    await advance(29_999)
    assert.strictEqual(asked.length, 1)
    await advance(1)
    assert.deepStrictEqual(cuts(), ["silence"])
    assert.isTrue(silent.isCancelled())
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("is resumed when the gateway says so, without waiting for the end of the connection", async () => {
    const { advance, answer, bowline, cuts } = setUp()
    const left = openStream(...frames.slice(0, 3), ": reconnect\n\n")
    answer(left.response, stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.deepStrictEqual(cuts(), ["reconnect"])
  })

  it("is resumed after a network error, before and behind the headers", async () => {
    const { advance, answer, bowline, cuts } = setUp()
    const broken = openStream(...frames.slice(0, 3))
    answer(broken.response, new TypeError("fetch failed"), stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await settle()
    broken.fail(new TypeError("terminated"))
    await advance(1_500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.deepStrictEqual(cuts(), ["network", "network"])
  })

  it("is resumed when an answer does not begin within 10 s", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, 3)), () => new Promise<Response>(() => {}), stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(500 + 10_000)
    assert.deepStrictEqual(cuts(), ["ended", "timeout"])
    assert.isTrue(asked[1]?.signal.aborted)
    await advance(1_000)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it.each([429, 502, 503, 504])("is resumed after a %i", async (status) => {
    const { advance, answer, bowline } = setUp()
    answer(stream(...frames.slice(0, 3)), new Response("<html>", { status }), stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(1_500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("waits twice as long each time, up to 10 s, and from the start again after a good frame", async () => {
    const { advance, answer, bowline, delays } = setUp()
    const refused = Array.from({ length: 6 }, () => problem(503, "unavailable"))
    answer(stream(...frames.slice(0, 3)), ...refused, stream(...frames.slice(3, 4)), stream(...frames.slice(4)))
    const seen = watch(bowline.plan(question))
    await advance(60_000)
    assert.deepStrictEqual(delays(), [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 500])
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("draws each wait at random up to that", async () => {
    const { clock } = makeClock(0.25)
    const next = fullJitter(clock)()
    assert.deepStrictEqual([next(), next(), next()], [125, 250, 500])
  })

  it("comes back when Retry-After says, in seconds or as a date", async () => {
    const { advance, answer, asked, bowline, clock, delays } = setUp()
    answer(
      stream(...frames.slice(0, 3)),
      problem(429, "rate_limited", { headers: { "retry-after": "7" } }),
      () => problem(503, "draining", { headers: { "retry-after": new Date(clock.now() + 3_000).toUTCString() } }),
      stream(...frames.slice(3))
    )
    const seen = watch(bowline.plan(question))
    await advance(500 + 6_999)
    assert.strictEqual(asked.length, 2)
    await advance(60_000)
    assert.strictEqual(delays()[1], 7_000)
    assert.closeTo(delays()[2] ?? 0, 3_000, 1_000)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("comes back at once when the network is there again", async () => {
    const target = new EventTarget()
    const listen = target.addEventListener.bind(target)
    Object.assign(globalThis, { addEventListener: listen })
    try {
      const { advance, answer, asked, bowline } = setUp()
      const down = Array.from({ length: 4 }, () => new TypeError("offline"))
      answer(stream(...frames.slice(0, 3)), ...down, stream(...frames.slice(3)))
      const seen = watch(bowline.plan(question))
      await advance(500 + 1_000 + 2_000 + 4_000)
      assert.strictEqual(asked.length, 5)
      target.dispatchEvent(new Event("online"))
      await settle()
      assert.deepStrictEqual(seen, { ids: all, isOver: true })
    } finally {
      Reflect.deleteProperty(globalThis, "addEventListener")
    }
  })

  it("is given up after 15 minutes without a byte: incomplete, with what it takes to go on later", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(stream(...frames.slice(0, 4)), ...Array.from({ length: 200 }, () => new TypeError("fetch failed")))
    const plan = bowline.plan(question)
    const seen = watch(plan)
    await advance(899_999)
    assert.isFalse(seen.isOver)
    await advance(1)
    assert.deepInclude(seen.error, { code: "incomplete", retryable: true, planId, lastEventId: 4, requestId: "req_1" })
    assert.deepStrictEqual(seen.ids, [1, 2, 3, 4])
    await plan.result().then(
      () => assert.fail("An incomplete stream has no result"),
      (error: BowlineError) => assert.strictEqual(error.code, "incomplete")
    )
    const requests = asked.length
    await advance(60_000)
    assert.strictEqual(asked.length, requests)
  })

  it("is given up at once where the gateway wants to be asked after that", async () => {
    const { answer, bowline } = setUp({ giveUpAfterMs: 60_000 })
    answer(problem(429, "rate_limited", { headers: { "retry-after": "61" } }))
    const seen = watch(bowline.plan(question))
    await settle()
    assert.strictEqual(seen.error?.code, "incomplete")
  })

  it("is not given up while bytes come, nor because the machine slept", async () => {
    const { advance, answer, bowline, clock, timers } = setUp({ giveUpAfterMs: 60_000 })
    const pinging = openStream(...frames.slice(0, 4))
    answer(pinging.response, ...Array.from({ length: 3 }, () => new TypeError("asleep")), stream(...frames.slice(4)))
    const seen = watch(bowline.plan(question))
    for (let i = 0; i < 10; i++) {
      await advance(20_000)
      pinging.send(": ping\n\n")
    }
    assert.isFalse(seen.isOver)
    pinging.fail(new TypeError("terminated"))
    await settle()
    // The timer fires hours late.
    const asleep = clock.now
    Object.assign(clock, { now: () => asleep() + 8 * 3_600_000 })
    assert.strictEqual(timers.size, 1)
    await advance(8_000)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("drops a frame that comes again", async () => {
    const { advance, answer, bowline } = setUp()
    answer(stream(...frames.slice(0, 4)), stream(...frames.slice(1)))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("is asked for behind the last good frame where one is missing", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, 3), ...frames.slice(4)), stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(cuts(), ["gap"])
    assert.strictEqual(asked[1]?.headers.get("last-event-id"), "3")
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
  })

  it("is read once from the start where the gateway does not know its last frame, and then is incomplete", async () => {
    const once = setUp()
    once.answer(stream(...frames.slice(0, 4)), problem(400, "invalid_request"), stream(...frames))
    const seen = watch(once.bowline.plan(question))
    await once.advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.deepStrictEqual(
      once.asked.map(({ headers }) => headers.get("last-event-id")),
      [null, "4", null]
    )

    const twice = setUp()
    twice.answer(
      stream(...frames.slice(0, 4)),
      problem(400, "invalid_request"),
      stream(),
      problem(400, "invalid_request")
    )
    const lost = watch(twice.bowline.plan(question))
    await twice.advance(10_000)
    assert.strictEqual(lost.error?.code, "incomplete")
    assert.strictEqual(twice.asked.length, 4)
  })

  it("is incomplete where the plan has lost frames that were seen", async () => {
    const { advance, answer, bowline } = setUp()
    answer(
      stream(...frames.slice(0, 5)),
      problem(400, "invalid_request"),
      stream(...answered().slice(0, 3), frame(4, "done"))
    )
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.strictEqual(seen.error?.code, "incomplete")
  })
})

describe("a stream before its first frame", () => {
  it("repeats the request with the same Idempotency-Key and body, which it makes where it is not given", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(new TypeError("fetch failed"), problem(503, "unavailable"), stream(), stream(...frames))
    const seen = watch(bowline.plan(question))
    await advance(10_000)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.strictEqual(asked.length, 4)
    const keys = new Set(asked.map(({ headers }) => headers.get("idempotency-key")))
    assert.strictEqual(keys.size, 1)
    assert.match([...keys][0] ?? "", /^\d+(-\d+){3}$/)
    for (const { body, method, path } of asked) {
      assert.deepStrictEqual([method, path], ["POST", "/plan"])
      assert.deepStrictEqual(body, {
        ...question,
        preferences: { on_disconnect: "cancel", disconnect_grace_ms: 30_000 }
      })
    }

    answer(stream(...frames), stream(...frames))
    watch(bowline.plan(question))
    watch(bowline.plan(question, { idempotencyKey: "my-own" }))
    await settle()
    assert.notStrictEqual(asked[4]?.headers.get("idempotency-key"), [...keys][0])
    assert.strictEqual(asked[5]?.headers.get("idempotency-key"), "my-own")
  })

  it("leaves to the request what it says of a caller that leaves", async () => {
    const { answer, asked, bowline } = setUp()
    answer(stream(...frames), stream(...frames))
    watch(bowline.plan({ ...question, preferences: { on_disconnect: "continue" } }))
    watch(bowline.plan({ ...question, preferences: { disconnect_grace_ms: 5, max_steps: 2 } }))
    await settle()
    assert.deepStrictEqual(asked[0]?.body, { ...question, preferences: { on_disconnect: "continue" } })
    assert.deepStrictEqual(asked[1]?.body, {
      ...question,
      preferences: { on_disconnect: "cancel", disconnect_grace_ms: 5, max_steps: 2 }
    })
  })

  it("reads the plan that a 503 names", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(problem(503, "unavailable", { plan_id: planId }), stream(...frames))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.strictEqual(asked[1]?.path, `/plans/${planId}/events`)
  })

  it("is given up after 15 minutes, however many error answers come", async () => {
    const { advance, answer, bowline } = setUp()
    answer(...Array.from({ length: 200 }, () => problem(503, "unavailable")))
    const seen = watch(bowline.plan(question))
    await advance(899_999)
    assert.isFalse(seen.isOver)
    await advance(1)
    assert.deepInclude(seen.error, { code: "incomplete", retryable: true, planId: undefined, lastEventId: 0 })
  })
})

describe("what is not repeated", () => {
  it("is a refusal: it names the code, the status, the fields and the request", async () => {
    const { answer, asked, bowline } = setUp()
    const issues = [{ path: "question", message: "Expected a question that is not blank" }]
    answer(problem(400, "invalid_request", { issues }))
    const plan = bowline.plan({ question: " " })
    const seen = watch(plan)
    await settle()
    assert.deepInclude(seen.error, { code: "invalid_request", status: 400, retryable: false, requestId: "req_9" })
    assert.deepStrictEqual(seen.error?.issues, issues)
    assert.strictEqual(asked.length, 1)
    await plan.planId.then(
      () => assert.fail("There is no plan"),
      (error: BowlineError) => assert.strictEqual(error.code, "invalid_request")
    )
  })

  it("is a frame of more than 8 MiB", async () => {
    const { answer, asked, bowline } = setUp()
    const delta = "x".repeat(8 * 1_024 * 1_024)
    answer(stream(...frames.slice(0, 3), frame(4, "text.delta", { step: 1, attempt: 1, delta })))
    const seen = watch(bowline.plan(question))
    await settle()
    assert.deepInclude(seen.error, { code: "frame_too_large", retryable: false, planId, lastEventId: 3 })
    assert.deepStrictEqual(seen.ids, [1, 2, 3])
    assert.strictEqual(asked.length, 1)
  })

  it("is an answer of what is no gateway", async () => {
    const { answer, bowline } = setUp()
    answer(
      new Response("<html>", { headers: { "content-type": "text/html" } }),
      stream("id: 1\nevent: session\ndata: no JSON\n\n")
    )
    const [page, text] = [watch(bowline.plan(question)), watch(bowline.plan(question))]
    await settle()
    assert.strictEqual(page.error?.code, "unexpected_response")
    assert.strictEqual(text.error?.code, "unexpected_response")
  })

  it("is a refused key, unless a function can be asked for another one, once", async () => {
    const keys = ["old", "new", "newer"]
    const { advance, answer, asked, bowline } = setUp({ apiKey: async () => keys.shift() ?? "none" })
    answer(problem(401, "unauthorized"), stream(...frames.slice(0, 3)), stream(...frames.slice(3)))
    const seen = watch(bowline.plan(question))
    await advance(500)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    const sent = () => asked.map(({ headers }) => headers.get("authorization"))
    assert.deepStrictEqual(sent(), ["Bearer old", "Bearer new", "Bearer new"])

    answer(problem(401, "unauthorized"), problem(401, "unauthorized"))
    const refused = watch(bowline.plan(question))
    await settle()
    assert.deepInclude(refused.error, { code: "unauthorized", status: 401 })
    assert.deepStrictEqual(sent().slice(3), ["Bearer new", "Bearer newer"])

    const cookies = setUp()
    cookies.answer(problem(401, "unauthorized"))
    const loggedOut = watch(cookies.bowline.plan(question))
    await settle()
    assert.deepInclude(loggedOut.error, { code: "unauthorized", status: 401 })
    assert.strictEqual(cookies.asked.length, 1)
  })

  it("is asking for a key that cannot be had", async () => {
    let count = 0
    const apiKey = async () => {
      if (++count === 1) throw new Error("No vault")
      return `key ${count}`
    }
    const { answer, asked, bowline } = setUp({ apiKey })
    const seen = watch(bowline.plan(question))
    await settle()
    assert.strictEqual(seen.error?.code, "unauthorized")
    assert.deepInclude(seen.error?.cause, { message: "No vault" })
    assert.strictEqual(asked.length, 0)
    // The next request asks for one again, and a refusal of something else does not.
    answer(problem(404, "not_found"), stream(...frames))
    const unknown = watch(bowline.attach(planId))
    await settle()
    assert.strictEqual(unknown.error?.code, "not_found")
    const later = watch(bowline.plan(question))
    await settle()
    assert.deepStrictEqual(later, { ids: all, isOver: true })
    assert.deepStrictEqual(
      asked.map(({ headers }) => headers.get("authorization")),
      ["Bearer key 2", "Bearer key 2"]
    )
  })
})
