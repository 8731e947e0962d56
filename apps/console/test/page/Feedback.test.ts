import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

describeInBrowser("feedback", () => {
  it.live("is a thumb, and then why, which are there again after a reload, and find the plan", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("A bowline.")])
      const id = yield* Effect.promise(() => ask(url, { question: "Which knot?" }))
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        const thumb = (name: string) => page.getByRole("button", { name, exact: true })
        await thumb("Bad").focus()
        await page.keyboard.press("Enter")
        await page.locator("button[aria-pressed=true]", { hasText: "Bad" }).waitFor()
        await page.getByLabel("Why?").fill("Too short")
        let isStored = false
        const readAgain = page.waitForResponse((response) => {
          if (!response.url().endsWith("/feedback")) return false
          isStored ||= response.request().postData()?.includes("Too short") === true
          return isStored && response.request().method() === "GET"
        })
        await page.getByLabel("Why?").press("Enter")
        await readAgain
        await page.reload()
        await page.locator("button[aria-pressed=true]", { hasText: "Bad" }).waitFor()
        assert.strictEqual(await page.getByLabel("Why?").inputValue(), "Too short")
        assert.strictEqual(await thumb("Good").getAttribute("aria-pressed"), "false")
        await page.goto("/plans?feedback=negative")
        await page.getByRole("link", { name: "Which knot?" }).waitFor()
        await page.goto("/plans?feedback=positive")
        await page.locator(".empty").waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
