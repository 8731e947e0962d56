import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { type BowlineError, type BowlineOptions, makeBowline } from "../src/Bowline.ts"
import { fullJitter } from "../src/Requests.ts"
import { answered, json, makeClock, makeGateway, openStream, planId, settle, stream } from "./Gateway.ts"

const unhandled: Array<unknown> = []
const keep = (error: unknown) => void unhandled.push(error)
beforeAll(() => void process.on("unhandledRejection", keep))
afterAll(async () => {
  await settle()
  process.off("unhandledRejection", keep)
  assert.deepStrictEqual(unhandled, [], "No rejection is left unhandled by any test of this file")
})

const setUp = (options: Partial<BowlineOptions> = {}) => {
  const time = makeClock()
  const gateway = makeGateway()
  const bowline = makeBowline({
    options: { baseUrl: "http://gateway", fetch: gateway.fetch, ...options },
    clock: time.clock,
    backoff: fullJitter(time.clock)
  })
  const cancels = () => gateway.asked.filter(({ path }) => path === `/plans/${planId}/cancel`).length
  return { ...time, ...gateway, bowline, cancels }
}

const frames = answered("Hel", "lo")
const question = { question: "Which knot?" }
const reason = new Error("The page was left")

const failureOf = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail("It resolves"),
    (error: unknown) => error
  )

const readAll = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of stream) continue
}

describe("a signal", () => {
  const never = () => new Promise<Response>(() => {})

  it.each([
    ["a key", { apiKey: () => new Promise<string>(() => {}) }, []],
    ["an answer that does not begin", {}, [never]],
    ["a stream that is silent", {}, [openStream(...frames.slice(0, 3)).response]],
    ["the next attempt", {}, [new TypeError("fetch failed")]],
    ["the next attempt behind a frame", {}, [stream(...frames.slice(0, 3))]]
  ] as const)("ends the wait for %s, without any time passing, with its reason", async (_, options, answers) => {
    const { answer, bowline, timers } = setUp(options)
    answer(...answers)
    const leaving = new AbortController()
    const plan = bowline.plan({ ...question, preferences: { on_disconnect: "continue" } }, { signal: leaving.signal })
    const ends = [plan.result(), readAll(plan), readAll(plan.text())].map(failureOf)
    await settle()
    leaving.abort(reason)
    assert.deepStrictEqual(await Promise.all(ends), [reason, reason, reason])
    await settle()
    assert.strictEqual(timers.size, 0)
  })

  it("cancels the plan", async () => {
    const { answer, asked, bowline, cancels } = setUp()
    const open = openStream(...frames.slice(0, 3))
    answer(open.response, json({}))
    const leaving = new AbortController()
    const plan = bowline.plan(question, { signal: leaving.signal })
    const end = failureOf(plan.result())
    await settle()
    leaving.abort(reason)
    assert.strictEqual(await end, reason)
    await settle()
    assert.strictEqual(cancels(), 1)
    assert.strictEqual(asked[1]?.method, "POST")
    assert.isTrue(asked[0]?.signal.aborted)
    assert.isTrue(open.isCancelled())
  })

  it("cancels a plan whose name is still on its way, as soon as it is known", async () => {
    const { answer, bowline, cancels } = setUp()
    let respond: ((response: Response) => void) | undefined
    answer(() => new Promise((resolve) => void (respond = resolve)), json({}))
    const leaving = new AbortController()
    const plan = bowline.plan(question, { signal: leaving.signal })
    const end = failureOf(plan.planId)
    await settle()
    leaving.abort(reason)
    assert.strictEqual(await end, reason)
    assert.strictEqual(cancels(), 0)
    const open = openStream(...frames.slice(0, 1))
    respond?.(open.response)
    await settle()
    assert.strictEqual(cancels(), 1)
    assert.isTrue(open.isCancelled())
  })

  it("waits 10 s for that name, and no longer", async () => {
    const { advance, answer, asked, bowline, timers } = setUp()
    answer(never)
    const leaving = new AbortController()
    const end = failureOf(bowline.plan(question, { signal: leaving.signal }).result())
    await settle()
    leaving.abort(reason)
    await end
    await advance(10_000)
    assert.strictEqual(timers.size, 0)
    assert.isTrue(asked[0]?.signal.aborted)
    assert.strictEqual(asked.length, 1)
  })

  it("leaves a plan alone whose request says continue, and one that was attached to", async () => {
    const { answer, asked, bowline, cancels } = setUp()
    const opened = [openStream(...frames.slice(0, 3)), openStream(...frames.slice(0, 3))]
    answer(...opened.map(({ response }) => response))
    const leaving = new AbortController()
    const { signal } = leaving
    const own = bowline.plan({ ...question, preferences: { on_disconnect: "continue" } }, { signal })
    const attached = bowline.attach(planId, { signal })
    const ends = [failureOf(own.result()), failureOf(attached.result())]
    await settle()
    leaving.abort(reason)
    assert.deepStrictEqual(await Promise.all(ends), [reason, reason])
    await settle()
    assert.strictEqual(cancels(), 0)
    assert.deepStrictEqual(
      asked.map(({ signal }) => signal.aborted),
      [true, true]
    )
  })

  it("that is aborted before sends nothing", async () => {
    const { asked, bowline, timers } = setUp()
    const plan = bowline.plan(question, { signal: AbortSignal.abort(reason) })
    assert.strictEqual(await failureOf(plan.result()), reason)
    assert.strictEqual(await failureOf(readAll(plan)), reason)
    await settle()
    assert.deepStrictEqual([asked.length, timers.size], [0, 0])
  })

  it("changes nothing for a plan that is over", async () => {
    const { answer, asked, bowline } = setUp()
    answer(stream(...frames))
    const leaving = new AbortController()
    const plan = bowline.plan(question, { signal: leaving.signal })
    assert.strictEqual((await plan.result()).text, "Hello")
    leaving.abort(reason)
    await settle()
    assert.strictEqual((await plan.result()).text, "Hello")
    await readAll(plan)
    assert.strictEqual(asked.length, 1)
  })

  it("ends a request that is no stream, also while it waits for its next attempt", async () => {
    const { answer, bowline, timers } = setUp()
    answer(new TypeError("fetch failed"))
    const leaving = new AbortController()
    const end = failureOf(bowline.plans.get(planId, { signal: leaving.signal }))
    await settle()
    leaving.abort(reason)
    assert.strictEqual(await end, reason)
    assert.strictEqual(timers.size, 0)
  })
})

describe("a reader that leaves", () => {
  const readTwo = async (plan: AsyncIterable<unknown>): Promise<void> => {
    let count = 0
    for await (const _ of plan) if (++count === 2) break
  }

  it("ends nothing while another one reads", async () => {
    const { answer, bowline, cancels } = setUp()
    const open = openStream(...frames.slice(0, 3))
    answer(open.response)
    const plan = bowline.plan(question)
    const other = readAll(plan.text())
    await readTwo(plan)
    await settle()
    assert.strictEqual(cancels(), 0)
    for (const frame of frames.slice(3)) open.send(frame)
    await other
  })

  it("is an abort when nobody waits for the result", async () => {
    const { answer, bowline, cancels } = setUp()
    answer(openStream(...frames.slice(0, 3)).response, json({}))
    const plan = bowline.plan(question)
    await readTwo(plan)
    await settle()
    assert.strictEqual(cancels(), 1)
    const error = (await failureOf(plan.result())) as BowlineError
    assert.deepInclude(error, { code: "aborted", reason: "disconnect" })
  })

  it("ends nothing while somebody waits for the result", async () => {
    const { answer, bowline, cancels } = setUp()
    const open = openStream(...frames.slice(0, 3))
    answer(open.response)
    const plan = bowline.plan(question)
    const result = plan.result()
    await readTwo(plan)
    await settle()
    assert.strictEqual(cancels(), 0)
    for (const frame of frames.slice(3)) open.send(frame)
    assert.strictEqual((await result).text, "Hello")
  })

  it("counts from the time at which it was made: it is an abort if it leaves before it has asked for anything", async () => {
    const { answer, bowline, cancels } = setUp()
    answer(openStream(...frames.slice(0, 3)).response, json({}))
    const plan = bowline.plan(question)
    const [one, other] = [plan[Symbol.asyncIterator](), plan.text()[Symbol.asyncIterator]()]
    await one.return?.()
    await one.return?.()
    await settle()
    assert.strictEqual(cancels(), 0)
    await other.return?.()
    await settle()
    assert.strictEqual(cancels(), 1)
  })

  it("may leave while it waits for a frame", async () => {
    const { answer, bowline, cancels } = setUp()
    answer(openStream().response, json({}))
    const plan = bowline.attach(planId)
    const reader = plan[Symbol.asyncIterator]()
    const next = reader.next()
    await settle()
    await reader.return?.()
    assert.deepStrictEqual(await next, { done: true, value: undefined })
    await settle()
    assert.strictEqual(cancels(), 0)
  })
})

it("nobody has to handle a failure", async () => {
  const { advance, answer, bowline } = setUp({ giveUpAfterMs: 1_000 })
  answer(...Array.from({ length: 40 }, () => new TypeError("fetch failed")))
  const plan = bowline.plan(question)
  void plan.cancel()
  void plan.result()
  const leaving = new AbortController()
  bowline.plan(question, { signal: leaving.signal })
  await advance(500)
  leaving.abort(reason)
  await advance(60_000)
})
