import { createBowline } from "@bowline/client"
import { assert, expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { SupportDesk } from "../pictures/SupportDesk.ts"

const details = (page: Page) => page.getByLabel("Details of the selected row")

const fact = (page: Page, name: string) =>
  details(page)
    .locator(".facts > div")
    .filter({ has: page.getByText(name, { exact: true }) })
    .locator("dd")

/** The page of the desk with this name. */
const pathOf = (routes: SupportDesk["Service"]["routes"], name: string): string =>
  routes.find((route) => route.name === name)?.path ?? ""

describeInBrowser("the console at a support desk", () => {
  layer(SupportDesk.layer, { excludeTestServices: true })((it) => {
    it.effect("shows of an attempt what was asked with what, what came back, and its frames", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url, pathOf(routes, "plan"))
        yield* Effect.promise(async () => {
          await details(page).getByRole("heading", { name: "Step 1, attempt 1" }).waitFor()
          assert.strictEqual(await fact(page, "Model").textContent(), "openai/gpt-5-mini")
          assert.strictEqual(await fact(page, "Finish reason").textContent(), "tool calls (2 calls)")
          assert.strictEqual(await fact(page, "Credential").textContent(), "–")
          const tokens = await details(page).getByRole("table", { name: "Tokens" }).getByRole("row").allTextContents()
          assert.deepStrictEqual(tokens, ["Prompt2,140", "of it cached1,024", "Answer96", "of it reasoning31"])
          await details(page).getByText("The first 48 % of the prompt").waitFor()
          const answer = details(page).getByRole("region", { name: "Answer" })
          await answer.getByText("I look up the order, and the policy on damage.").waitFor()

          await page.goto(pathOf(routes, "plan").replace("attempt-1-1", "attempt-2-1"))
          await details(page).locator("summary", { hasText: "Prompt" }).click()
          await expect
            .poll(() => details(page).locator(".said-by strong").allTextContents())
            .toEqual(["User", "Model", "Tool", "Tool"])
          assert.strictEqual(await fact(page, "Finish reason").textContent(), "stop")
          await details(page).getByText("Tools offered").click()
          await details(page).getByText("Says what the policy allows.").waitFor()
          await details(page).getByText("Raw frames").click()
          await details(page).getByText("event: usage").waitFor()
          assert.include(await details(page).locator(".loaded pre").last().textContent(), '"cached_input_tokens":2048')
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("names the credential of an attempt that was asked again, and what went wrong before", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url, pathOf(routes, "retried"))
        yield* Effect.promise(async () => {
          await details(page).getByRole("region", { name: "Error of the attempt before" }).waitFor()
          assert.strictEqual(await fact(page, "Credential").textContent(), "openai-1")
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("shows of a call its arguments as a table and as JSON, its result, its ids, and each to be copied", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { context, faults, page } = yield* openPage(url, pathOf(routes, "plan"))
        yield* Effect.promise(async () => {
          await context.grantPermissions(["clipboard-read", "clipboard-write"])
          await page.getByRole("row", { name: /^orders_find/ }).click()
          await details(page).getByRole("heading", { name: "orders_find" }).waitFor()
          await details(page).getByRole("row", { name: "order_id 4711" }).waitFor()
          await details(page).getByText("As JSON").click()
          await details(page).getByLabel("Arguments as JSON").getByText('"order_id": "4711"').waitFor()
          await details(page).getByRole("region", { name: "Result" }).getByText('"state": "delivered"').waitFor()
          assert.strictEqual(await fact(page, "Agent").textContent(), "orders")
          assert.strictEqual(await fact(page, "Same call in this plan").textContent(), "none")
          await details(page).getByText("Remote task", { exact: true }).waitFor()
          await details(page).getByText("What the model read of it").click()
          await details(page).getByRole("region", { name: "Result for the model" }).getByText("delivered").waitFor()

          const copied = async (what: string) => {
            await details(page).getByRole("button", { name: what }).click()
            return page.evaluate(() => navigator.clipboard.readText())
          }
          assert.deepStrictEqual(JSON.parse(await copied("Copy: Arguments")), {
            order_id: "4711",
            include: ["items", "payments"]
          })
          assert.match(await copied("Copy: Task"), /^[\w-]{20,}$/)
          assert.include(await copied("Copy all of the row as JSON"), '"tool": "orders_find"')
          await details(page).getByRole("button", { name: "Row below" }).click()
          await details(page).getByRole("heading", { name: "policy_search" }).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "asks on below an answer with the same agents, says to a plan that runs what it hears next, and keeps what is typed when it ends",
      () =>
        Effect.gen(function* () {
          const { routes, url } = yield* SupportDesk
          const bowline = createBowline({ baseUrl: url })
          const { faults, page } = yield* openPage(url, pathOf(routes, "retried"))
          yield* Effect.promise(async () => {
            const before = page.url().split("/").at(-1)?.split("?")[0] ?? ""
            await page.getByLabel("Next question").fill("Reconcile the ledger with the bank.")
            await page.keyboard.press("Control+Enter")
            await page.waitForURL((to) => !to.pathname.endsWith(before))
            const after = page.url().split("/").at(-1) ?? ""
            const [first, second] = [await bowline.plans.get(before), await bowline.plans.get(after)]
            assert.strictEqual(second.session_id, first.session_id)
            assert.deepStrictEqual(second.request?.["agents"], first.request?.["agents"])

            await page.locator(".answer").getByText("I am reading the ledger").waitFor()
            const box = page.locator(".ask-on textarea")
            await page.getByLabel("Heard").selectOption("at the next step")
            await page.getByLabel("Say to the plan").fill("Only this year.")
            await page.getByRole("button", { name: "Say it" }).click()
            const said = page.getByRole("list", { name: "Said to the plan" })
            await said.getByText("anonymous, waits for the next step").waitFor()
            assert.strictEqual(await box.inputValue(), "")
            await box.pressSequentially("And what")
            await page.getByRole("button", { name: "Cancel" }).evaluate((button) => {
              if (button instanceof HTMLElement) button.click()
            })
            await page.getByText("aborted: cancelled").waitFor()
            await said.getByText("anonymous, not heard: the plan ended").waitFor()
            assert.strictEqual(await page.getByLabel("Next question").inputValue(), "And what")
            await page.getByRole("button", { name: "Ask on" }).waitFor()
            assert.isTrue(await box.evaluate((one) => one === document.activeElement), "the box has lost its focus")
          })
          assert.deepStrictEqual(faults, [])
        })
    )

    it.effect("shows a session as a conversation, with the calls of each plan folded", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url, pathOf(routes, "session"))
        yield* Effect.promise(async () => {
          const turns = page.locator(".turn")
          await expect.poll(() => turns.count()).toBe(3)
          await turns.nth(0).getByText("May order 4711 be refunded?").waitFor()
          await turns.nth(0).getByText("90.90 EUR").first().waitFor()
          const fold = turns.nth(0).locator("summary", { hasText: "2 calls: orders_find, policy_search" })
          assert.isFalse(await turns.nth(0).getByRole("region", { name: "Calls orders_find" }).isVisible())
          await fold.click()
          await turns.nth(0).getByRole("region", { name: "Calls orders_find" }).waitFor()
          await turns.nth(2).getByText("waits for approval").waitFor()
          await page.getByLabel("Say to the plan").waitFor()
          await turns
            .nth(1)
            .getByRole("link", { name: /^Open plan_/ })
            .click()
          await page.getByRole("heading", { name: "Refund it, then." }).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "gives who decides the question, what the model said, marked fields, earlier calls and what follows",
      () =>
        Effect.gen(function* () {
          const { routes, url } = yield* SupportDesk
          const { faults, page } = yield* openPage(url, pathOf(routes, "approvals"))
          yield* Effect.promise(async () => {
            const card = page.getByRole("article", { name: "Approval of bank_payout" })
            await card.getByRole("link", { name: "Close the account of ACME, and pay out what is left." }).waitFor()
            await card.getByText("To close it I pay all of it out").waitFor()
            await card.getByRole("link", { name: "order-4711" }).waitFor()
            const amount = card.getByRole("row", { name: /^amount_eur/ })
            assert.match((await amount.textContent()) ?? "", /99,999.*look twice: “cannot be undone”.*at most 100000/)
            assert.strictEqual(await card.getByRole("row", { name: /^note/ }).locator(".risk").count(), 0)
            await card.getByText("1 earlier call of").waitFor()
            await card.getByText("Called in other sessions").click()
            await card.getByRole("link", { name: "Refund it, then." }).waitFor()
            const earlier = card.locator(".earlier li").first()
            assert.match((await earlier.textContent()) ?? "", /^completed.*90\.9/)
            await card.getByText("is called at once and only once").waitFor()
            await card.getByText("Nothing is called. The model reads that it was rejected").waitFor()
            await earlier.getByRole("link").click()
            await details(page).getByText("approved by anonymous").waitFor()
          })
          assert.deepStrictEqual(faults, [])
        })
    )
  })
})
