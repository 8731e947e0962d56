import { say } from "@bowline/testing/provider/Turn"
import { stall, until } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Layer } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

/** A gateway whose plans are over at once, but for long ones. The third of those goes on when its gate is open. */
class Listed extends Context.Service<Listed, { readonly url: string; readonly gate: Deferred.Deferred<void> }>()(
  "Listed"
) {
  static readonly layer = Layer.effect(
    Listed,
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const { url } = yield* start((asked) => {
        if (!question(asked).startsWith("Long")) return [say("Done.")]
        return question(asked) === "Long 3" ? [until(Deferred.await(gate)), say("Done.")] : [say("…"), stall]
      })
      return { url, gate }
    })
  )
}

describeInBrowser("the lists", () => {
  layer(Listed.layer, { excludeTestServices: true })((it) => {
    it.effect("keep their filters in the URL, for a reload and for Back", () =>
      Effect.gen(function* () {
        const { url } = yield* Listed
        yield* Effect.promise(() => ask(url, { question: "About ropes" }))
        yield* Effect.promise(() => ask(url, { question: "About knots" }))
        const { faults, page } = yield* openPage(url, "/plans")
        yield* Effect.promise(async () => {
          const rows = page.locator("tbody tr")
          await rows.nth(1).waitFor()
          await page.getByLabel("Question has").fill("knots")
          await page.keyboard.press("Enter")
          await page.waitForURL("**/plans?q=knots")
          await page.getByRole("link", { name: "About ropes" }).waitFor({ state: "detached" })
          await page.getByRole("link", { name: "About knots" }).waitFor()
          assert.strictEqual(await rows.count(), 1)
          await page.reload()
          await page.getByRole("link", { name: "About knots" }).click()
          await page.getByRole("heading", { name: "About knots", level: 1 }).waitFor()
          await page.goBack()
          await rows.first().waitFor()
          assert.strictEqual(await page.getByLabel("Question has").inputValue(), "knots")
          await page.getByRole("checkbox", { name: "failed" }).check()
          await page.getByRole("heading", { name: "No plan matches these filters" }).waitFor()
          await page.getByRole("link", { name: "Clear filters", exact: true }).click()
          await rows.nth(1).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("keep what is typed into a filter before the configuration has come", () =>
      Effect.gen(function* () {
        const { url } = yield* Listed
        const { faults, page } = yield* openPage(url, "/plans")
        const configuration = Promise.withResolvers<void>()
        yield* Effect.promise(async () => {
          await page.route("**/console/config", async (route) => {
            await configuration.promise
            await route.continue()
          })
          const isThere = page.waitForResponse("**/console/config")
          await page.reload()
          await page.getByLabel("Question has").fill("knots")
          configuration.resolve()
          await isThere
          await page.getByText("More filters").click()
          await page.getByLabel("Caller").waitFor()
          assert.strictEqual(await page.getByLabel("Question has").inputValue(), "knots")
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("cancel the selected plans at once, and count those that could not be cancelled", () =>
      Effect.gen(function* () {
        const { gate, url } = yield* Listed
        for (const question of ["Long 1", "Long 2", "Long 3"]) {
          yield* Effect.promise(() => ask(url, { question }))
        }
        const { faults, page } = yield* openPage(url, "/plans")
        const row = (question: string) => page.locator("tr", { hasText: question })
        yield* Effect.promise(async () => {
          await page.getByLabel("Select: Long 1").check()
          await page.getByLabel("Select: Long 3").check()
        })
        yield* Deferred.succeed(gate, undefined)
        yield* Effect.promise(async () => {
          await row("Long 3").getByText("completed").waitFor()
          assert.isTrue(await page.getByLabel("Select: Long 3").isChecked())
          await page.getByRole("button", { name: "Cancel 2 plans" }).click()
          await page.getByText("1 plan cancelled. 1 could not be cancelled.").waitFor()
          await row("Long 1").getByText("aborted").first().waitFor()
          assert.strictEqual(await row("Long 2").getByText("running").count(), 1)
          assert.strictEqual(await page.getByRole("button", { name: /^Cancel/ }).count(), 0)
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("select all that run and pass the filters, also those that the page does not show", () =>
      Effect.gen(function* () {
        const { url } = yield* Listed
        for (const question of ["Long way 1", "Long way 2", "Other way"]) {
          yield* Effect.promise(() => ask(url, { question }))
        }
        const { faults, page } = yield* openPage(url, "/plans?q=way")
        yield* Effect.promise(async () => {
          await page.getByRole("button", { name: "Select all that run" }).click()
          await page.getByText("2 plans selected.").waitFor()
          await page.getByRole("button", { name: "Cancel 2 plans" }).click()
          await page.getByText("2 plans cancelled.").waitFor()
          await page.getByRole("button", { name: "Select all that run" }).click()
          await page.getByText("None of them runs.").waitFor()
          await page.getByRole("checkbox", { name: "completed" }).check()
          await page.getByRole("button", { name: "Select all that run" }).waitFor({ state: "detached" })
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("look back from now, and narrow their time by the bars, by mouse and by keyboard", () =>
      Effect.gen(function* () {
        const { url } = yield* Listed
        yield* Effect.promise(() => ask(url, { question: "About time" }))
        const { faults, page } = yield* openPage(url, "/plans")
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "1 h", exact: true }).click()
          await page.waitForURL("**/plans?last=1h")
          const row = page.getByRole("link", { name: "About time" })
          await row.first().waitFor()
          const bars = page.getByRole("list", { name: "Plans by state, over time" })
          const box = await bars.boundingBox()
          if (box === null) return assert.fail("No bars")
          // The first half of the hour, in which nothing was asked.
          await page.mouse.move(box.x + 2, box.y + 10)
          await page.mouse.down()
          await page.mouse.move(box.x + box.width / 2, box.y + 10, { steps: 4 })
          await page.mouse.up()
          await page.waitForURL(/since=.*until=/)
          await page.getByRole("heading", { name: "No plan matches these filters" }).waitFor()
          assert.strictEqual(await page.getByLabel("Since").count(), 1)
          await page.goBack()
          await row.first().waitFor()
          await bars.locator("a[tabindex='0']").focus()
          await page.keyboard.press("Home")
          await page.keyboard.press("Enter")
          await page.getByRole("heading", { name: "No plan matches these filters" }).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("ask once for a page, however many rows it has", () =>
      Effect.gen(function* () {
        const { url } = yield* Listed
        for (const question of ["One", "Two", "Three"]) yield* Effect.promise(() => ask(url, { question }))
        const { page } = yield* openPage(url)
        yield* Effect.promise(async () => {
          // A tab that was looked at again has asked for what it shows; the next page is asked for once all the same.
          await page.evaluate(() => dispatchEvent(new Event("focus")))
          await page.getByRole("heading", { name: "Running now" }).waitFor()
          let asked: Array<string> | undefined = []
          page.on("request", (request) => {
            const { pathname, searchParams } = new URL(request.url())
            // What runs now is asked for every 2 s while it is shown.
            if (!searchParams.has("state")) asked?.push(pathname)
          })
          const answered = page.waitForResponse(/[/]plans[?]limit=50/)
          await page.getByRole("link", { name: "Plans", exact: true }).click()
          await answered
          const before = asked.filter((path) => path.startsWith("/plans"))
          asked = undefined
          await page.locator("tbody tr").nth(2).waitFor()
          assert.deepStrictEqual(before, ["/plans"])
        })
      })
    )
  })
})
