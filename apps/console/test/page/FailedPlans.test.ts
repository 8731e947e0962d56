import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall, until } from "@bowline/testing/http/Move"
import { fails, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, errorChunk, say } from "@bowline/testing/provider/Turn"
import type { PlanRequest } from "@bowline/client"
import { assert, expect, it, layer } from "@effect/vitest"
import { Context, Effect, Latch, Layer } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { database, refuseRowsOf } from "../browser/Database.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

/** A gateway with peers that hang and fail, whose provider refuses what a question asks it to refuse. */
class Failing extends Context.Service<
  Failing,
  {
    readonly url: string
    readonly latch: Latch.Latch
    readonly askFor: (request: Omit<PlanRequest, "agents">) => Promise<string>
  }
>()("Failing") {
  static readonly layer = Layer.effect(
    Failing,
    Effect.gen(function* () {
      const latch = Latch.makeUnsafe(false)
      const archive = yield* ScriptedPeer.serve({ acts: [stuck] })
      const riggers = yield* ScriptedPeer.serve({ acts: [fails("out of rope")] })
      const { url } = yield* start(
        (asked) => {
          switch (question(asked)) {
            case "Dead key":
              return [error(401, { message: "Incorrect API key provided", code: "invalid_api_key" })]
            case "Schema refused":
              return [error(400, { message: "Invalid schema for function 'archive_search': 'type' is missing" })]
            case "Stuck peer":
              return [say("I look."), callTool("archive_search", { input: "?" })]
            case "Watched":
              return [say("Half an "), until(Effect.asVoid(latch.await)), errorChunk({ message: "No more of it" })]
            case "Loop":
              return [callTool("riggers_tie", { input: "?" })]
            default:
              return [say(results(asked).length === 0 ? "Half of it" : "Whole.")]
          }
        },
        { BOWLINE_RETRY_BASE: "1ms" }
      )
      const agents = [
        { name: "archive", endpoint: `${archive.url}/`, skills: [{ id: "search" }] },
        { name: "riggers", endpoint: `${riggers.url}/`, skills: [{ id: "tie" }] }
      ].map((agent) => ({ ...agent, dialect: "a2a-0.3" as const }))
      return { url, latch, askFor: (request: Omit<PlanRequest, "agents">) => ask(url, { ...request, agents }) }
    })
  ).pipe(Layer.provideMerge(LoopbackNetwork.layer))
}

/** Whether an element is in the window as a whole, with nothing scrolled but the box of the timeline. */
const isInView = (page: Page, selector: string) =>
  page
    .locator(selector)
    .first()
    .evaluate((element) => {
      const { bottom, top } = element.getBoundingClientRect()
      return scrollY === 0 && top >= 0 && bottom <= innerHeight
    })

const causes = [
  {
    request: { question: "Stuck peer", preferences: { timeout_ms: 6_500 } },
    code: "aborted: deadline",
    reason: "deadline in archive_search",
    says: /^The deadline \(6\.5 s\) passed while archive_search \(peer archive\) had not answered for [\d.]+ m?s\.$/,
    row: /^archive_search .*interrupted/,
    docs: "/docs/operations/peer-fails"
  },
  {
    request: { question: "Loop" },
    code: "loop_detected",
    reason: "loop_detected in riggers_tie",
    says: /^riggers_tie \(peer riggers\) failed 3 times within [\d.]+ m?s, and the model went on making the same call: .*out of rope/,
    row: /^riggers_tie .*failed/,
    docs: "/docs/operations/peer-fails"
  },
  {
    request: { question: "Schema refused" },
    code: "provider_bad_request",
    reason: "provider_bad_request",
    says: /^openai refused the request after 1 attempt in [\d.]+ m?s: Invalid schema for function 'archive_search': 'type' is missing\.$/,
    row: /^Attempt 1 failed/,
    docs: "/docs/operations/provider-fails"
  },
  // The key is blocked from here on.
  {
    request: { question: "Dead key" },
    code: "provider_auth",
    reason: "provider_auth of openai-1",
    says: /^openai refused the key openai-1 after 1 attempt in [\d.]+ m?s: Incorrect API key provided\.$/,
    row: /^Attempt 1 failed/,
    docs: "/docs/operations/provider-fails"
  },
  {
    request: { question: "After the dead key" },
    code: "provider_auth",
    reason: "provider_auth",
    says: /^openai was not asked: No credential is free for openai\/scripted: openai-1 is blocked for auth since .*, until .*Z\. To end this at once: bowline credentials clear openai-1\.$/,
    row: undefined,
    docs: "/docs/operations/provider-fails"
  }
] as const

describeInBrowser("a failed plan", () => {
  layer(Failing.layer, { excludeTestServices: true })((it) => {
    // First of all: later on the key is blocked.
    it.effect(
      "looks the same when it failed before somebody's eyes, and opens its details on a phone for who asks",
      () =>
        Effect.gen(function* () {
          const { askFor, latch, url } = yield* Failing
          const id = yield* Effect.promise(() => askFor({ question: "Watched" }))
          const { faults, page } = yield* openPage(url, `/plans/${id}`)
          yield* Effect.promise(() => page.locator(".answer").getByText("Half an").first().waitFor())
          yield* latch.open
          yield* Effect.promise(async () => {
            const details = page.getByLabel("Details of the selected row")
            const look = async () => ({
              details: await details.getByRole("heading", { name: "Step 1, attempt" }).count(),
              // Not what was said aloud of it while it was live.
              head: await page.locator(".plan-head").ariaSnapshot(),
              answer: await page.locator(".answer").ariaSnapshot(),
              work: await page.locator(".work").ariaSnapshot(),
              bars: await page
                .locator(".track .bar")
                .evaluateAll((bars) => bars.map((bar) => bar.getAttribute("style")))
            })
            await page.locator(".outcome .lead").waitFor()
            await details.waitFor()
            const live = await look()
            assert.strictEqual(live.details, 1)
            await page.reload()
            await expect.poll(look).toEqual(live)

            await page.setViewportSize({ width: 390, height: 844 })
            await page.goto(`/plans/${id}`)
            await page.locator(".line", { hasText: "failed" }).first().waitFor()
            assert.strictEqual(await details.count(), 0)
            await page.getByRole("link", { name: "Show it in the timeline" }).click()
            await expect.poll(() => details.evaluate((pane) => pane === document.activeElement)).toBe(true)
            const { height = 0, y = 0 } = (await details.boundingBox()) ?? {}
            assert.isAtMost(height, 844 * 0.7 + 1)
            assert.approximately(y + height, 844, 1)
            await page.keyboard.press("Escape")
            await details.waitFor({ state: "detached" })
          })
          assert.deepStrictEqual(faults, [])
        })
    )

    for (const { code, docs, reason, request, row, says } of causes) {
      it.effect(`shows its cause without scrolling or clicking: ${request.question}`, () =>
        Effect.gen(function* () {
          const { askFor, url } = yield* Failing
          const id = yield* Effect.promise(() => askFor(request))
          const { faults, page } = yield* openPage(url, "/plans")
          yield* Effect.promise(async () => {
            const line = page.locator("tr", { has: page.getByRole("link", { name: request.question, exact: true }) })
            await line.getByText(/^(failed|aborted)$/).waitFor()
            assert.strictEqual(await line.locator("td.reason").textContent(), reason)
            await line.getByRole("link").click()
            await page.waitForURL(`**/plans/${id}*`)
            await expect.poll(() => page.locator(".outcome .lead").textContent()).toMatch(says)
            assert.strictEqual(await page.locator(".outcome code").textContent(), code)
            assert.isTrue(await isInView(page, ".outcome"))
            assert.strictEqual(await page.getByRole("link", { name: "What to do" }).getAttribute("href"), docs)
            if (row !== undefined) {
              const shown = page.locator(".line[aria-selected=true]")
              await expect.poll(() => shown.locator(".label").textContent()).toMatch(row)
              assert.isTrue(await isInView(page, ".line[aria-selected=true]"), "the row")
              await page.getByLabel("Details of the selected row").waitFor()
            }
            // Nothing is green in what failed, and what failed has its sign.
            assert.strictEqual(await page.locator(".line[aria-selected=true] .tone-good").count(), 0)
          })
          for (const colorScheme of ["light", "dark"] as const) {
            yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
            assert.deepStrictEqual(yield* findBarriers(page), [])
          }
          assert.deepStrictEqual(faults, [])
        })
      )
    }
  })

  it.live("names the database where that refuses what the plan writes", () =>
    Effect.gen(function* () {
      const db = yield* database
      // The model says nothing more: else the end of the plan may come before the answer of the database.
      const { url } = yield* start([[callTool("nothing_known", {})], [stall]], { DATABASE_URL: db.toString() })
      yield* refuseRowsOf(db, "tasks")
      const id = yield* Effect.promise(() => ask(url, { question: "Database away" }))
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        await page.locator(".outcome").getByText("storage", { exact: true }).waitFor()
        // The events of the step may be in the write that the database refuses.
        const says =
          /^The database failed the plan (in step 1|before its first step), [\d.]+ m?s after its start: .+\.$/
        await expect.poll(() => page.locator(".outcome .lead").textContent()).toMatch(says)
        assert.isTrue(await isInView(page, ".outcome"))
        const way = page.getByRole("link", { name: "What to do" })
        assert.strictEqual(await way.getAttribute("href"), "/docs/operations/database-away")
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page), [])
      }
      assert.deepStrictEqual(faults, [])
    })
  )
})
