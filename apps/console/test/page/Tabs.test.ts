import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect, Latch } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openBrowser } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const polls = (page: Page) => page.getByText("Other tabs use all live streams of this browser")

describeInBrowser("the tabs of a browser", () => {
  it.live("show eight running plans over one connection limit, and still load a ninth page", () =>
    Effect.gen(function* () {
      const latch = Latch.makeUnsafe(false)
      const { url } = yield* start(() => [say("It is "), until(Effect.asVoid(latch.await)), say("a knot.")])
      const ids = yield* Effect.promise(() =>
        Promise.all(Array.from({ length: 9 }, (_, n) => ask(url, { question: `What is knot ${n}?` })))
      )
      const { faults, openTab } = yield* openBrowser(url)
      const tabs: Array<Page> = []
      for (const [n, id] of ids.entries()) {
        const tab = yield* openTab(`/plans/${id}`)
        const hears = n < 4 ? tab.locator(".answer").getByText("It is") : polls(tab)
        yield* Effect.promise(() => hears.waitFor())
        tabs.push(tab)
      }
      const polling = yield* Effect.promise(() => Promise.all(tabs.map((tab) => polls(tab).count())))
      assert.deepStrictEqual(polling, [0, 0, 0, 0, 1, 1, 1, 1, 1])
      // They do not say that nothing has happened: they cannot know.
      assert.strictEqual(
        yield* Effect.promise(() => Promise.resolve(tabs.at(8)?.getByText("Shown when the plan is over.").count())),
        2
      )
      const list = yield* openTab("/plans")
      yield* Effect.promise(() => list.getByRole("link", { name: "What is knot 8?" }).waitFor())
      // A tab that is closed leaves its stream to one that waits.
      yield* Effect.promise(async () => {
        await tabs[0]?.close()
        await Promise.any(tabs.slice(4).map((tab) => polls(tab).waitFor({ state: "detached" })))
      })
      yield* latch.open
      yield* Effect.promise(() =>
        Promise.all(
          tabs.slice(1).map(async (tab) => {
            await tab.locator(".plan-head .state").getByText("completed").waitFor()
            await tab.locator(".answer .prose").getByText("It is a knot.").waitFor()
          })
        )
      )
      assert.deepStrictEqual(faults, [])
    })
  )
})
