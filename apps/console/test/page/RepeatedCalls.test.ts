import { createBowline, type PlanRequest } from "@bowline/client"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const pay = {
  name: "pay",
  input_schema: { type: "object", properties: { order: { type: "string" } }, required: ["order"] },
  effect: { key: ["/order"], scope: "caller" as const }
}

/** A gateway whose model pays the order that the question names: twice, if it says so. */
const paying = start((asked) => {
  const [order = "", times = "once"] = question(asked).split(" ")
  const isDone = results(asked).length >= (times === "twice" ? 2 : 1)
  return isDone ? [say("Paid.")] : [callTool("pay", { order })]
})

describeInBrowser("a call whose effect may be there already", () => {
  it.live("says which call it repeats, and what a doubt is about", () =>
    Effect.gen(function* () {
      const { url } = yield* paying
      const bowline = createBowline({ baseUrl: url })
      const asked = (question: string, more: Partial<PlanRequest> = {}) => ask(url, { question, tools: [pay], ...more })
      const waits = async () => {
        for (;;) {
          const [waiting] = (await bowline.waiting.list().page()).waiting
          if (waiting?.kind === "result") return waiting.task_id
        }
      }
      const { faults, page } = yield* openPage(url, "/waiting")
      const details = page.getByLabel("Details of the selected row")
      yield* Effect.promise(async () => {
        // Nobody gives a result in time, so that nobody knows what the call has done.
        const first = await asked("7", { preferences: { wait_timeout_ms: 1_000 } })
        await page.goto(`/plans/${first}`)
        await page.locator(".plan-head").getByText("completed").waitFor()
        const second = await asked("7")
        await page.goto("/waiting")
        const card = page.getByRole("article", { name: "Approval of pay" })
        await card.getByText("an earlier call may have done the same").waitFor()
        await card.getByText("The earlier call counts as done: nobody is asked about it again.").waitFor()
        assert.include(
          await card.getByRole("link", { name: /ago|now/ }).getAttribute("href"),
          `/plans/${first}?row=task-`
        )
        await card.getByRole("button", { name: /^Approve/ }).click()
        await bowline.inbox.send(second, { type: "result", task_id: await waits(), content: "receipt 1" })

        const third = await asked("7")
        await page.goto(`/plans/${third}`)
        await page.getByRole("row", { name: /^pay/ }).click()
        const told = await bowline.plans.get(second)
        await details.getByText(/It repeats [0-9a-f-]{36}/).waitFor()
        await details.getByText("What the model read of it").click()
        await details.getByText(`by ${told.plan_id}.`).waitFor()

        const twice = await asked("8 twice")
        await bowline.inbox.send(twice, { type: "result", task_id: await waits(), content: "receipt 2" })
        await page.goto(`/plans/${twice}`)
        await page.getByRole("row", { name: /^pay/ }).last().click()
        await details.getByText("It repeats the call in step 1").waitFor()
        await details.getByRole("button", { name: "the call in step 1" }).click()
        await details.getByText("receipt 2").waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
