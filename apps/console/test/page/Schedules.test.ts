import { createBowline } from "@bowline/client"
import { say } from "@bowline/testing/provider/Turn"
import { assert, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

describeInBrowser("the pages of schedules", () => {
  it.live("list them, pause and fire them by keyboard, show what became of them, and delete them", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Two slipped.")])
      const bowline = createBowline({ baseUrl: url })
      const { faults, page } = yield* openPage(url, "/schedules")
      yield* Effect.promise(async () => {
        await page.getByRole("heading", { name: "No schedules yet" }).waitFor()
        for (const name of ["nightly", "weekly"]) {
          const when = { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" }
          await bowline.schedules.create({ name, when, plan: { question: `Which knots slipped? (${name})` } })
        }
        await page.reload()
        const row = page.getByRole("row", { name: /nightly/ })
        await row.getByText("active").waitFor()
        await row.getByText("0 9 * * 1-5 (Europe/Berlin)").waitFor()
        await row.getByText(/^in \d+ (days|h|min|s)$/).waitFor()

        await row.getByRole("button", { name: "Pause nightly" }).press("Enter")
        await row.getByText("paused").waitFor()
        assert.isTrue((await bowline.schedules.list().page()).schedules.find(({ name }) => name === "nightly")?.paused)
        await row.getByRole("button", { name: "Resume nightly" }).press("Space")
        await row.getByText("active").waitFor()

        await row.getByRole("button", { name: "Fire now nightly" }).press("Enter")
        await page.waitForURL("**/plans/plan_*")
        await page.getByText("Two slipped.").first().waitFor()
        await page.goBack()
        await row.getByRole("link", { name: /^Plan of nightly, / }).waitFor()
        await row.getByRole("link", { name: "nightly", exact: true }).press("Enter")
        await page.getByRole("heading", { level: 1, name: "nightly" }).waitFor()
        assert.strictEqual(await page.title(), "nightly · Bowline")
        const firing = page.getByRole("region", { name: "Firings" }).locator("tbody tr")
        await firing.getByText("started").waitFor()
        assert.strictEqual(await firing.count(), 1)
        await page.getByText("Which knots slipped? (nightly)").first().waitFor()
      })
      assert.deepStrictEqual(yield* findBarriers(page), [])
      yield* Effect.promise(async () => {
        page.once("dialog", (dialog) => void dialog.dismiss())
        await page.getByRole("button", { name: "Delete" }).click()
        assert.strictEqual((await bowline.schedules.list().page()).schedules.length, 2)
        page.once("dialog", (dialog) => void dialog.accept())
        await page.getByRole("button", { name: "Delete" }).click()
        await page.waitForURL("**/schedules")
        await expect.poll(() => page.getByRole("region", { name: "Schedules" }).locator("tbody tr").count()).toBe(1)
        await page.goto("/schedules/schedule_00000000-0000-4000-8000-000000000000")
        await page.getByRole("heading", { name: "There is no such schedule" }).waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
