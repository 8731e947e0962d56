import { createBowline } from "@bowline/client"
import { assert, expect, it } from "@effect/vitest"
import { callTool, error, say } from "@bowline/testing/provider/Turn"
import { question, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const script: Script = (asked) => {
  if (question(asked).includes("refused")) return [error(400)]
  if (question(asked).includes("recipe") && results(asked).length === 0) return [callTool("recipes_list", {})]
  return [say("A knot.")]
}

const over = async (url: string, questions: ReadonlyArray<string>): Promise<void> => {
  for (const question of questions) {
    const planId = await ask(url, { question })
    for await (const frame of createBowline({ baseUrl: url }).attach(planId)) if (frame.event === "done") break
  }
}

/** The number of plans of the list that is shown, once it is there. */
const listed = async (page: Page): Promise<number> => {
  await page.locator("main h1", { hasText: "Plans" }).waitFor()
  await page.locator("table.list tbody tr").first().waitFor()
  return page.locator("table.list tbody tr").count()
}

describeInBrowser("the overview", () => {
  it.live("leads from each number to the plans that it counts", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script)
      yield* Effect.promise(() => over(url, ["one", "two", "refused", "refused again", "refused once more"]))
      const { faults, page } = yield* openPage(url, "/overview")
      yield* Effect.promise(async () => {
        const fact = (name: string) => page.locator(".facts > div", { hasText: name }).getByRole("link")
        const numbers = [
          ["Plans", 5],
          ["completed", 2],
          ["failed", 3]
        ] as const
        for (const [name, expected] of numbers) {
          await expect.poll(() => fact(name).textContent()).toBe(String(expected))
          await fact(name).click()
          await expect.poll(() => listed(page)).toBe(expected)
          await page.goBack()
        }
        const reasons = page.getByRole("region", { name: "Why plans did not complete" })
        await reasons.getByRole("link", { name: "3" }).click()
        await expect.poll(() => listed(page)).toBe(3)
        assert.include(page.url(), "error_code=provider_bad_request")
        await page.goBack()
        const models = page.getByRole("region", { name: "Cost by model" })
        await models.getByRole("link", { name: "5" }).click()
        await expect.poll(() => listed(page)).toBe(5)
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("shows plans over time as bars, which a drag or the keyboard narrows, and Back widens again", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script)
      yield* Effect.promise(() => over(url, ["one", "refused"]))
      const { faults, page } = yield* openPage(url, "/overview?last=1h")
      yield* Effect.promise(async () => {
        const bars = page.getByRole("list", { name: "Plans by state, over time" })
        await bars
          .getByRole("link", { name: /1 completed/ })
          .first()
          .waitFor()
        // The bars are one stop of the Tab key, the newest one first.
        assert.strictEqual(await bars.locator("a[tabindex='0']").count(), 1)
        await bars.locator("a[tabindex='0']").focus()
        for (let step = 0; step < 3; step++) await page.keyboard.press("Shift+ArrowLeft")
        assert.strictEqual(await bars.locator("li.chosen").count(), 4)
        await page.keyboard.press("Enter")
        await expect.poll(() => new URL(page.url()).searchParams.get("since")).not.toBeNull()
        await bars
          .getByRole("link", { name: /1 completed/ })
          .first()
          .waitFor()
        await page.goBack()
        assert.strictEqual(new URL(page.url()).search, "?last=1h")

        const box = await bars.boundingBox()
        if (box === null) return assert.fail("No bars")
        await page.mouse.move(box.x + box.width - 40, box.y + 10)
        await page.mouse.down()
        await page.mouse.move(box.x + box.width - 5, box.y + 20, { steps: 5 })
        await page.mouse.up()
        await expect.poll(() => new URL(page.url()).searchParams.get("until")).not.toBeNull()
        assert.strictEqual(new URL(page.url()).pathname, "/overview")
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("shows a caller what is the caller's, and an admin also the replicas", () =>
    Effect.gen(function* () {
      const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }
      const { url } = yield* start(script, keys)
      const client = createBowline({ baseUrl: url, apiKey: "key-of-root" })
      yield* Effect.promise(() => client.plan({ question: "one" }).result())
      for (const [key, count, replicas] of [
        ["key-of-ann", "0", 0],
        ["key-of-root", "1", 1]
      ] as const) {
        const { page } = yield* openPage(url, "/overview")
        yield* Effect.promise(async () => {
          await page.getByLabel("Key").fill(key)
          await page.getByRole("button", { name: "Log in" }).click()
          const plans = page.locator(".facts > div", { hasText: "Plans" }).getByRole("link")
          await expect.poll(() => plans.textContent()).toBe(count)
          assert.strictEqual(await page.getByRole("heading", { name: "Replicas" }).count(), replicas)
        })
      }
    })
  )
})
