import { createBowline, type StreamEvent } from "@bowline/client"
import { startDemo } from "@bowline/testing/DemoProcess"
import assert from "node:assert/strict"
import { cutOnce } from "./CutNetwork.ts"

const program = new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)
const gateway = await startDemo(program)
const network = await cutOnce(gateway.url, 1_500)
try {
  const events: Array<StreamEvent> = []
  const bowline = createBowline({ baseUrl: network.url, onEvent: (event) => events.push(event) })

  // The network breaks behind 1,500 bytes. The loop does not notice it: every frame comes once, and in order.
  const plan = bowline.plan({ question: "Ask prompt what a bowline is.", preset: "demo" })
  const ids: Array<number> = []
  for await (const { id } of plan) ids.push(id)
  const { text } = await plan.result()
  console.log(text)
  assert.match(text, /“Demo answer, given at once, to: Ask prompt what a bowline is\.”/)
  assert.deepEqual(
    ids,
    ids.map((_, i) => i + 1)
  )
  assert.equal(events.filter(({ type }) => type === "cut").length, 1)

  // The answer as it grows, and all that can be shown of its plan.
  const second = bowline.plan({ question: "Ask slow what a bowline is.", preset: "demo" })
  let last = ""
  for await (const snapshot of second.text()) last = snapshot
  assert.equal(last, (await second.result()).text)
  const { state, tasks } = second.view()
  assert.deepEqual([state, tasks.map((task) => task.state)], ["completed", ["completed"]])

  // An agent that never answers. The plan is cancelled by name: its stream ends with the reason.
  const stuck = bowline.plan({ question: "Ask stuck what a bowline is.", preset: "demo" })
  for await (const { event } of stuck) if (event === "task.started") await stuck.cancel()
  await assert.rejects(stuck.result(), { name: "BowlineError", code: "aborted", reason: "cancelled" })

  // The same with a signal: it ends every wait at once, and the plan with it.
  const leaving = new AbortController()
  const left = bowline.plan({ question: "Ask stuck what a bowline is.", preset: "demo" }, { signal: leaving.signal })
  const planId = await left.planId
  leaving.abort(new Error("The page was left"))
  await assert.rejects(left.result(), /The page was left/)
  let found = await bowline.plans.get(planId)
  while (found.state === "running") found = await bowline.plans.get(planId)
  assert.equal(found.state, "aborted")
} finally {
  network.close()
  await gateway.stop()
}
