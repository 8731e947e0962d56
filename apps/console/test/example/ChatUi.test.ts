import * as GatewayProcess from "@bowline/testing/unstable/GatewayProcess"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { join } from "node:path"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"

const serve = join(import.meta.dirname, "../../../../examples/chat-ui/src/serve/main.ts")

describeInBrowser("the page of examples/chat-ui", () => {
  it.live("asks, lets the user approve a call, and comes back to a running answer after a reload", () =>
    Effect.gen(function* () {
      const gateway = yield* startDemo
      const { url } = yield* GatewayProcess.start(serve, { PATH: process.env["PATH"] ?? "", BOWLINE_URL: gateway.url })
      const { faults, page } = yield* openPage(url)
      const answers = page.getByRole("region", { name: "assistant" })
      const ask = async (question: string) => {
        await page.getByLabel("Question").fill(question)
        await page.getByRole("button", { name: "Ask", exact: true }).click()
      }
      yield* Effect.promise(async () => {
        await ask("Ask prompt what a bowline is.")
        await page.getByRole("button", { name: "Approve" }).click()
        await answers.getByText(/^Demo answer\. .*given at once, to: Ask prompt/).waitFor()
        await page.getByRole("status").getByText("ready").waitFor()

        await ask("Ask slow what a bowline is.")
        await page.getByRole("button", { name: "Approve" }).waitFor()
        // The page shows the decision before it has sent it.
        const taken = page.waitForResponse((response) => response.request().method() === "POST")
        // The call is there for two seconds: the page itself looks out for it.
        const responded = page.waitForFunction(() =>
          document.body.textContent.includes("slow_research approval-responded")
        )
        await page.getByRole("button", { name: "Approve" }).click()
        await responded
        await taken
        await page.reload()
        await answers
          .nth(1)
          .getByText(/^Demo answer\. .*made in two seconds, on: Ask slow/)
          .waitFor()
        await page.getByRole("status").getByText("ready").waitFor()
        assert.strictEqual(await answers.count(), 2)
        assert.strictEqual(await answers.getByText(/^Demo answer\./).count(), 2)

        await page.getByRole("button", { name: "Ask again" }).click()
        await page.getByRole("button", { name: "Reject" }).click()
        await answers.nth(1).getByText("slow_research output-denied").waitFor()
        await page.getByRole("status").getByText("ready").waitFor()
        assert.strictEqual(await page.getByRole("alert").count(), 0)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
