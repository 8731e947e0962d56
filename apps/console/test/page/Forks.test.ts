import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

describeInBrowser("a fork", () => {
  it.live("is started from a step by the keyboard, and stands beside its plan, with what differs", () =>
    Effect.gen(function* () {
      const script: Script = (asked) => {
        if (results(asked).length === 0) return [callTool("nothing_there", {})]
        return [say(asked.model === "other" ? "A sheet bend." : "A bowline.")]
      }
      const { url } = yield* start(script, { BOWLINE_ALLOWED_MODELS: "openai/other" })
      const id = yield* Effect.promise(() => ask(url, { question: "Which knot?" }))
      const { faults, page } = yield* openPage(url, `/plans/${id}?row=step-2`)
      yield* Effect.promise(async () => {
        await page.getByLabel("Model").focus()
        await page.keyboard.type("openai/other")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        const both = page.getByRole("region", { name: "Two plans side by side" })
        await both.getByRole("cell", { name: "A sheet bend." }).first().waitFor()
        const textOf = async (name: string) => both.getByRole("row", { name }).allInnerTexts()
        assert.match((await textOf("Answer ≠"))[0] ?? "", /A bowline\.\s+A sheet bend\./)
        // The steps in front of it are those of the plan, and the step itself stands beside that one.
        assert.lengthOf(await textOf("Step 1 ≠"), 0)
        assert.match((await textOf("Step 2 ≠"))[0] ?? "", /A bowline\.[^]+A sheet bend\./)
        const fork = await both.getByRole("columnheader").getByRole("link").nth(1).getAttribute("href")
        await page.goto(String(fork))
        await page.getByRole("link", { name: ", step 2" }).focus()
        await page.keyboard.press("Enter")
        await both.waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
