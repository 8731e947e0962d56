import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { samples } from "../../src/ask/Samples.ts"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"

const row = (page: Page, name: RegExp) => page.getByRole("row", { name })
const state = (page: Page, state: string) => page.locator(".plan-head .state").getByText(state)

/** What somebody sees who has clicked on a sample, and what they do then. */
const stories: Readonly<Record<string, (page: Page) => Promise<void>>> = {
  "Two agents, one of them slow": async (page) => {
    await row(page, /slow_research/).waitFor()
    await page.locator(".answer .prose").getByText("Demo report, made in two seconds").waitFor()
  },
  "An agent that is stuck": async (page) => {
    await row(page, /stuck_deliberate/).waitFor()
    await page.getByRole("button", { name: "Cancel" }).click()
    await state(page, "aborted").waitFor()
  },
  "An answer that is taken back": async (page) => {
    await page.getByText("Retracted: step 1, attempt 1").waitFor()
    await state(page, "completed").waitFor()
  },
  "A call that needs your approval": async (page) => {
    await page
      .getByRole("article", { name: "Approval of prompt_look_up" })
      .getByRole("button", { name: /^Approve/ })
      .click()
    await page.locator(".answer .prose").getByText("Demo answer, given at once").waitFor()
  },
  "A history that gets too long": async (page) => {
    await row(page, /Compaction/).waitFor()
    await page.locator(".answer .prose").getByText("its head became a summary").waitFor()
  }
}

describeInBrowser("the sample questions of the demo", () => {
  it.live("show what they promise, each after one click", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url)
      assert.sameMembers(
        samples.map(({ title }) => title),
        Object.keys(stories)
      )
      yield* Effect.promise(async () => {
        for (const [title, tell] of Object.entries(stories)) {
          await page.goto("/")
          await page.getByRole("button", { name: title }).click()
          await page.waitForURL("**/plans/plan_*")
          await tell(page)
        }
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
