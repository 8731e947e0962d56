import { createBowline } from "@bowline/client"
import { wait } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const calls = Array.from({ length: 10 }, (_, step) =>
  Array.from({ length: 100 }, (_, call) => callTool("nothing_known", { step, call }))
)
const words = Array.from({ length: 8_000 }, (_, index) => say(`word${index} `))

/** As many deltas as a minute has at 200 a second, in a tenth of it: 600 paragraphs. */
const paragraphs = Array.from({ length: 600 }, (_, paragraph) => [
  wait("10 millis"),
  ...Array.from({ length: 20 }, (_, word) => say(word === 19 ? `end${paragraph}.\n\n` : "word "))
]).flat()

describeInBrowser("a large plan", () => {
  it.live("of 10,000 events is shown whole, with only the rows in view in the document", () =>
    Effect.gen(function* () {
      const { url } = yield* start([...calls, words])
      const preferences = { max_tool_calls: 1_000, max_steps: 100 }
      const id = yield* Effect.promise(() => ask(url, { question: "Much", preferences }))
      yield* Effect.promise(() => createBowline({ baseUrl: url }).attach(id).result())
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        await page.getByText("word7999").first().waitFor()
        const grid = page.locator('[role="treegrid"][aria-rowcount="1023"]')
        await grid.waitFor()
        assert.isBelow(await page.locator(".line").count(), 60)
        await grid.evaluate((box) => box.scrollTo(0, box.scrollHeight))
        await page.getByRole("row", { name: /Step 11/ }).waitFor()
        assert.isBelow(await page.locator(".line").count(), 60)
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("of 12,000 deltas leaves less than 20 MB behind in the tab that has watched it", () =>
    Effect.gen(function* () {
      const { url } = yield* start([paragraphs])
      const id = yield* Effect.promise(() => ask(url, { question: "Much" }))
      const { context, faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        const session = await context.newCDPSession(page)
        const heap = async () => {
          await session.send("HeapProfiler.collectGarbage")
          return (await session.send("Runtime.getHeapUsage")).usedSize / 1_000_000
        }
        await page.locator(".prose").getByText("end0.").waitFor()
        const before = await heap()
        await page.locator(".prose").getByText("end599.").waitFor({ timeout: 60_000 })
        await page.locator(".plan-head").getByText("completed").waitFor()
        assert.isBelow((await heap()) - before, 20)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
