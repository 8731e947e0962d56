import { callTool, finish, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { createBowline } from "@bowline/client"
import { Effect } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const calls = Array.from({ length: 10 }, (_, step) =>
  Array.from({ length: 100 }, (_, call) => callTool("nothing_known", { step, call }))
)
const words = Array.from({ length: 8_000 }, (_, index) => say(`word${index} `))

describeInBrowser("a plan of 10,000 events", () => {
  it.live("is shown whole, with only the rows in view in the document", () =>
    Effect.gen(function* () {
      const { url } = yield* start([...calls, [...words, finish("stop")]])
      const preferences = { max_tool_calls: 1_000, max_steps: 100 }
      const id = yield* Effect.promise(() => ask(url, { question: "Much", preferences }))
      yield* Effect.promise(() => createBowline({ baseUrl: url }).attach(id).result())
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        await page.getByText("word7999").first().waitFor()
        const grid = page.getByRole("treegrid")
        await page.locator('[aria-rowcount="1023"]').waitFor()
        assert.isBelow(await page.locator(".line").count(), 60)
        await grid.evaluate((box) => box.scrollTo(0, box.scrollHeight))
        await page.getByRole("row", { name: /Step 11/ }).waitFor()
        assert.isBelow(await page.locator(".line").count(), 60)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
