import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect, Latch } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_ADMIN_CALLERS: "bob" }

const dialog = (page: Page) => page.getByRole("dialog", { name: "Log in to Bowline" })

const logIn = async (page: Page, key: string) => {
  await dialog(page).getByLabel("Key").fill(key)
  await dialog(page).getByRole("button", { name: "Log in" }).click()
}

/** Everything that a script of the page, or whoever sits at the browser next, could find the key in. */
const kept = (page: Page) =>
  page.evaluate(() =>
    JSON.stringify([
      document.cookie,
      Object.entries(localStorage),
      Object.entries(sessionStorage),
      location.href,
      document.body.innerHTML
    ])
  )

describeInBrowser("a login", () => {
  it.live("shows a caller what is theirs, and leaves the key nowhere", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const { context, faults, page } = yield* openPage(url, "/plans")
      yield* Effect.promise(async () => {
        await dialog(page).waitFor()
        await logIn(page, "key-of-nobody")
        await dialog(page).getByRole("alert").getByText("does not know this key").waitFor()
        assert.strictEqual(await dialog(page).getByLabel("Key").inputValue(), "")
        await page.keyboard.press("Escape")
        assert.isTrue(await dialog(page).isVisible())
      })
      assert.deepStrictEqual(yield* findBarriers(page), [])
      yield* Effect.promise(async () => {
        await logIn(page, "key-of-ann")
        await dialog(page).waitFor({ state: "detached" })
        await page.getByTitle("Logged in as").getByText("ann").waitFor()
        await page.locator(".empty").waitFor()
        assert.strictEqual(await page.getByRole("link", { name: "Credentials" }).count(), 0)
        assert.notInclude(await kept(page), "key-of-ann")
        const [cookie] = await context.cookies()
        assert.deepInclude(cookie, { name: "bowline", httpOnly: true, sameSite: "Strict", path: "/" })
        assert.notInclude(await kept(page), cookie?.value ?? "a cookie")
        // A tab that did not learn who it is asks again.
        let refusals = 3
        await page.route("**/console/config", (route) =>
          refusals-- > 0 ? route.fulfill({ status: 503 }) : route.continue()
        )
        await page.goto("/credentials")
        await page.getByTitle("Logged in as").getByText("ann").waitFor()
        await page.getByText(/admin/).first().waitFor()
        await page.getByRole("button", { name: "Log out" }).click()
        await dialog(page).waitFor()
        assert.deepStrictEqual(await context.cookies(), [])
        await logIn(page, "key-of-bob")
        await page.getByRole("link", { name: "Credentials" }).waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live(
    "that has ended is asked for over the view, and one tab begins and ends it for all, which go on where they were",
    () =>
      Effect.gen(function* () {
        const latch = Latch.makeUnsafe(false)
        const { url } = yield* start(() => [say("It is "), until(Effect.asVoid(latch.await)), say("a knot.")], keys)
        const { context, faults, openTab } = yield* openBrowser(url)
        const page = yield* openTab("/")
        yield* Effect.promise(async () => {
          await logIn(page, "key-of-ann")
          await dialog(page).waitFor({ state: "detached" })
          await page.getByLabel("Question").fill("What is a bowline?")
          await page.getByRole("button", { name: "Ask", exact: true }).click()
          await page.waitForURL("**/plans/plan_*")
          await page.locator(".answer").getByText("It is").waitFor()
        })
        const other = yield* openTab(page.url())
        yield* Effect.promise(async () => {
          await other.locator(".answer").getByText("It is").waitFor()
          // As after 12 hours: the cookie is there, and means nothing any more.
          const [cookie] = await context.cookies()
          const headers = { cookie: `bowline=${cookie?.value}`, origin: url }
          assert.strictEqual((await fetch(`${url}/console/session`, { method: "DELETE", headers })).status, 204)
          for (const tab of [page, other]) {
            await tab.evaluate(() => dispatchEvent(new Event("focus")))
            await dialog(tab).waitFor()
            await tab.locator(".answer").getByText("It is").waitFor()
          }
        })
        yield* latch.open
        yield* Effect.promise(async () => {
          await logIn(page, "key-of-ann")
          for (const tab of [page, other]) {
            await tab.bringToFront()
            await dialog(tab).waitFor({ state: "detached" })
            await tab.locator(".answer .prose").getByText("It is a knot.").waitFor()
            await tab.locator(".plan-head .state").getByText("completed").waitFor()
          }
          await other.getByRole("button", { name: "Log out" }).click()
          for (const tab of [page, other]) {
            await dialog(tab).waitFor()
            await tab.locator(".answer").waitFor({ state: "detached" })
          }
        })
        assert.deepStrictEqual(faults, [])
      })
  )
})
