import { assert, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"

describeInBrowser("the page of peers", () => {
  it.live("tries a tool by keyboard alone: the call is a plan, and its numbers are on the page", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url, "/peers")
      yield* Effect.promise(async () => {
        const row = page.locator("tbody tr", { hasText: "prompt" })
        await row.getByRole("cell", { name: "–" }).first().waitFor()
        await row.getByRole("button", { name: "Try a tool of prompt" }).focus()
        await page.keyboard.press("Enter")
        await page.waitForURL("**/peers?try=demo%2Fprompt")
        const input = page.getByLabel(/^input/)
        await input.waitFor()
        await page.reload()
        await page.getByRole("button", { name: "Call it" }).press("Enter")
        await page.getByRole("alert").getByText("input is needed.").waitFor()
        await input.fill("What is a bowline?")
        await page.getByRole("button", { name: "As JSON" }).press("Enter")
        const json = page.getByLabel("JSON", { exact: true })
        assert.deepStrictEqual(JSON.parse(await json.inputValue()), { input: "What is a bowline?" })
      })
      assert.deepStrictEqual(yield* findBarriers(page), [])
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Call it" }).press("Enter")
        await page.waitForURL(/\/plans\/plan_/)
        await page.getByRole("heading", { name: /^Try prompt_/ }).waitFor()
        await page.getByText("completed", { exact: true }).first().waitFor()
        await page.goBack()
        await page.getByRole("button", { name: "Close" }).click()
        const row = page.locator("tbody tr", { hasText: "prompt" })
        await expect.poll(() => row.locator("td[data-label='Calls of 24 h']").textContent()).toBe("1")
        assert.match((await row.locator("td[data-label='95 %']").textContent()) ?? "", /\d (ms|s)$/)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
