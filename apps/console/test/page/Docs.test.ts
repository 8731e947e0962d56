import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { promisify } from "node:util"
import { beforeAll } from "vitest"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"

/** Waits until the page's script has taken over what was served: only then it hears keys and clicks. */
const isInteractive = (page: Page) =>
  page.waitForFunction(() => {
    const app = document.querySelector("#app")
    return app !== null && "__vue_app__" in app
  })

beforeAll(() => promisify(execFile)(process.execPath, [join(import.meta.dirname, "../../../../.ci/pages.mjs")]))

describeInBrowser("the documentation", () => {
  it.live("is read and searched under the gateway's policy, in both themes, by everybody, and asks nobody else", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url, "/docs", { colorScheme: "light" })
      yield* Effect.promise(async () => {
        await page.getByRole("heading", { level: 1, name: "Bowline" }).waitFor()
        await page.getByRole("link", { name: "Run it", exact: true }).first().click()
        await page.waitForURL(`${url}/docs/start/run`)
        const string = page.locator("pre .token-string").first()
        assert.strictEqual(await string.evaluate((token) => getComputedStyle(token).color), "rgb(22, 101, 52)")

        await isInteractive(page)
        await page.keyboard.press("Control+k")
        // Decisions speak of leases more than anything else does.
        await page.getByRole("searchbox").fill("lease")
        const first = page.getByRole("option").first()
        await first.waitFor()
        const found = await page
          .locator("[role=option] a, a[role=option]")
          .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""))
        const firstDecision = found.findIndex((href) => href.includes("/decisions/"))
        const lastReference = found.findLastIndex((href) => /\/(start|reference)\//.test(href))
        assert.isAbove(found.length, 1)
        assert.isTrue(firstDecision === -1 || firstDecision > lastReference, found.join("\n"))
        await page.getByRole("searchbox").fill("circuit breaker")
        await page
          .getByRole("option", { name: /Circuit breaker/ })
          .first()
          .click()
        await page.waitForURL(/\/docs\/reference\/peers#circuit-breaker/)
        await page.getByRole("heading", { name: /Circuit breaker/ }).waitFor()
      })

      yield* Effect.promise(async () => {
        for (const [name, path] of [
          ["Console", "/"],
          ["API", "/docs/api"]
        ] as const) {
          await page.getByRole("link", { name, exact: true }).first().click()
          await page.waitForURL(url + path)
          await page.goBack()
          await isInteractive(page)
        }
      })

      const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
      const light = yield* Effect.promise(colour)
      const change = () => page.getByRole("switch").first().click()
      yield* Effect.promise(change)
      const dark = yield* Effect.promise(colour)
      assert.notStrictEqual(dark, light)
      yield* Effect.promise(async () => {
        await page.reload()
        await isInteractive(page)
      })
      assert.strictEqual(yield* Effect.promise(colour), dark)
      yield* Effect.promise(change)
      assert.strictEqual(yield* Effect.promise(colour), light)
      assert.deepStrictEqual(yield* findBarriers(page), [])
      yield* Effect.promise(() => page.emulateMedia({ colorScheme: "dark" }))
      assert.deepStrictEqual(yield* findBarriers(page, "colours"), [])
      assert.strictEqual(yield* Effect.promise(colour), dark)

      yield* Effect.promise(() => page.setViewportSize({ width: 360, height: 640 }))
      const width = yield* Effect.promise(() => page.evaluate(() => document.documentElement.scrollWidth))
      assert.isAtMost(width, 360)
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("has a page to read and try the API, for everybody, which asks nobody else either", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url, "/docs/api", { colorScheme: "light" })
      yield* Effect.promise(() => page.getByText("/plans/{id}/events").first().waitFor())
      const hosts = yield* Effect.promise(() =>
        page
          .locator("a[href^='http']:visible")
          .evaluateAll((links) => links.map((link) => new URL(link.getAttribute("href") ?? "").host))
      )
      assert.deepStrictEqual(hosts, [])
      yield* Effect.promise(async () => {
        const route = page.locator("article", { has: page.getByRole("heading", { name: "POST /plan", exact: true }) })
        await route.getByText("Try it").press("Enter")
        await route.getByRole("textbox", { name: "Body" }).fill(`{"question":"Who goes there?"}`)
        await route.getByRole("button", { name: "Send" }).press("Enter")
        await route
          .getByRole("status")
          .getByText(/^200 OK[^]*"state": "completed"/)
          .waitFor()
        const one = page.locator("article", {
          has: page.getByRole("heading", { name: "GET /plans/{id}", exact: true })
        })
        await one.getByText("Try it").click()
        await one.getByRole("textbox", { name: "id" }).fill("plan_nobody")
        await one.getByRole("button", { name: "Send" }).click()
        await one.getByRole("status").getByText(/^404/).waitFor()
        const lost = await page
          .locator("a[href^='#']")
          .evaluateAll((links) =>
            links
              .map((link) => (link.getAttribute("href") ?? "").slice(1))
              .filter((id) => document.getElementById(id) === null)
          )
        assert.deepStrictEqual(lost, [])
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page, colorScheme === "light" ? "all" : "colours"), [])
      }
      yield* Effect.promise(() => page.setViewportSize({ width: 360, height: 640 }))
      const width = yield* Effect.promise(() => page.evaluate(() => document.documentElement.scrollWidth))
      assert.isAtMost(width, 360)
      assert.deepStrictEqual(faults, [])
    })
  )
})
