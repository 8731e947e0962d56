import { assert, describe, it } from "vitest"
import { type BowlineError, type Frame, initialView, makeBowline, reduce } from "../src/Bowline.ts"
import { fullJitter } from "../src/Requests.ts"
import { answered, final, frame, json, makeClock, makeGateway, openStream, planId, settle, stream } from "./Gateway.ts"

const setUp = () => {
  const time = makeClock()
  const gateway = makeGateway()
  const bowline = makeBowline({
    options: { baseUrl: "http://gateway/", fetch: gateway.fetch, apiKey: "key", headers: { "x-team": "ropes" } },
    clock: time.clock,
    backoff: fullJitter(time.clock)
  })
  return { ...time, ...gateway, bowline }
}

const collect = async <A>(list: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const one of list) found.push(one)
  return found
}

const question = { question: "Which knot?" }
const frames = answered("Hel", "lo")
const all = frames.map((_, i) => i + 1)

describe("a plan's stream", () => {
  it("gives every reader all frames from the start, however late it comes", async () => {
    const { answer, asked, bowline } = setUp()
    const open = openStream(...frames.slice(0, 4))
    answer(open.response)
    const plan = bowline.plan(question)
    const early = collect(plan)
    await settle()
    const late = collect(plan)
    for (const one of frames.slice(4)) open.send(one)
    const behind = (await Promise.all([early, late, plan.result()]))[0]
    assert.deepStrictEqual(
      behind.map(({ id }) => id),
      all
    )
    assert.deepStrictEqual(await late, behind)
    assert.deepStrictEqual(await collect(plan), behind)
    assert.strictEqual(asked.length, 1)
    assert.strictEqual(asked[0]?.headers.get("authorization"), "Bearer key")
    assert.strictEqual(asked[0]?.headers.get("x-team"), "ropes")
  })

  it("keeps 10,000 frames, and asks for older ones again", async () => {
    const { advance, answer, asked, bowline } = setUp()
    const many = answered(...Array.from({ length: 12_000 }, (_, i) => String(i % 10)))
    // What answers in the place of the gateway is a cut here, too.
    answer(stream(...many), json({ status: "ok" }), (request) => {
      assert.strictEqual(request.path, `/plans/${planId}/events`)
      return stream(...many.slice(Number(request.headers.get("last-event-id") ?? 0)))
    })
    const plan = bowline.plan(question)
    await plan.result()
    const reading = collect(plan)
    await advance(500)
    const read = await reading
    assert.deepStrictEqual(
      read.map(({ id }) => id),
      many.map((_, i) => i + 1)
    )
    assert.strictEqual(asked.length, 3)
  })

  it("knows by an event what its data has, also where the two are taken apart", async () => {
    const { answer, bowline } = setUp()
    answer(stream(...frames))
    const deltas: Array<string> = []
    for await (const { data, event } of bowline.plan(question)) {
      if (event === "text.delta") deltas.push(data.delta)
    }
    assert.strictEqual(deltas.join(""), "Hello")
  })

  it("tells who it is, how far it is, and what the gateway has answered", async () => {
    const { answer, bowline } = setUp()
    answer(stream(...frames))
    const plan = bowline.plan(question)
    assert.strictEqual(plan.lastEventId, 0)
    assert.strictEqual(await plan.planId, planId)
    await plan.result()
    assert.strictEqual(plan.lastEventId, frames.length)
    assert.strictEqual(plan.response?.headers.get("x-request-id"), "req_1")
  })

  it("gives the text as snapshots, with retracts applied, step by step, the last one that of final", async () => {
    const { answer, bowline } = setUp()
    const delta = (id: number, step: number, attempt: number, text: string) =>
      frame(id, "text.delta", { step, attempt, delta: text })
    answer(
      stream(
        ...frames.slice(0, 3),
        delta(4, 1, 1, "Wro"),
        delta(5, 1, 1, "ng"),
        frame(6, "text.retract", { step: 1, attempt: 1 }),
        delta(7, 1, 2, "Asking"),
        frame(8, "step", { step: 2, attempt: 1 }),
        delta(9, 2, 1, "A bow"),
        delta(10, 2, 2, "line"),
        final(11, "A bowline"),
        frame(12, "done")
      )
    )
    const texts = await collect(bowline.plan(question).text())
    assert.deepStrictEqual(texts, ["Wro", "Wrong", "", "Asking", "", "A bow", "A bowline"])
  })

  it("gives the error frame, ends at done, and rejects the result with it", async () => {
    const { answer, bowline } = setUp()
    const error = { code: "aborted", message: "Too late", retryable: true, stage: "tool", reason: "deadline" } as const
    answer(stream(...frames.slice(0, 4), frame(5, "error", error), frame(6, "done")))
    const plan = bowline.plan(question)
    assert.deepStrictEqual((await collect(plan)).map(({ event }) => event).slice(-2), ["error", "done"])
    assert.deepStrictEqual(await collect(plan.text()), ["Hel"])
    const thrown = await plan.result().then(
      () => assert.fail("There is no result"),
      (error: BowlineError) => error
    )
    assert.deepInclude(thrown, { ...error, planId, requestId: "req_1" })
    assert.isUndefined(thrown.status)
  })

  it("settles the result at done, not before", async () => {
    const { answer, bowline } = setUp()
    const open = openStream(...frames.slice(0, -1))
    answer(open.response)
    const plan = bowline.plan(question)
    let isSettled = false
    const result = plan.result().then((value) => {
      isSettled = true
      return value
    })
    await settle()
    assert.isFalse(isSettled)
    open.send(frames.at(-1) ?? "")
    assert.strictEqual((await result).text, "Hello")
  })

  it("hands over events that it does not know, and fields that it does not know", async () => {
    const { answer, bowline } = setUp()
    const odd = frame(4, "event.of.later", { later: true })
    answer(stream(...frames.slice(0, 3), odd, final(5, "Hi"), frame(6, "done", { later: [1] })))
    const plan = bowline.plan(question)
    const read: ReadonlyArray<Frame> = await collect(plan)
    assert.deepInclude(read[3], { id: 4, event: "event.of.later" })
    assert.deepInclude(read[3]?.data, { later: true })
    assert.deepInclude(read[5]?.data, { later: [1] })
    assert.strictEqual((await plan.result()).text, "Hi")
  })

  it("has the view that its frames make", async () => {
    const { answer, bowline } = setUp()
    answer(stream(...frames))
    const plan = bowline.plan(question)
    assert.strictEqual(plan.view(), initialView)
    const read: ReadonlyArray<Frame> = await collect(plan)
    assert.deepStrictEqual(plan.view(), read.reduce(reduce, initialView))
    assert.strictEqual(plan.view().text, "Hello")
    assert.strictEqual(plan.view(), plan.view())
  })

  it("is attached to behind a frame, also to its very end", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(stream(...frames.slice(4)))
    const plan = bowline.attach(planId, { after: 4 })
    assert.deepStrictEqual(
      (await collect(plan)).map(({ id }) => id),
      all.slice(4)
    )
    assert.strictEqual(asked[0]?.headers.get("last-event-id"), "4")

    answer(stream(), stream(...frames))
    const over = bowline.attach(planId, { after: frames.length })
    const read = collect(over)
    await advance(500)
    assert.deepStrictEqual(await read, [])
    // The empty answer may as well have been cut: all frames are asked for once.
    assert.deepStrictEqual(
      asked.slice(1).map(({ headers }) => headers.get("last-event-id")),
      [String(frames.length), null]
    )
    assert.strictEqual((await over.result()).text, "Hello")
  })

  it("cancels its plan when it is told to", async () => {
    const { answer, asked, bowline } = setUp()
    const open = openStream(...frames.slice(0, 3))
    answer(open.response, json({ plan_id: planId, state: "aborted" }))
    const plan = bowline.attach(planId)
    assert.strictEqual((await plan.cancel()).state, "aborted")
    assert.deepInclude(asked[1], { method: "POST", path: `/plans/${planId}/cancel`, body: undefined })
  })
})
