import { createBowline } from "@bowline/client"
import { type Asked, question } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say } from "@bowline/testing/provider/Turn"
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openBrowser } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

const settings = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob",
  BOWLINE_ADMIN_CALLERS: "bob",
  OPENAI_API_KEYS: "planted-key-one,planted-key-two",
  BOWLINE_CONTEXT_WINDOW: "4000",
  BOWLINE_RETRY_BASE: "1ms"
}

/** A window of 4,000 tokens holds some of them. */
const long = (text: string) => `${text} ${"word ".repeat(450)}`

const isSummary = ({ system }: Asked) => system.startsWith("You keep the memory")

/** A gateway with a caller and an admin. The first key of its provider is refused once, when it is asked to be. */
class Shared extends Context.Service<Shared, { readonly url: string }>()("Shared") {
  static readonly layer = Layer.effect(
    Shared,
    Effect.gen(function* () {
      let refusals = 1
      return yield* start((asked) => {
        if (question(asked) === "Pay it.") return [say("I pay."), callTool("bank_payout", { input: "all" })]
        if (question(asked) === "Refuse a key" && refusals-- > 0) return [error(401)]
        return [say(isSummary(asked) ? "All about knots." : "Fine.")]
      }, settings)
    })
  )
}

const bowlineOf = (url: string, caller: "ann" | "bob") => createBowline({ baseUrl: url, apiKey: `key-of-${caller}` })

/** A tab of somebody who has logged in. */
const openAs = Effect.fnUntraced(function* (caller: "ann" | "bob", path: string) {
  const { url } = yield* Shared
  const { context, faults, openTab } = yield* openBrowser(url)
  const login = yield* Effect.promise(() =>
    context.request.post("/console/session", { data: { key: `key-of-${caller}` }, headers: { origin: url } })
  )
  assert.isTrue(login.ok(), String(login.status()))
  return { faults, page: yield* openTab(path) }
})

/** Answers the next question that the page asks. */
const decide = (page: Page, yes: boolean) => {
  page.once("dialog", (dialog) => void (yes ? dialog.accept() : dialog.dismiss()))
}

describeInBrowser("what callers and admins do in the console", () => {
  layer(Shared.layer, { excludeTestServices: true })((it) => {
    it.effect("compacts, reverts and deletes a session, and asks before it drops anything", () =>
      Effect.gen(function* () {
        const { url } = yield* Shared
        yield* Effect.promise(async () => {
          for (const text of ["One", "Two", "Three"]) {
            await bowlineOf(url, "ann")
              .plan({ question: long(text), session_id: "knots" })
              .result()
          }
        })
        const { faults, page } = yield* openAs("ann", "/sessions")
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "knots" }).click()
          const messages = page.locator(".history .message")
          await expect.poll(() => messages.count()).toBe(6)

          await page.getByRole("button", { name: "Compact" }).click()
          await page.getByText("4 messages are a summary now.").waitFor()
          await page.getByText("Summary of what was compacted").click()
          await page.getByText("All about knots.").waitFor()
          await expect.poll(() => page.getByText("in the summary").count()).toBe(4)
          await page.getByRole("button", { name: "Compact" }).click()
          await page.getByText("There is nothing to compact.").waitFor()

          const revert = messages.nth(4).getByRole("button", { name: "Revert to here" })
          decide(page, false)
          await revert.click()
          assert.strictEqual((await bowlineOf(url, "ann").sessions.get("knots")).message_count, 6)
          decide(page, true)
          await revert.click()
          await page.getByText("What came after it is gone.").waitFor()
          await expect.poll(() => messages.count()).toBe(5)
          assert.strictEqual((await bowlineOf(url, "ann").sessions.get("knots")).message_count, 5)

          decide(page, false)
          await page.getByRole("button", { name: "Delete" }).click()
          assert.match(new URL(page.url()).pathname, /^\/sessions\/./)
          decide(page, true)
          await page.getByRole("button", { name: "Delete" }).click()
          await page.waitForURL("**/sessions")
          await page.getByRole("heading", { name: "No sessions yet" }).waitFor()
          await page.goBack()
          await page.getByRole("heading", { name: "There is no such session" }).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("resets a credential that is put aside, for an admin", () =>
      Effect.gen(function* () {
        const { url } = yield* Shared
        yield* Effect.promise(() => bowlineOf(url, "ann").plan({ question: "Refuse a key" }).result())
        const { faults, page } = yield* openAs("bob", "/credentials")
        yield* Effect.promise(async () => {
          const out = page.locator("tbody tr", { hasText: "put aside" })
          await out.getByText("auth").waitFor()
          assert.strictEqual(await out.count(), 1)
          await out.getByRole("button", { name: /^Reset openai-\d$/ }).click()
          await out.waitFor({ state: "detached" })
          assert.strictEqual(await page.locator("tbody tr", { hasText: "ready" }).count(), 2)
          assert.strictEqual(await page.getByRole("button", { name: /^Reset/ }).count(), 0)
          const states: Array<string> = []
          for await (const { state } of bowlineOf(url, "bob").credentials.list()) states.push(state)
          assert.deepStrictEqual(states, ["ok", "ok"])
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "shows an admin what another caller asked before a call waits, without what only the caller may see",
      () =>
        Effect.gen(function* () {
          const { url } = yield* Shared
          const agents = [
            {
              name: "bank",
              endpoint: "http://127.0.0.1:9/",
              dialect: "a2a-0.3" as const,
              skills: [{ id: "payout", approval: "always" as const }]
            }
          ]
          const leaving = new AbortController()
          const preferences = { on_disconnect: "continue" as const }
          const asked = bowlineOf(url, "ann").plan(
            { question: "Pay it.", agents, preferences },
            { signal: leaving.signal }
          )
          const id = yield* Effect.promise(() => asked.planId)
          const { faults, page } = yield* openAs("bob", "/approvals?caller=ann")
          yield* Effect.promise(async () => {
            const card = page.getByRole("article", { name: "Approval of bank_payout" })
            await card.getByText("ann asked").waitFor()
            await card.getByText("Pay it.").waitFor()
            assert.strictEqual(await card.getByText("I pay.").count(), 0)
            await card.getByRole("button", { name: /^Reject/ }).click()
            await card.getByText("Rejected by bob").or(card.getByText("You rejected it.")).waitFor()
            leaving.abort()
            await bowlineOf(url, "ann").plans.cancel(id)
          })
          assert.deepStrictEqual(faults, [])
        })
    )

    it.effect("shows the plans of another caller to an admin who names them, and offers it to nobody else", () =>
      Effect.gen(function* () {
        const { url } = yield* Shared
        yield* Effect.promise(async () => {
          await bowlineOf(url, "ann").plan({ question: "A knot of ann" }).result()
          await bowlineOf(url, "bob").plan({ question: "A knot of bob" }).result()
        })
        const admin = yield* openAs("bob", "/plans")
        yield* Effect.promise(async () => {
          const { page } = admin
          const ofAnn = page.getByText("A knot of ann")
          const ofBob = page.getByRole("link", { name: "A knot of bob" })
          await ofBob.waitFor()
          assert.strictEqual(await ofAnn.count(), 0)
          await page.getByText("More filters").click()
          await page.getByLabel("Caller", { exact: true }).fill("ann")
          await page.keyboard.press("Enter")
          await page.waitForURL("**/plans?caller=ann")
          await ofBob.waitFor({ state: "detached" })
          await ofAnn.waitFor()
          await page.reload()
          await ofAnn.waitFor()
          assert.strictEqual(await ofBob.count(), 0)
          assert.strictEqual(await page.getByLabel("Caller", { exact: true }).inputValue(), "ann")
          // Whoever follows a link gets what it promises: only its caller can open a plan.
          assert.strictEqual(await page.getByRole("link", { name: "A knot of ann" }).count(), 0)
          await page.goto("/plans?caller=*")
          await ofAnn.first().waitFor()
          for (const link of await page.locator("tbody a[href^='/plans/']").all()) {
            const answer = await page.request.get((await link.getAttribute("href")) ?? "", {
              headers: { accept: "application/json" }
            })
            assert.strictEqual(answer.status(), 200)
          }
        })
        assert.deepStrictEqual(admin.faults, [])

        const caller = yield* openAs("ann", "/plans")
        yield* Effect.promise(async () => {
          const { page } = caller
          await page.getByRole("link", { name: "A knot of ann" }).waitFor()
          await page.getByText("More filters").click()
          await page.getByLabel("Model", { exact: true }).waitFor()
          assert.strictEqual(await page.getByLabel("Caller", { exact: true }).count(), 0)
          assert.strictEqual(await page.getByRole("link", { name: "A knot of bob" }).count(), 0)
        })
        assert.deepStrictEqual(caller.faults, [])
      })
    )
  })
})
