import { startDemo } from "@bowline/testing/DemoProcess"
import assert from "node:assert/strict"
import { setTimeout } from "node:timers/promises"

interface PlanShown {
  readonly plan_id: string
  readonly state: string
  readonly error: { readonly reason?: string } | null
}

const program = new URL("../../../apps/gateway/bin/bowline.mjs", import.meta.url)
const [inner, outer] = await Promise.all([startDemo(program), startDemo(program)])

/** Asks the outer gateway, which has one peer. */
const ask = (question: string, name: string, endpoint: string) =>
  fetch(`${outer.url}/plan`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify({
      question,
      agents: [{ name, endpoint, dialect: "a2a-1.0", skills: [{ id: "plan", description: "Answers questions" }] }],
      preferences: { on_disconnect: "continue" }
    })
  })

/** The newest plan of a gateway, when it is as expected. */
const awaitPlan = async (url: string, isExpected: (plan: PlanShown) => boolean): Promise<PlanShown> => {
  for (;;) {
    const response = await fetch(`${url}/plans?limit=1`)
    const { plans } = (await response.json()) as { readonly plans: ReadonlyArray<PlanShown> }
    const [plan] = plans
    if (plan !== undefined && isExpected(plan)) return plan
    await setTimeout(50)
  }
}

try {
  // The planner of the outer gateway calls the inner one, whose planner calls its own agent.
  const endpoint = `${inner.url}/a2a/agents/demo`
  const answer = await (await ask("Ask inner to ask prompt what a bowline is.", "inner", endpoint)).text()
  assert.match(answer, /“Demo answer, given at once, to: /)
  assert.equal((await awaitPlan(inner.url, () => true)).state, "completed")
  console.log("An answer came through both gateways")

  // An agent that never answers, behind the inner gateway: a cancel of the outer plan ends both.
  const stuck = ask("Ask inner to ask stuck what a bowline is.", "inner", endpoint)
  const running = await awaitPlan(inner.url, ({ state }) => state === "running")
  const { plan_id } = await awaitPlan(outer.url, ({ state }) => state === "running")
  await fetch(`${outer.url}/plans/${plan_id}/cancel`, { method: "POST" })
  const ended = await awaitPlan(inner.url, ({ state }) => state !== "running")
  assert.equal(ended.plan_id, running.plan_id)
  assert.deepEqual([ended.state, ended.error?.reason], ["aborted", "cancelled"])
  await (await stuck).text()
  console.log("A cancel went through both gateways")

  // A gateway that calls itself would never end.
  const loop = await (await ask("Ask self what a bowline is.", "self", `${outer.url}/a2a`)).text()
  assert.match(loop, /come back to this gateway/)
  console.log("A plan that comes back is refused")
} finally {
  await Promise.all([inner.stop(), outer.stop()])
}
