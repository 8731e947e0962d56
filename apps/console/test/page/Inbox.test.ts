import { createBowline } from "@bowline/client"
import { type Asked, question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"
import { withoutTimes } from "./Routes.ts"

const tool = {
  name: "pay",
  input_schema: {
    type: "object",
    properties: { amount: { type: "integer", maximum: 100, description: "In EUR" } },
    required: ["amount"],
    additionalProperties: false
  },
  approval: "always" as const
}

const isAsked = (asked: Asked) => question(asked) === "Pay twice."

describeInBrowser("a plan that somebody talks to", () => {
  it.live("shows what it has heard, takes back what it has not, and hears a word at once", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0
          ? [callTool("pay", { amount: 7 })]
          : [say(`Heard ${asked.messages.length} messages.`)]
      )
      const id = yield* Effect.promise(() => ask(url, { question: "Pay.", tools: [{ ...tool, approval: "never" }] }))
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      const box = page.getByLabel("Say to the plan")
      const said = page.getByRole("list", { name: "Said to the plan" })
      yield* Effect.promise(async () => {
        await box.fill("Only once.")
        await page.keyboard.press("Control+Enter")
        await said.getByText("anonymous, waits for the next step").waitFor()
        await box.fill("And never again.")
        await page.getByLabel("Heard").selectOption("now")
        await page.getByRole("button", { name: "Say it" }).press("Enter")
        await said.getByText("And never again.", { exact: true }).waitFor()
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page), [])
      }
      yield* Effect.promise(async () => {
        await said.getByRole("button", { name: /^Take back.*And never again/ }).press("Enter")
        await said.getByText("anonymous, taken back").waitFor()
        await page.getByLabel("The call has failed").check()
        await page.getByRole("button", { name: "Give the result" }).click()
        await said.getByText("anonymous, heard in step 2").waitFor()
        assert.strictEqual(await said.getByRole("button").count(), 0)
        await expect(withoutTimes(await said.ariaSnapshot())).toMatchFileSnapshot("golden/said.aria.yml")
        const answer = await page.request.get(`/plans/${id}/inbox`, { headers: { accept: "application/json" } })
        const entries = Array.from(
          (await answer.text()).matchAll(/"type":"(\w+)".*?"state":"(\w+)"/g),
          ([, ...of]) => of
        )
        assert.deepStrictEqual(entries, [
          ["text", "taken"],
          ["text", "withdrawn"],
          ["result", "taken"]
        ])
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("is approved with other arguments, which match the schema, and asks no more in that plan", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) => {
        const told = results(asked).length
        return told < (isAsked(asked) ? 2 : 1) ? [callTool("pay", { amount: 7 + told })] : [say("Paid.")]
      })
      const id = yield* Effect.promise(() => ask(url, { question: "Pay twice.", tools: [tool] }))
      const { faults, page } = yield* openPage(url, "/approvals")
      const card = page.getByRole("article", { name: "Approval of pay" })
      yield* Effect.promise(async () => {
        await card.getByText("anonymous asked").waitFor()
        await card.getByText("Change the arguments").press("Enter")
        await card.getByLabel(/^amount/).fill("700")
        await card.getByRole("button", { name: /^Approve/ }).press("Enter")
        await card
          .getByRole("alert")
          .getByText(/amount/)
          .waitFor()
        await card.getByLabel(/^amount/).fill("5")
        await card.getByLabel("Next time").selectOption("plan")
        await card.getByText("with exactly your arguments").waitFor()
        await expect(withoutTimes(await card.ariaSnapshot())).toMatchFileSnapshot("golden/changed.aria.yml")
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page), [])
      }
      yield* Effect.promise(async () => {
        await card.getByRole("button", { name: /^Approve/ }).press("Enter")
        await card.getByText(/Approved by anonymous|You approved it/).waitFor()
        await page.goto(`/plans/${id}`)
        const result = page.getByRole("article", { name: "Result of pay" })
        await result.getByText("5", { exact: true }).first().waitFor()
        await result.getByLabel("Result").fill("done")
        await result.getByRole("button", { name: "Give the result" }).click()
        await result.getByText("8", { exact: true }).first().waitFor()
        assert.deepStrictEqual((await createBowline({ baseUrl: url }).approvals.list().page()).approvals, [])
        await createBowline({ baseUrl: url }).plans.cancel(id)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
