import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { checkAccessible, describeInBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"

describeInBrowser("the page", () => {
  it.live("starts", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url)
      yield* checkAccessible(page)
      assert.deepStrictEqual(faults, [])
    })
  )
})
