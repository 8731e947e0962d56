import { callTool, say, think } from "@bowline/testing/provider/Turn"
import { cut, stall, until, wait } from "@bowline/testing/http/Move"
import { completes, file, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Latch, Layer } from "effect"
import { buffer } from "node:stream/consumers"
import type { Locator, Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

/** A plan with a retract, a retry, reasoning and calls that fail. It ends when the latch is open. */
const eventful = (latch: Latch.Latch) => [
  [say("Wrong from "), wait("200 millis"), cut],
  [
    think("Let me see."),
    wait("300 millis"),
    callTool("nothing_known", { knot: 1 }),
    callTool("nothing_known", { knot: 2 })
  ],
  [say("A **bowline** holds."), until(Effect.asVoid(latch.await)), say(" It never jams.")]
]

/** What the timeline shows, with the places of its bars. */
const timeline = async (page: Page) => ({
  tree: await page.getByRole("treegrid").ariaSnapshot(),
  bars: await page.locator(".track .bar").evaluateAll((bars) => bars.map((bar) => bar.getAttribute("style")))
})

const stateOf = (page: Page) => page.locator(".plan-head .state")

/** A gateway whose plans are eventful, but for one that does not end by itself the first time. */
class Shown extends Context.Service<Shown, { readonly url: string; readonly latch: Latch.Latch }>()("Shown") {
  static readonly layer = Layer.effect(
    Shown,
    Effect.gen(function* () {
      const latch = Latch.makeUnsafe(false)
      const turnsOfPlan = eventful(latch)
      let turns = 0
      let halves = 0
      const { url } = yield* start(
        (asked) => {
          if (JSON.stringify(asked.messages).includes("knots.txt")) {
            const plots = results(asked).length === 0 && asked.tools.some(({ name }) => name === "plot_ask")
            return [plots ? callTool("plot_ask", { input: "?" }) : say("I see.")]
          }
          if (question(asked) !== "Cancel me") return turnsOfPlan[turns++ % turnsOfPlan.length] ?? []
          return halves++ === 0 ? [say("Half an answer. And"), stall] : [say("Whole.")]
        },
        { BOWLINE_ALLOWED_MODELS: "*" }
      )
      return { url, latch }
    })
  )
}

describeInBrowser("the view of a plan", () => {
  layer(Shown.layer, { excludeTestServices: true })((it) => {
    it.effect("shows a plan as it runs, and the same to the pixel when it is opened again", () =>
      Effect.gen(function* () {
        const { latch, url } = yield* Shown
        const { faults, page } = yield* openPage(url)
        yield* Effect.promise(async () => {
          await page.getByLabel("Question").fill("What is a bowline?")
          await page.getByRole("button", { name: "Ask", exact: true }).click()
          await page.waitForURL("**/plans/plan_*")
          await page.locator(".answer").getByText("holds.").waitFor()
        })
        yield* latch.open
        yield* Effect.promise(async () => {
          await stateOf(page).getByText("completed").waitFor()
          await page.getByText("It never jams.").first().waitFor()
          const live = await timeline(page)
          const answer = await page.locator(".answer").ariaSnapshot()
          assert.include(live.tree, "Attempt 1 retracted")
          assert.include(live.tree, "Retry after provider_")
          assert.include(live.tree, "nothing_known")
          assert.include(answer, "Retracted: step 1, attempt 1")
          assert.strictEqual(await page.locator(".prose strong").textContent(), "bowline")
          const picture = () => page.locator("main").screenshot()
          const pixels = await picture()
          await page.getByText("Retracted: step 1, attempt 1").click()
          assert.strictEqual(await page.locator("del").textContent(), "Wrong from ")
          await page.reload()
          await page.getByText("It never jams.").first().waitFor()
          // The answer is in the plan's record, the timeline comes with the events.
          await expect.poll(() => timeline(page)).toEqual(live)
          assert.strictEqual(await page.locator(".answer").ariaSnapshot(), answer)
          assert.isTrue(pixels.equals(await picture()), "the pixels differ")
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("keeps the selected row and the zoom in the URL, and Back leaves the plan", () =>
      Effect.gen(function* () {
        const { url } = yield* Shown
        const id = yield* Effect.promise(() => ask(url, { question: "What is a bowline?" }))
        const { faults, page } = yield* openPage(url, "/plans")
        yield* Effect.promise(async () => {
          await page.getByRole("link", { name: "What is a bowline?" }).first().click()
          await stateOf(page).getByText("completed").waitFor()
          await page.getByRole("row", { name: /nothing_known.*"knot": 2/ }).click()
          await page.getByRole("heading", { name: "nothing_known" }).waitFor()
          await page.getByRole("button", { name: "Zoom in" }).click()
          await page.waitForURL(/[?&]zoom=\d+-\d+/)
          await page.reload()
          const details = page.getByLabel("Details of the selected row")
          await details.getByRole("row", { name: "knot 2" }).waitFor()
          assert.isTrue(await page.getByRole("button", { name: "All", exact: true }).isEnabled())
          await page.getByRole("button", { name: "All", exact: true }).click()
          await page.waitForURL((to) => !to.searchParams.has("zoom"))
          await page.goBack()
          await page.getByRole("heading", { name: "Plans" }).waitFor()
          await page.waitForURL("**/plans")
          await page.goto(`/plans/${id}?row=step-1`)
          await details.getByText("2 attempts, 2 tool calls.").waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("can be walked through by keyboard: rows, steps that close, details", () =>
      Effect.gen(function* () {
        const { url } = yield* Shown
        const id = yield* Effect.promise(() => ask(url, { question: "What is a bowline?" }))
        const { faults, page } = yield* openPage(url, `/plans/${id}`)
        yield* Effect.promise(async () => {
          await stateOf(page).getByText("completed").waitFor()
          await page.locator("#row-attempt-2-1").waitFor()
          const grid = page.getByRole("treegrid")
          const active = async () => (await grid.getAttribute("aria-activedescendant")) ?? ""
          await grid.focus()
          assert.strictEqual(await active(), "row-step-1")
          await page.keyboard.press("ArrowRight")
          assert.strictEqual(await active(), "row-attempt-1-1")
          await page.keyboard.press("ArrowLeft")
          assert.strictEqual(await active(), "row-step-1")
          await page.keyboard.press("ArrowLeft")
          assert.strictEqual(await page.locator("#row-step-1").getAttribute("aria-expanded"), "false")
          assert.strictEqual(await page.locator("#row-attempt-1-1").count(), 0)
          await page.keyboard.press("ArrowRight")
          await page.keyboard.press("End")
          assert.strictEqual(await active(), "row-attempt-2-1")
          await page.keyboard.press("Enter")
          await page.getByRole("heading", { name: "Step 2, attempt 1" }).waitFor()
          const details = page.getByLabel("Details of the selected row")
          const isFocused = (one: Locator) => one.evaluate((element) => element === document.activeElement)
          await expect.poll(() => isFocused(details)).toBe(true)
          await page.keyboard.press("ArrowUp")
          await page.getByRole("heading", { name: "Step 2", exact: true }).waitFor()
          assert.isTrue(await isFocused(details))
          await page.keyboard.press("Escape")
          await details.waitFor({ state: "detached" })
          assert.isTrue(await isFocused(grid))
          assert.strictEqual(await active(), "row-step-2")
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("cancels a plan, says so, and asks the same again as a new plan", () =>
      Effect.gen(function* () {
        const { url } = yield* Shown
        const id = yield* Effect.promise(() => ask(url, { question: "Cancel me", preferences: { max_steps: 3 } }))
        const { faults, page } = yield* openPage(url, `/plans/${id}`)
        yield* Effect.promise(async () => {
          await page.getByText("Half an answer.").first().waitFor()
          await page.getByRole("button", { name: "Cancel" }).click()
          await page.getByText("aborted: cancelled").waitFor()
          assert.strictEqual(await page.getByRole("button", { name: "Cancel" }).count(), 0)
          assert.strictEqual(await page.locator(".bar.tone-running").count(), 0)
          await page.getByRole("button", { name: "Ask again" }).click()
          await page.waitForURL((to) => /\/plans\/plan_/.test(to.pathname) && !to.pathname.endsWith(id))
          await page.getByText("Whole.").first().waitFor()
          await page.locator(".question").getByText("Cancel me").waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("shows the record's own numbers while its events are on the way", () =>
      Effect.gen(function* () {
        const { latch, url } = yield* Shown
        yield* latch.open
        const id = yield* Effect.promise(() => ask(url, { question: "What is a bowline?" }))
        const { faults, page } = yield* openPage(url, "/plans")
        const events = Promise.withResolvers<void>()
        yield* Effect.promise(async () => {
          await page.locator("tbody tr").first().getByText("completed").waitFor()
          await page.route("**/events*", async (route) => {
            await events.promise
            await route.continue()
          })
          await page.goto(`/plans/${id}`)
          const fact = (name: string) =>
            page.locator(".facts > div").filter({ has: page.getByText(name, { exact: true }) })
          await page.getByText("Its events are on the way.").waitFor()
          await expect.poll(() => fact("Steps").textContent()).toBe("Steps2")
          assert.strictEqual(await fact("Tokens").textContent(), "Tokens–")
          const took = await fact("Took").textContent()
          assert.notInclude(took, "Took0")
          events.resolve()
          await page.locator("#row-attempt-2-1").waitFor()
          assert.strictEqual(await fact("Steps").textContent(), "Steps2")
          assert.strictEqual(await fact("Took").textContent(), took)
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "takes files that are picked, dropped and pasted into its question, and shows and downloads them and those of tools",
      () =>
        Effect.gen(function* () {
          const { url } = yield* Shown
          const chart = Buffer.from("a,b\n1,2\n")
          const given = { name: "chart.csv", mimeType: "text/csv", bytes: chart.toString("base64") }
          const peer = yield* ScriptedPeer.serve({ acts: [produces([file(given)]), completes("Done")] })
          const request = {
            preferences: { model: "openai/gpt-5-mini" },
            agents: [{ name: "plot", endpoint: `${peer.url}/`, skills: [{ id: "ask" }] }]
          }
          const { faults, page } = yield* openPage(url)
          const attached = page.getByRole("list", { name: "Attached files" })
          const text = { name: "knots.txt", mimeType: "text/plain", buffer: Buffer.from("left over right") }
          yield* Effect.promise(async () => {
            // One that does not end, which somebody cancels.
            await page.route("**/files", () => undefined)
            const pick = page.getByLabel("Files", { exact: true })
            await pick.setInputFiles({ ...text, name: "late.txt", buffer: Buffer.from("too late") })
            await page.getByLabel("Question").fill("What is this?")
            await page.keyboard.press("Control+Enter")
            await page.getByRole("alert").getByText("late.txt is still being uploaded.").waitFor()
            await attached.getByRole("button", { name: "Cancel late.txt" }).press("Enter")
            await attached.waitFor({ state: "detached" })
            await page.unroute("**/files")

            await pick.setInputFiles([text, { name: "fake.png", mimeType: "image/png", buffer: Buffer.from("text") }])
            await attached.getByText("It was sent as image/png").waitFor()
            await page.getByRole("button", { name: "Ask", exact: true }).click()
            await page.getByRole("alert").getByText("fake.png is not stored").waitFor()
            await attached.getByRole("button", { name: "Remove fake.png" }).click()
            // A drop and a paste as a browser tells them.
            await page.locator("form.ask").evaluate(async (form) => {
              for (const [name, width] of [
                ["dropped.png", 4],
                ["pasted.png", 5]
              ] as const) {
                const canvas = new OffscreenCanvas(width, 3)
                canvas.getContext("2d")
                const blob = await canvas.convertToBlob()
                const data = new DataTransfer()
                data.items.add(new File([blob], name, { type: "image/png" }))
                const init = { bubbles: true, cancelable: true }
                form.dispatchEvent(
                  name === "dropped.png"
                    ? new DragEvent("drop", { ...init, dataTransfer: data })
                    : new ClipboardEvent("paste", { ...init, clipboardData: data })
                )
              }
            })
            await expect.poll(() => attached.getByText("stored").count()).toBe(3)
            assert.strictEqual(await attached.locator("img[src^='blob:']").count(), 2)
          })
          assert.deepStrictEqual(yield* findBarriers(page), [])
          const shown = page.getByRole("region", { name: "Files of the question" })
          const isDrawn = (name: string) =>
            expect
              .poll(() => page.getByRole("img", { name }).evaluate((image) => (image as HTMLImageElement).naturalWidth))
              .toBe(name === "dropped.png" ? 4 : 5)
          yield* Effect.promise(async () => {
            // A model that nobody knows takes no pictures.
            await page.getByRole("button", { name: "Ask", exact: true }).click()
            await page.getByRole("alert").getByText("takes no images").waitFor()
            await page.getByText("More of the request").click()
            await page.getByLabel("JSON of agents").fill(JSON.stringify(request))
            await page.getByRole("button", { name: "Ask", exact: true }).click()
            await page.waitForURL("**/plans/plan_*")
            await isDrawn("dropped.png")
            await isDrawn("pasted.png")
            const link = shown.getByRole("link", { name: "knots.txt" })
            await page.locator(".answer").getByText("I see.").waitFor()
            const ofTools = page
              .getByRole("region", { name: "Files of tools" })
              .getByRole("link", { name: "chart.csv" })
            for (const [one, bytes] of [
              [link, text.buffer],
              [ofTools, chart]
            ] as const) {
              const coming = page.waitForEvent("download")
              await one.click()
              const download = await coming
              assert.strictEqual(download.suggestedFilename(), await one.textContent())
              assert.isTrue(bytes.equals(await buffer(await download.createReadStream())))
            }
          })
          assert.deepStrictEqual(yield* findBarriers(page), [])
          yield* Effect.promise(async () => {
            const asked = page.url()
            await page.getByLabel("Files", { exact: true }).setInputFiles(text)
            await attached.getByText("stored").waitFor()
            await page.getByRole("button", { name: "Ask on" }).click()
            await page.waitForURL((to) => to.href !== asked)
            await shown.getByText("knots.txt").waitFor()
            await page.locator(".facts a[href^='/sessions/']").click()
            await isDrawn("dropped.png")
          })
          assert.deepStrictEqual(faults, [])
        }).pipe(Effect.provide(LoopbackNetwork.layer))
    )

    it.effect("says that there is no such plan", () =>
      Effect.gen(function* () {
        const { url } = yield* Shown
        const { page } = yield* openPage(url, "/plans/plan_00000000-0000-0000-0000-000000000000")
        yield* Effect.promise(() => page.getByRole("heading", { name: "There is no such plan" }).waitFor())
      })
    )
  })
})
