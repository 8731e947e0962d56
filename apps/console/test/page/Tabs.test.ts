import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect, Latch } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openBrowser } from "../browser/Browser.ts"
import { start, startDemo } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const card = (page: Page) => page.getByRole("article", { name: /^Approval of / })

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
      for (const id of ids) {
        const tab = yield* openTab(`/plans/${id}`)
        yield* Effect.promise(() => tab.getByRole("button", { name: "Cancel" }).waitFor())
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

  it.live("all show who decided about a call, in this browser and in another one", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const request = {
        question: "Ask prompt what a bowline is.",
        preset: "demo",
        preferences: { approval: "always" as const }
      }
      const id = yield* Effect.promise(() => ask(url, request))
      const [mine, other] = [yield* openBrowser(url), yield* openBrowser(url)]
      const deciding = yield* mine.openTab("/approvals")
      const watching = [yield* mine.openTab(`/plans/${id}`), yield* other.openTab("/approvals")]
      yield* Effect.promise(async () => {
        for (const tab of [deciding, ...watching]) await card(tab).waitFor()
        await card(deciding).getByLabel("Note for the model").fill("too costly")
        await card(deciding)
          .getByRole("button", { name: /^Reject/ })
          .click()
        for (const tab of watching) {
          await card(tab).getByText("Rejected by anonymous: too costly").waitFor()
          assert.strictEqual(
            await card(tab)
              .getByRole("button", { name: /^Approve/ })
              .count(),
            0
          )
        }
      })
      assert.deepStrictEqual([...mine.faults, ...other.faults], [])
    })
  )
})
