import { stall } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,root=key-of-root", BOWLINE_ADMIN_CALLERS: "root" }

const form = (page: Page) => page.getByRole("dialog", { name: "Log in to Bowline" })

const logIn = async (page: Page, key: string) => {
  await form(page).getByLabel("Key").fill(key)
  await page.keyboard.press("Enter")
}

describeInBrowser("the login", () => {
  it.live("stands over the page that was asked for, refuses a wrong key in words, and goes on with a right one", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const { context, faults, page } = yield* openPage(url, "/plans?state=failed")
      yield* Effect.promise(async () => {
        await logIn(page, "key-of-nobody")
        await form(page).getByText("The gateway does not know this key.").waitFor()
        await logIn(page, "key-of-ann")
        await form(page).waitFor({ state: "detached" })
        await page.getByRole("heading", { name: "No plan matches these filters" }).waitFor()
        assert.isTrue(page.url().endsWith("/plans?state=failed"))
        // The key is not kept: not in the URL, in storage or in a cookie that scripts can read.
        const kept = await page.evaluate(() => [document.cookie, localStorage.length, sessionStorage.length])
        assert.deepStrictEqual(kept, ["", 0, 0])
        assert.deepStrictEqual(
          (await context.cookies()).map(({ httpOnly, sameSite }) => [httpOnly, sameSite]),
          [[true, "Strict"]]
        )
        await page.getByText("ann", { exact: true }).waitFor()
        assert.strictEqual(await page.getByRole("link", { name: "Credentials" }).count(), 0)
        await page.goto("/credentials")
        await page.getByText("This page is for callers marked").waitFor()
        await page.getByRole("button", { name: "Log out" }).click()
        await logIn(page, "key-of-root")
        await page.getByRole("link", { name: "Credentials" }).click()
        await page.getByRole("heading", { name: "Credentials" }).waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("comes over a plan whose login has ended, and the plan goes on where it was", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("So far so good."), stall]], keys)
      const { context, faults, page } = yield* openPage(url)
      yield* Effect.promise(async () => {
        await logIn(page, "key-of-ann")
        await form(page).waitFor({ state: "detached" })
        await page.getByLabel("Question").fill("Go on?")
        await page.getByRole("button", { name: "Ask", exact: true }).click()
        await page.locator(".prose").getByText("So far so good.").waitFor()
        await context.clearCookies()
        await page.evaluate(() => dispatchEvent(new Event("focus")))
        await form(page).waitFor()
        assert.strictEqual(await page.locator(".prose").textContent(), "So far so good.")
        await logIn(page, "key-of-ann")
        await form(page).waitFor({ state: "detached" })
        await page.getByRole("button", { name: "Cancel" }).click()
        await page.getByText("aborted: cancelled").waitFor()
        assert.strictEqual(await page.locator(".bar.tone-running").count(), 0)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
