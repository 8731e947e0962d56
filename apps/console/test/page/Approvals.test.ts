import { createBowline } from "@bowline/client"
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const sensitive = {
  question: "Ask prompt what a bowline is.",
  preset: "demo",
  preferences: { approval: "always" as const }
}

const card = (page: Page) => page.getByRole("article", { name: "Approval of prompt_look_up" })

/** The decisions that a page sends. */
const decisionsOf = (page: Page) => {
  const sent: Array<unknown> = []
  page.on("request", (request) => {
    if (request.method() === "POST" && request.url().includes("/approvals/")) sent.push(request.postDataJSON())
  })
  return sent
}

/** A demo. Every test decides about all that it has asked. */
class Asked extends Context.Service<Asked, { readonly url: string }>()("Asked") {
  static readonly layer = Layer.effect(Asked, startDemo)
}

describeInBrowser("an approval", () => {
  layer(Asked.layer, { excludeTestServices: true })((it) => {
    it.effect("is given by keyboard with its card focused, once, with the note that was typed", () =>
      Effect.gen(function* () {
        const { url } = yield* Asked
        const id = yield* Effect.promise(() => ask(url, sensitive))
        const { faults, page } = yield* openPage(url, "/approvals")
        const sent = decisionsOf(page)
        yield* Effect.promise(async () => {
          await card(page).waitFor()
          await page.waitForFunction(() => document.title.startsWith("(1) "))
          assert.include(await page.getByRole("link", { name: /^Waiting/ }).textContent(), "1")
          // What waits at another caller is not what was decided here.
          await page.getByLabel("Caller").fill("bob")
          await page.keyboard.press("Enter")
          await page.getByRole("heading", { name: "Nothing waits for a decision" }).waitFor()
          assert.strictEqual(await card(page).count(), 0)
          await page.getByLabel("Caller").fill("")
          await page.keyboard.press("Enter")
          await card(page).waitFor()
          await card(page).getByLabel("Note for the model").pressSequentially("are all")
          assert.deepStrictEqual(sent, [])
          await card(page).focus()
          await page.keyboard.type("arar")
          await card(page).getByText("Approved by anonymous: are all").waitFor()
          assert.deepStrictEqual(sent, [{ decision: "approve", note: "are all" }])
          await page.waitForFunction(() => !document.title.startsWith("("))
          await page.goto(`/plans/${id}`)
          await page.locator(".plan-head").getByText("completed").waitFor()
          await card(page).getByText("Approved by anonymous: are all").waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("that came too late says so in words, and who decided what", () =>
      Effect.gen(function* () {
        const { url } = yield* Asked
        const id = yield* Effect.promise(() => ask(url, sensitive))
        const { page } = yield* openPage(url, "/approvals")
        yield* Effect.promise(async () => {
          await card(page).waitFor()
          // From here on this tab hears nothing new, as over a slow network.
          const asked = Promise.withResolvers<void>()
          const held = Promise.withResolvers<void>()
          await page.route("**/waiting?*", async (route) => {
            asked.resolve()
            await held.promise
            await route.continue()
          })
          // What it has asked before is answered.
          await asked.promise
          const bowline = createBowline({ baseUrl: url })
          const [waiting] = (await bowline.approvals.list().page()).approvals
          await bowline.plans.approve(id, waiting?.task_id ?? "", "approve", { note: "go on" })
          await card(page)
            .getByRole("button", { name: /^Reject/ })
            .click()
          await card(page).getByText("Your decision came too late").waitFor()
          held.resolve()
          await card(page).getByText("Approved by anonymous: go on").waitFor()
        })
      })
    )

    it.effect("is shown with who decided in all tabs of this browser and of another one", () =>
      Effect.gen(function* () {
        const { url } = yield* Asked
        const id = yield* Effect.promise(() => ask(url, sensitive))
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

    it.effect("comes in the order in which it waits: those behind the first page come up when others are decided", () =>
      Effect.gen(function* () {
        const { url } = yield* Asked
        const bowline = createBowline({ baseUrl: url })
        const first = yield* Effect.promise(() => ask(url, sensitive))
        const { context, faults, page } = yield* openPage(url)
        yield* Effect.promise(async () => {
          // As if there were a hundred times as many.
          await context.route("**/waiting?*", (route) =>
            route.continue({ url: route.request().url().replace("limit=200", "limit=2") })
          )
          await page.goto("/approvals")
          const approve = page.getByRole("button", { name: /^Approve/ })
          await approve.waitFor()
          for (let more = 1; more <= 2; more++) await ask(url, sensitive)
          await page.waitForFunction(() => document.title.startsWith("(2+) "))
          assert.strictEqual(await approve.count(), 2)
          const oldest = card(page).filter({ has: page.locator(`a[href="/plans/${first}"]`) })
          for await (const { plan_id, task_id } of bowline.approvals.list()) {
            if (plan_id === first) await bowline.plans.approve(first, task_id, "approve", { note: "at last" })
          }
          await oldest.getByText("Approved by anonymous: at last").waitFor()
          await expect.poll(() => card(page).count()).toBe(3)
          assert.strictEqual(await approve.count(), 2)
          for await (const { plan_id, task_id } of bowline.approvals.list()) {
            await bowline.plans.approve(plan_id, task_id, "reject")
          }
        })
        assert.deepStrictEqual(faults, [])
      })
    )
  })
})
