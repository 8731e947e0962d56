import { createBowline } from "@bowline/client"
import * as Host from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

const secret = `whsec_${Buffer.alloc(24, 5).toString("base64")}`

describeInBrowser("the page of a plan with webhooks", () => {
  it.live("shows what each was told, and tells it once more, by keyboard, too", () =>
    Effect.gen(function* () {
      let isBack = false
      const { serve } = yield* Network
      const { url: hook } = yield* serve(() => Effect.sync(() => Host.text(isBack ? 204 : 410, "")))
      const { url } = yield* start(() => [say("Fine.")], { BOWLINE_ENV_ALLOW: "HOOK_SECRET", HOOK_SECRET: secret })
      const bowline = createBowline({ baseUrl: url })
      const plan = bowline.plan({
        question: "Tell them",
        webhooks: [{ url: `${hook}/orders`, secret_env_var: "HOOK_SECRET" }]
      })
      yield* Effect.promise(() => plan.result())
      const { faults, page } = yield* openPage(url, `/plans/${yield* Effect.promise(() => plan.planId)}`)
      yield* Effect.promise(async () => {
        const row = page.getByRole("region", { name: "Deliveries to webhooks" }).locator("tbody tr")
        await row.getByText("given up").waitFor()
        assert.strictEqual(await row.count(), 1)
        assert.match((await row.textContent()) ?? "", /plan\.completedhttp:.*\/orders1410–/)
        isBack = true
        await row.getByRole("button", { name: /^Try again plan.completed to .*\/orders$/ }).press("Enter")
        await row.getByText("delivered", { exact: true }).waitFor()
        assert.match((await row.textContent()) ?? "", /\/orders2204–/)
      })
      assert.deepStrictEqual(yield* findBarriers(page), [])
      assert.deepStrictEqual(faults, [])
      const without = bowline.plan({ question: "Tell nobody" })
      yield* Effect.promise(() => without.result())
      yield* Effect.promise(async () => {
        const asked = page.waitForResponse((response) => response.url().endsWith("/webhooks"))
        await page.goto(`/plans/${await without.planId}`)
        await asked
        await page.getByText("Fine.").first().waitFor()
        assert.strictEqual(await page.getByRole("heading", { name: "Webhooks" }).count(), 0)
      })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
