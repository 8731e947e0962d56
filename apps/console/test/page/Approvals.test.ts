import { createBowline } from "@bowline/client"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const sensitive = {
  question: "Ask prompt what a bowline is.",
  preset: "demo",
  preferences: { approval: "always" as const }
}

const card = (page: Page) => page.getByRole("article", { name: "Approval of prompt_look_up" })

/** The decisions that a page sends. */
const decisionsOf = (page: Page) => {
  const sent: Array<unknown> = []
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().includes("/approvals/")) sent.push(request.postDataJSON())
  })
  return sent
}

describeInBrowser("an approval", () => {
  it.live("is given by keyboard with its card focused, once, with the note that was typed", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const id = yield* Effect.promise(() => ask(url, sensitive))
      const { faults, page } = yield* openPage(url, "/approvals")
      const sent = decisionsOf(page)
      yield* Effect.promise(async () => {
        await card(page).waitFor()
        await page.waitForFunction(() => document.title.startsWith("(1) "))
        assert.include(await page.getByRole("link", { name: /^Approvals/ }).textContent(), "1")
        // What waits at another caller is not what was decided here.
        await page.getByLabel("Caller").fill("bob")
        await page.keyboard.press("Enter")
        await page.getByRole("heading", { name: "Nothing waits for a decision" }).waitFor()
        assert.strictEqual(await card(page).count(), 0)
        await page.getByLabel("Caller").fill("")
        await page.keyboard.press("Enter")
        await card(page).waitFor()
        await card(page).getByLabel("Note for the model").pressSequentially("are all")
        assert.deepStrictEqual(sent, [])
        await card(page).focus()
        await page.keyboard.type("arar")
        await card(page).getByText("Approved by anonymous: are all").waitFor()
        assert.deepStrictEqual(sent, [{ decision: "approve", note: "are all" }])
        await page.waitForFunction(() => !document.title.startsWith("("))
        await page.goto(`/plans/${id}`)
        await page.locator(".plan-head").getByText("completed").waitFor()
        await card(page).getByText("Approved by anonymous: are all").waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("that came too late says so in words, and who decided what", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const id = yield* Effect.promise(() => ask(url, sensitive))
      const { page } = yield* openPage(url, "/approvals")
      yield* Effect.promise(async () => {
        await card(page).waitFor()
        // From here on this tab hears nothing new, as over a slow network.
        let hold = true
        await page.route("**/approvals?*", async (route) => {
          while (hold) await page.waitForTimeout(50)
          await route.continue()
        })
        const bowline = createBowline({ baseUrl: url })
        const [waiting] = (await bowline.approvals.list().page()).approvals
        await bowline.plans.approve(id, waiting?.task_id ?? "", "approve", { note: "go on" })
        await card(page)
          .getByRole("button", { name: /^Reject/ })
          .click()
        await card(page).getByText("Your decision came too late").waitFor()
        hold = false
        await card(page).getByText("Approved by anonymous: go on").waitFor()
      })
    })
  )
})
