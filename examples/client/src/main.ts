import { BowlineError, createBowline } from "@bowline/client"
import { startDemo } from "@bowline/testing/DemoProcess"
import assert from "node:assert/strict"
import { startProxy } from "./CuttingProxy.ts"

const all = async <A>(entries: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const entry of entries) found.push(entry)
  return found
}

const program = new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)
const gateway = await startDemo(program)
const network = await startProxy(gateway.url, 3, 2_000)
try {
  const cuts: Array<number> = []
  const bowline = createBowline({
    baseUrl: network.url,
    onEvent: (event) => {
      if (event.type === "cut") cuts.push(event.lastEventId)
    }
  })

  // The stream breaks three times, somewhere in a frame. The client resumes it: nobody who reads the plan notices.
  const plan = bowline.plan({ question: "Ask slow what a bowline is.", preset: "demo" })
  let shown = ""
  for await (const text of plan.text()) shown = text
  const final = await plan.result()
  assert.equal(shown, final.text)
  assert.match(final.text, /“Demo report, made in two seconds, on: Ask slow what a bowline is\.”/)
  assert.equal(cuts.length, 3)

  // Every frame came once. What the plan looks like is the same for somebody who reads it later, in one piece.
  const seen = await all(plan)
  assert.deepEqual(
    seen.map(({ id }) => id),
    seen.map((_, index) => index + 1)
  )
  const later = createBowline({ baseUrl: gateway.url }).attach(await plan.planId)
  assert.deepEqual(await all(later), seen)
  assert.deepEqual(later.view(), plan.view())

  // Only what came behind the last frame that is known.
  const rest = bowline.attach(await plan.planId, { after: seen.length - 2 })
  assert.deepEqual(
    (await all(rest)).map(({ event }) => event),
    ["final", "done"]
  )

  // An agent that never answers. The caller has seen enough: the plan ends, also at the agent, and says why.
  const stuck = bowline.plan({ question: "Ask stuck what a bowline is.", preset: "demo" })
  const ended = assert.rejects(
    stuck.result(),
    (error) => error instanceof BowlineError && error.code === "aborted" && error.reason === "cancelled"
  )
  for await (const { event } of stuck) if (event === "task.progress") break
  assert.equal((await stuck.cancel()).state, "aborted")
  await ended
  assert.equal(stuck.view().tasks[0]?.state, "interrupted")

  // A signal does the same, and ends every wait of the caller at once.
  const controller = new AbortController()
  const left = bowline.plan({ question: "Ask stuck again.", preset: "demo" }, { signal: controller.signal })
  const planId = await left.planId
  controller.abort(new Error("The user has closed the tab"))
  await assert.rejects(left.result(), /closed the tab/)
  assert.equal((await bowline.plans.cancel(planId)).error?.reason, "cancelled")

  // The lists are those of the API, page after page.
  const found = await all(bowline.plans.list({ state: "aborted", q: "STUCK", limit: 1 }))
  assert.deepEqual(
    found.map(({ plan_id }) => plan_id),
    [planId, await stuck.planId]
  )
} finally {
  network.stop()
  await gateway.stop()
}
