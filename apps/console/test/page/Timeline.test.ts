import { until } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Latch, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { text } from "node:stream/consumers"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const asked = 'What\'s a "bowline"? $HOME `date`'

/** The provider's answer to the first question is whole at once; any other one waits for the latch in its middle. */
class Asked extends Context.Service<
  Asked,
  { readonly url: string; readonly id: string; readonly latch: Latch.Latch }
>()("Asked") {
  static readonly layer = Layer.effect(
    Asked,
    Effect.gen(function* () {
      const latch = Latch.makeUnsafe(false)
      const { url } = yield* start((request) =>
        question(request) === asked
          ? [say("A knot.")]
          : [say("A bow"), say("line **holds**. It nev"), until(Effect.asVoid(latch.await)), say("er jams"), say(".")]
      )
      const id = yield* Effect.promise(() => ask(url, { question: asked, preferences: { max_steps: 3 } }))
      return { url, id, latch }
    })
  )
}

const nameWidth = (page: Page) =>
  page
    .locator(".line .name")
    .first()
    .evaluate((name) => Math.round(name.getBoundingClientRect().width))

const boxOf = async (page: Page, selector: string) => {
  const box = await page.locator(selector).boundingBox()
  assert.isNotNull(box)
  return box
}

/** Presses the pointer at one place, and lets it go at another. */
const drag = async (page: Page, y: number, from: number, to: number) => {
  await page.mouse.move(from, y)
  await page.mouse.down()
  await page.mouse.move((from + to) / 2, y)
  await page.mouse.move(to, y)
  await page.mouse.up()
}

const openPlan = Effect.fnUntraced(function* (path?: string) {
  const { id, url } = yield* Asked
  const opened = yield* openPage(url, path ?? `/plans/${id}`, {
    permissions: ["clipboard-read", "clipboard-write"]
  })
  if (path === undefined) {
    yield* Effect.promise(async () => {
      await opened.page.locator(".plan-head .state").getByText("completed").waitFor()
      await opened.page.getByRole("row", { name: "Step 1", exact: false }).first().waitFor()
    })
  }
  return opened
})

describeInBrowser("a plan's page", () => {
  layer(Asked.layer, { excludeTestServices: true })((it) => {
    it.effect("gives the tree the width that pointer or keys ask for, within bounds", () =>
      Effect.gen(function* () {
        const { faults, page } = yield* openPlan()
        yield* Effect.promise(async () => {
          const splitter = page.getByRole("separator", { name: "Width of the tree" })
          assert.strictEqual(await nameWidth(page), 320)
          await splitter.focus()
          await page.keyboard.press("ArrowRight")
          await expect.poll(() => nameWidth(page)).toBe(340)
          assert.strictEqual(await splitter.getAttribute("aria-valuenow"), "340")
          await page.keyboard.press("ArrowLeft")
          await page.keyboard.press("ArrowLeft")
          await expect.poll(() => nameWidth(page)).toBe(300)

          const { x: left } = await boxOf(page, ".timeline")
          const bar = await boxOf(page, ".splitter")
          await drag(page, bar.y + bar.height / 2, bar.x + bar.width / 2, left + 240)
          await expect.poll(() => nameWidth(page)).toBe(240)
          const moved = await boxOf(page, ".splitter")
          await drag(page, moved.y + moved.height / 2, moved.x + moved.width / 2, left + 5)
          await expect.poll(() => nameWidth(page)).toBe(140)
          assert.strictEqual(await splitter.getAttribute("aria-valuenow"), "140")
          // The pointer is let go: it moves nothing any more.
          await page.mouse.move(left + 400, moved.y)
          await page.keyboard.press("ArrowLeft")
          assert.strictEqual(await nameWidth(page), 140)
          // A narrow window leaves the tree less than half.
          for (let press = 0; press < 10; press++) await page.keyboard.press("ArrowRight")
          await expect.poll(() => nameWidth(page)).toBe(340)
          await page.setViewportSize({ width: 360, height: 640 })
          await expect.poll(() => nameWidth(page)).toBeLessThan(180)
          const narrow = String(await nameWidth(page))
          assert.deepStrictEqual(
            [await splitter.getAttribute("aria-valuenow"), await splitter.getAttribute("aria-valuemax")],
            [narrow, narrow]
          )
          await page.keyboard.press("ArrowLeft")
          await expect.poll(() => nameWidth(page)).toBe(Number(narrow) - 20)
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("zooms to the range that is dragged over, in both directions, and not at a click", () =>
      Effect.gen(function* () {
        const { faults, page } = yield* openPlan()
        yield* Effect.promise(async () => {
          const range = () => {
            const [from = 0, to = 0] = (new URL(page.url()).searchParams.get("zoom") ?? "").split("-").map(Number)
            return { from, to }
          }
          const marks = await boxOf(page, ".marks")
          const y = marks.y + marks.height / 2
          const at = (share: number) => marks.x + marks.width * share
          // A range that does not depend on how long the plan took.
          await page.goto(`${page.url()}?zoom=0-1000`)
          await page.getByRole("row", { name: "Step 1", exact: false }).first().waitFor()
          await page.mouse.click(at(0.5), y)
          assert.deepStrictEqual(range(), { from: 0, to: 1000 })
          await drag(page, y, at(0.1), at(0.02))
          await page.waitForURL((url) => url.searchParams.get("zoom") !== "0-1000")
          const { from, to } = range()
          assert.approximately(from, 20, 3)
          assert.isAbove(to, from)
          assert.isAtMost(to, 103)
          await page.getByRole("button", { name: "All", exact: true }).click()
          await page.waitForURL((url) => !url.searchParams.has("zoom"))
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("copies a command that a shell reads as the same request", () =>
      Effect.gen(function* () {
        const { url } = yield* Asked
        const { faults, page } = yield* openPlan()
        const command = yield* Effect.promise(async () => {
          // It says so for two seconds: the page itself looks out for it.
          const copied = page.waitForFunction(() =>
            Array.from(document.querySelectorAll("button")).some(({ textContent }) => textContent === "Copied")
          )
          await page.getByRole("button", { name: "Copy as curl" }).click()
          await copied
          return page.evaluate(() => navigator.clipboard.readText())
        })
        // A shell that has a function for curl shows what it would get.
        const words = execFileSync("/bin/sh", ["-c", `curl() { printf '%s\\n' "$@"; }; ${command}`], {
          encoding: "utf8"
        })
        const [, target, , , , body = ""] = words.split("\n")
        assert.strictEqual(target, `${url}/plan`)
        const request = JSON.parse(body) as Record<string, unknown>
        assert.strictEqual(request["question"], asked)
        assert.deepInclude(request["preferences"], { max_steps: 3 })
        const answer = yield* Effect.promise(() =>
          fetch(`${url}/plan`, { method: "POST", headers: { "content-type": "application/json" }, body })
        )
        assert.strictEqual(answer.status, 200)
        assert.include(yield* Effect.promise(() => answer.text()), "A knot.")
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("downloads the record and the view of the plan as one file", () =>
      Effect.gen(function* () {
        const { id } = yield* Asked
        const { faults, page } = yield* openPlan()
        yield* Effect.promise(async () => {
          const coming = page.waitForEvent("download")
          await page.getByRole("button", { name: "Download JSON" }).click()
          const file = await coming
          assert.strictEqual(file.suggestedFilename(), `${id}.json`)
          const { plan, view } = JSON.parse(await text(await file.createReadStream())) as {
            plan: { plan_id: string; question: string; state: string }
            view: { text: string }
          }
          assert.deepInclude(plan, { plan_id: id, question: asked, state: "completed" })
          assert.strictEqual(view.text, "A knot.")
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("says a live answer in whole sentences, each one once, and nothing of one that is over", () =>
      Effect.gen(function* () {
        const { latch, url } = yield* Asked
        const { faults, page } = yield* openPage(url)
        const said = yield* Effect.promise(async () => {
          await page.evaluate(() => {
            const heard: Array<string> = []
            Object.assign(globalThis, { heard })
            new MutationObserver(() => {
              const text = document.querySelector("[aria-live=polite]")?.textContent ?? ""
              if (text !== "" && heard.at(-1) !== text) heard.push(text)
            }).observe(document.body, { childList: true, characterData: true, subtree: true })
          })
          await page.getByLabel("Question").fill("Slowly, please.")
          await page.getByRole("button", { name: "Ask", exact: true }).click()
          await page.waitForURL("**/plans/plan_*")
          await page.locator(".answer").getByText("It nev").waitFor()
          return () => page.evaluate(() => (globalThis as unknown as { heard: ReadonlyArray<string> }).heard)
        })
        yield* Effect.promise(() => expect.poll(said).toEqual(["A bowline holds."]))
        yield* latch.open
        yield* Effect.promise(async () => {
          await expect.poll(said).toEqual(["A bowline holds.", "It never jams."])
          await page.reload()
          await page.locator(".answer").getByText("It never jams.").waitFor()
          assert.strictEqual(await page.locator("[aria-live=polite]").textContent(), "")
        })
        assert.deepStrictEqual(faults, [])
      })
    )
  })
})
