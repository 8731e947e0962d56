import { assert, describe, it } from "vitest"
import { final, frame, planId, stream } from "./Gateway.ts"
import { setUp, watch } from "./Reading.ts"

/** What a plan answers behind a text that it has accepted as its seventh frame. */
const frames = [
  frame(7, "inbox.accepted", { entry_id: "entry_1", by: "ann", text: "Shorter" }),
  frame(8, "inbox.taken", { entry_id: "entry_1", step: 2 }),
  frame(9, "step", { step: 2, attempt: 1 }),
  frame(10, "text.delta", { step: 2, attempt: 1, delta: "Knots" }),
  final(11, "Knots"),
  frame(12, "done")
]
const ids = [7, 8, 9, 10, 11, 12]
const steers = { question: "Shorter", session_id: "s", preferences: { on_busy: "steer" } } as const

describe("a question that steers", () => {
  it("is read from where the plan accepts it, by each reader", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames))
    const plan = bowline.plan(steers)
    const [one, other] = [watch(plan), watch(plan)]
    const texts: Array<string> = []
    const reading = (async () => {
      for await (const text of plan.text()) texts.push(text)
    })()
    await advance(1_000)
    await reading
    const late = watch(plan)
    await advance(0)
    for (const seen of [one, other, late]) assert.deepStrictEqual(seen, { ids, isOver: true })
    assert.deepStrictEqual([texts.at(-1), (await plan.result()).text, plan.view().text], ["Knots", "Knots", "Knots"])
    assert.deepStrictEqual([await plan.planId, plan.lastEventId, cuts(), asked.length], [planId, 12, [], 1])
  })

  it("asks for no more than the plan has that hears it", async () => {
    const { advance, answer, asked, bowline } = setUp()
    answer(stream(...frames))
    bowline.plan(steers)
    await advance(0)
    assert.deepStrictEqual(asked[0]?.body, steers)
  })

  it.each([0, 1, 3])("is resumed behind its last frame when it is cut behind %i frames", async (count) => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, count)), stream(...frames.slice(count)))
    const seen = watch(bowline.plan(steers))
    await advance(1_000)
    assert.deepStrictEqual(seen, { ids, isOver: true })
    assert.deepStrictEqual(cuts(), ["ended"])
    const again = asked[1]
    if (count === 0) {
      const keys = asked.map(({ headers }) => headers.get("idempotency-key"))
      assert.deepStrictEqual([again?.method, keys[0]], ["POST", keys[1]])
    } else assert.deepStrictEqual([again?.method, again?.headers.get("last-event-id")], ["GET", String(6 + count)])
  })

  it("misses no frame behind its first one", async () => {
    const { advance, answer, asked, bowline, cuts } = setUp()
    answer(stream(...frames.slice(0, 2), ...frames.slice(3)), stream(...frames.slice(2)))
    const seen = watch(bowline.plan(steers))
    await advance(1_000)
    assert.deepStrictEqual(seen, { ids, isOver: true })
    assert.deepStrictEqual([cuts(), asked[1]?.headers.get("last-event-id")], [["gap"], "8"])
  })
})
