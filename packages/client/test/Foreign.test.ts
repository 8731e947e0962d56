import { assert, describe, it } from "vitest"
import { once } from "node:events"
import { createServer, type ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import { type BowlineError, makeBowline } from "../src/Bowline.ts"
import { systemClock } from "../src/Clock.ts"
import { fullJitter } from "../src/Requests.ts"
import { answered, json, planId, problem, settle, stream } from "./Gateway.ts"
import { setUp, watch } from "./Reading.ts"

const frames = answered("Hel", "lo")
const all = frames.map((_, i) => i + 1)
const question = { question: "Which knot?" }

/** An answer whose body cannot be read: one that says gzip and is none. */
const unreadable = () =>
  new Response(new ReadableStream({ start: (controller) => controller.error(new TypeError("terminated")) }), {
    headers: { "content-type": "text/html" }
  })

/** What answers in the place of a gateway. */
const foreign: ReadonlyArray<readonly [what: string, code: string, answer: () => Response]> = [
  ["a page", "unexpected_response", () => new Response("<html>", { headers: { "content-type": "text/html" } })],
  ["a page that cannot be read", "unexpected_response", unreadable],
  ["an answer without a body", "unexpected_response", () => new Response(null, { status: 204 })],
  ["a 304", "unexpected_response", () => new Response(null, { status: 304 })],
  ["JSON", "unexpected_response", () => json({ status: "ok" })],
  ["a frame that is a page", "unexpected_response", () => stream("id: 5\nevent: step\ndata: <html>\n\n")],
  ["a 404 of an ingress", "not_found", () => new Response("default backend - 404", { status: 404 })],
  ["a 520 of a CDN", "internal", () => new Response("<html>", { status: 520 })]
]

describe("what answers in the place of a gateway", () => {
  it.each(foreign)("is a cut behind good frames: %s", async (_, code, page) => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, 4)), page(), page(), stream(...frames.slice(4)))
    const seen = watch(bowline.plan(question))
    await advance(500 + 1_000 + 2_000)
    assert.deepStrictEqual(seen, { ids: all, isOver: true })
    assert.deepStrictEqual(cuts(), ["ended", code, code])
    assert.deepStrictEqual(
      asked.map(({ headers }) => headers.get("last-event-id")),
      [null, "4", "4", "4"]
    )
  })

  it.each(foreign)("is a refusal before the first frame, at once: %s", async (_, code, page) => {
    const { answer, asked, bowline } = setUp()
    answer(page(), page())
    const seen = [watch(bowline.plan(question)), watch(bowline.attach(planId, { after: 4 }))]
    await settle()
    assert.deepStrictEqual(
      seen.map(({ error }) => error?.code),
      [code, code]
    )
    assert.strictEqual(asked.length, 2)
  })

  it("is the gateway where it says why, or refuses the key: the reading ends", async () => {
    for (const [code, refusal] of [
      ["not_found", problem(404, "not_found")],
      ["internal", problem(500, "internal")],
      ["unauthorized", new Response("<html>", { status: 401 })],
      ["forbidden", new Response("<html>", { status: 403 })]
    ] as const) {
      const { advance, answer, bowline } = setUp()
      answer(stream(...frames.slice(0, 4)), refusal)
      const seen = watch(bowline.plan(question))
      await advance(500)
      assert.deepInclude(seen.error, { code, planId, lastEventId: 4 })
    }
  })

  it("is given up after 15 minutes also where it always sends something that is of no use", async () => {
    const { advance, answer, bowline } = setUp()
    answer(stream(...frames.slice(0, 4)), ...Array.from({ length: 200 }, () => stream(...frames.slice(5))))
    const seen = watch(bowline.plan(question))
    await advance(899_999)
    assert.isFalse(seen.isOver)
    await advance(1)
    assert.deepInclude(seen.error, { code: "incomplete", planId, lastEventId: 4 })
  })
})

/** What a server does with the second request for a plan. */
const middles: ReadonlyArray<readonly [what: string, code: string, answer: (response: ServerResponse) => void]> = [
  ["a redirect to a page", "unexpected_response", (response) => response.writeHead(302, { location: "/login" }).end()],
  [
    "a body that says gzip and is none",
    "network",
    (response) => response.setHeader("content-encoding", "gzip").end("<html>")
  ],
  ["bytes of gzip that do not say so", "ended", (response) => response.end(gzipSync("<html>"))],
  ["a page that calls itself a stream", "ended", (response) => response.end("<html>\n\n</html>\n\n")],
  ["a reset", "network", (response) => response.destroy()]
]

it.each(middles)("a cut behind good frames is also, over a real connection: %s", async (_, code, answer) => {
  let requests = 0
  const server = createServer((request, response) => {
    request.resume()
    response.setHeader("connection", "close").setHeader("content-type", "text/event-stream")
    if (request.url === "/login") response.setHeader("content-type", "text/html").end("<html>")
    else if (++requests === 2) answer(response)
    else if (requests === 1) response.end(frames.slice(0, 4).join(""))
    else response.end(frames.slice(4).join(""))
  })
  await once(server.listen(0, "127.0.0.1"), "listening")
  try {
    const address = server.address()
    const cuts: Array<string> = []
    const clock = { ...systemClock, random: () => 0 }
    const bowline = makeBowline({
      options: {
        baseUrl: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
        onEvent: (event) => {
          if (event.type === "cut") cuts.push(event.error.code)
        }
      },
      clock,
      backoff: fullJitter(clock)
    })
    const ids: Array<number> = []
    for await (const { id } of bowline.plan(question)) ids.push(id)
    assert.deepStrictEqual([ids, cuts], [all, ["ended", code]])
  } finally {
    server.close()
  }
})

describe("a gateway that has never answered", () => {
  const refused = () =>
    new TypeError("fetch failed", { cause: new AggregateError([new Error("connect ECONNREFUSED ::1:2")]) })
  const away = () => Array.from({ length: 200 }, refused)

  it("is given up after 30 s: unreachable, with host, port and cause", async () => {
    const { advance, answer, bowline } = setUp({ baseUrl: "http://localhost:2/base/" })
    answer(...away())
    const plan = bowline.plan(question)
    const seen = [watch(plan), watch(bowline.attach(planId))]
    const planIdOf = plan.planId.catch(({ code }: BowlineError) => code)
    await advance(29_999)
    assert.isFalse(seen.some(({ isOver }) => isOver))
    await advance(1)
    for (const { error } of seen) {
      assert.deepInclude(error, { code: "unreachable", retryable: true })
      assert.strictEqual(error?.message, "Cannot reach http://localhost:2: connect ECONNREFUSED ::1:2")
      assert.instanceOf(error?.cause, Error)
    }
    assert.strictEqual(await planIdOf, "unreachable")
  })

  it("is given up earlier where that is asked for, and also behind a proxy that only says that it is away", async () => {
    const early = setUp({ giveUpAfterMs: 1_000 })
    early.answer(...away())
    const first = watch(early.bowline.plan(question))
    await early.advance(1_000)
    assert.strictEqual(first.error?.code, "unreachable")
    const proxied = setUp()
    proxied.answer(...Array.from({ length: 200 }, () => new Response("<html>", { status: 502 })))
    const second = watch(proxied.bowline.plan(question))
    await proxied.advance(30_000)
    // Something can be reached there.
    assert.strictEqual(second.error?.code, "incomplete")
  })

  it.each([
    ["a refusal", () => problem(503, "draining")],
    ["an answer", () => json({ status: "ok" })]
  ])(
    "is waited for 15 minutes as soon as it has answered something, if only %s to another request",
    async (_, first) => {
      const { advance, answer, bowline } = setUp({ maxRetries: 0 })
      answer(first())
      await bowline.plans.get(planId).catch(() => undefined)
      answer(...away())
      const seen = watch(bowline.plan(question))
      await advance(899_999)
      assert.isFalse(seen.isOver)
      await advance(1)
      assert.strictEqual(seen.error?.code, "incomplete")
    }
  )

  it("is said to refuse the page where it does: a browser itself says only that the request failed", async () => {
    Object.assign(globalThis, { location: { origin: "https://app.example" } })
    try {
      const modes: Array<string | undefined> = []
      const fetch: typeof globalThis.fetch = async (_, { mode } = {}) => {
        modes.push(mode)
        if (mode === "no-cors") return new Response()
        throw new TypeError("Failed to fetch")
      }
      const elsewhere = setUp({ baseUrl: "http://gateway:3774", fetch, giveUpAfterMs: 1_000 })
      const seen = watch(elsewhere.bowline.plan(question))
      await elsewhere.advance(1_000)
      assert.strictEqual(
        seen.error?.message,
        "Cannot reach http://gateway:3774: CORS refuses pages of https://app.example: add it to cors.origins"
      )
      assert.strictEqual(modes.filter((mode) => mode === "no-cors").length, 1)
      // Nor is the other request waited for without an end.
      const silent = setUp({
        baseUrl: "http://gateway",
        giveUpAfterMs: 1_000,
        fetch: (_, { mode } = {}) =>
          mode === "no-cors" ? new Promise(() => {}) : Promise.reject(new TypeError("Failed to fetch"))
      })
      const unknown = watch(silent.bowline.plan(question))
      await silent.advance(1_000 + 9_999)
      assert.isFalse(unknown.isOver)
      await silent.advance(1)
      assert.strictEqual(unknown.error?.message, "Cannot reach http://gateway: Failed to fetch")

      const own = setUp({ baseUrl: "https://app.example", fetch, giveUpAfterMs: 1_000 })
      const away = watch(own.bowline.plan(question))
      await own.advance(1_000)
      assert.strictEqual(away.error?.message, "Cannot reach https://app.example: Failed to fetch")
      assert.strictEqual(modes.filter((mode) => mode === "no-cors").length, 1)
    } finally {
      Reflect.deleteProperty(globalThis, "location")
    }
  })
})
