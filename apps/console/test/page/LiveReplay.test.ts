import { createBowline } from "@bowline/client"
import { cut, stall, until } from "@bowline/testing/http/Move"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say } from "@bowline/testing/provider/Turn"
import { assert, expect, it } from "@effect/vitest"
import { Effect, Latch } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const tool = { name: "pay", input_schema: { type: "object", properties: { amount: { type: "integer" } } } }

/** A clock that stands: what ticks shows the same, whenever it is looked at. */
const stopClock = async (page: Page) => {
  await page.addInitScript({
    content: `const read = Headers.prototype.get
Headers.prototype.get = function (name) { return name === "date" ? null : read.call(this, name) }`
  })
  await page.clock.setFixedTime(Date.now() + 60_000)
}

const spoken = (page: Page) => page.locator("main > .unseen[aria-live]").textContent()

/** What a person gets of the page. What a screen reader has said aloud is not said again. */
const seen = async (page: Page) => ({
  read: (await page.locator("main").ariaSnapshot()).replace(`  - text: ${await spoken(page)}\n`, ""),
  bars: await page.locator(".track .bar").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("style")))
})

/** How each plan begins, what somebody does while it runs, and what the page says when it has become what it is about. */
const cases = [
  { becomes: "failed", tools: [], shown: "failed" },
  { becomes: "aborted", tools: [], shown: "aborted" },
  {
    becomes: "waiting for an approval",
    tools: [{ ...tool, approval: "always" as const }],
    shown: "waits for approval"
  },
  { becomes: "waiting for a result", tools: [tool], shown: "waits for an answer" }
]

describeInBrowser("a plan that was watched, and is opened again", () => {
  for (const { becomes, shown, tools } of cases) {
    it.live(`is the same to the pixel and to the word: ${becomes}`, () =>
      Effect.gen(function* () {
        const latch = Latch.makeUnsafe(false)
        const seenBy = until(Effect.asVoid(latch.await))
        let turns = 0
        const { url } = yield* start(
          (asked) => {
            if (question(asked) === "failed") {
              return turns++ === 0 ? [say("Half an "), seenBy, cut] : [error(400, { message: "No such model" })]
            }
            if (question(asked) === "aborted") return [say("Half an answer."), seenBy, stall]
            return results(asked).length > 0 ? [say("Paid.")] : [say("I pay."), seenBy, callTool("pay", { amount: 7 })]
          },
          { BOWLINE_RETRY_BASE: "1ms" }
        )
        const bowline = createBowline({ baseUrl: url })
        const { faults, page } = yield* openPage(url, "/plans")
        const id = yield* Effect.promise(async () => {
          await stopClock(page)
          const id = await ask(url, { question: becomes, tools })
          await page.goto(`/plans/${id}`)
          await page
            .locator(".answer")
            .getByText(/Half an|I pay/)
            .waitFor()
          await bowline.inbox.send(id, { type: "text", text: "Only once." })
          await page.getByText("waits for the next step").waitFor()
          return id
        })
        yield* latch.open
        yield* Effect.promise(async () => {
          if (becomes === "aborted") await bowline.plans.cancel(id)
          await page.locator(".plan-head .state").getByText(shown).waitFor()
          if (shown === "waits for an answer") await page.getByRole("article", { name: "Result of pay" }).waitFor()
          // The code of the details comes when they are shown first.
          await expect.poll(() => page.getByText("Loading…").count()).toBe(0)
          await page.mouse.move(0, 0)
          await page.evaluate(() => document.activeElement instanceof HTMLElement && document.activeElement.blur())
          const live = await seen(page)
          const pixels = await page.locator("main").screenshot()
          await page.reload()
          await expect.poll(() => seen(page)).toEqual(live)
          await expect.poll(async () => pixels.equals(await page.locator("main").screenshot())).toBe(true)
          if (shown.startsWith("waits")) await bowline.plans.cancel(id)
        })
        assert.deepStrictEqual(faults, [])
      })
    )
  }
})
