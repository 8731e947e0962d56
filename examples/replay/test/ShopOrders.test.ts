import { evaluate, readCases } from "@bowline/testing/evaluate/Evaluate"
import { fork, localPlans } from "@bowline/testing/evaluate/LocalPlans"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { say } from "@bowline/testing/provider/Turn"
import { read, replay } from "@bowline/testing/replay/Replay"
import { Layer } from "effect"
import { readFileSync } from "node:fs"
import { assert, describe, it } from "vitest"
import * as ShopOrders from "../src/ShopOrders.ts"

const path = new URL("../src/plans.bowline", import.meta.url)
const recordings = read(readFileSync(path))

/** A real app has its provider here. */
const appThatSays = (text: string) => ({
  model: "scripted/clerk",
  app: Layer.merge(
    ScriptedProvider.layer(() => [say(text)]),
    ShopOrders.layer
  )
})

const answersOf = (findOrder: typeof ShopOrders.findOrder) => ({
  find_order: (input: unknown) => findOrder(input as { readonly order_id: number })
})

describe("the plans on record", () => {
  it.each(recordings)("run as they did: $plan.question", async (recording) => {
    assert.deepStrictEqual(await replay(recording, { answers: answersOf(ShopOrders.findOrder) }), { _tag: "Same" })
  })

  it("fail where the tool changes its answer, at the call that has the other one", async () => {
    const changed = answersOf((input) => ({ ...ShopOrders.findOrder(input), arrives: "Monday" }))
    const [first] = recordings
    assert(first !== undefined)
    const replayed = await replay(first, { answers: changed })
    assert(replayed._tag === "Different")
    assert.deepStrictEqual([replayed.step, replayed.what], [1, "answer of find_order"])
    assert.deepStrictEqual(replayed.came, {
      input: { order_id: 7 },
      answer: { order_id: 7, status: "on its way", arrives: "Monday" }
    })
  })

  it("are forked in this process, from any step", async () => {
    const [first] = recordings
    assert(first !== undefined)
    const view = await fork(first, { step: 2 }, appThatSays("On Friday."))
    assert.strictEqual(view.text, "On Friday.")
    assert.strictEqual(view.steps.length, 1)
  })

  it("are the cases of an evaluation", async () => {
    const cases = readCases([{ path: path.pathname, bytes: readFileSync(path) }])
    const { ask, close } = localPlans(appThatSays("It arrives on Friday."), recordings)
    const report = await evaluate({
      cases: cases.map((one) => ({ ...one, expect: { contains: "Friday", max_steps: 2 } })),
      ask
    })
    await close()
    assert.isTrue(report.runs.every(({ pass }) => pass))
  })
})
