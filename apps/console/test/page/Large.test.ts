import { createBowline } from "@bowline/client"
import { wait } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const calls = Array.from({ length: 10 }, (_, step) =>
  Array.from({ length: 100 }, (_, call) => callTool("nothing_known", { step, call }))
)
const words = Array.from({ length: 8_000 }, (_, index) => say(`word${index} `))

/** As many deltas as a minute has at 200 a second: 600 paragraphs. */
const paragraphs = (pause: `${number} millis`) =>
  Array.from({ length: 600 }, (_, paragraph) => [
    wait(pause),
    ...Array.from({ length: 20 }, (_, word) => say(word === 19 ? `end${paragraph}.\n\n` : "word "))
  ]).flat()

const rows = '[role="treegrid"][aria-rowcount="1023"]'

/** A gateway that knows a plan of 10,000 events, and answers other questions in 12,000 deltas. */
class Large extends Context.Service<Large, { readonly url: string; readonly id: string }>()("Large") {
  static readonly layer = Layer.effect(
    Large,
    Effect.gen(function* () {
      let step = 0
      const { url } = yield* start((asked) =>
        question(asked) === "Many events"
          ? (calls[step++] ?? words)
          : paragraphs(question(asked) === "A minute" ? "100 millis" : "10 millis")
      )
      const preferences = { max_tool_calls: 1_000, max_steps: 100 }
      const id = yield* Effect.promise(() => ask(url, { question: "Many events", preferences }))
      yield* Effect.promise(() => createBowline({ baseUrl: url }).attach(id).result())
      return { url, id }
    })
  )
}

/** What the page makes and changes from its first element on. */
interface Work {
  /** Rows of the timeline that were made. */
  readonly lines: Set<Element>
  /** The most blocks of the answer that one picture has changed or taken away. */
  blocks: number
}

const watchWork = (page: Page) =>
  page.addInitScript(() => {
    const work: Work = { lines: new Set(), blocks: 0 }
    Object.assign(globalThis, { work })
    new MutationObserver((records) => {
      const blocks = new Set<Node>()
      const added = new Set<Node>()
      for (const { addedNodes, removedNodes, target } of records) {
        for (const node of addedNodes) {
          added.add(node)
          if (!(node instanceof Element)) continue
          for (const one of [node, ...node.querySelectorAll(".line")]) if (one.matches(".line")) work.lines.add(one)
        }
        if (target instanceof Element && target.matches(".prose")) for (const node of removedNodes) blocks.add(node)
        let block: Node | null = target
        while (block !== null && !(block.parentNode instanceof Element && block.parentNode.matches(".prose"))) {
          block = block.parentNode
        }
        if (block !== null) blocks.add(block)
      }
      work.blocks = Math.max(work.blocks, blocks.difference(added).size)
    }).observe(document, { childList: true, characterData: true, subtree: true })
  })

const workOf = (page: Page) =>
  page.evaluate(() => {
    const { blocks, lines } = (globalThis as unknown as { readonly work: Work }).work
    return { blocks, lines: lines.size }
  })

/** Scrolls the timeline to its end, a step a picture, and gives how long each picture took, in milliseconds. */
const scroll = (page: Page, step: number) =>
  page.locator(rows).evaluate(async (box, step) => {
    const times: Array<number> = []
    let last = performance.now()
    while (box.scrollTop + box.clientHeight < box.scrollHeight) {
      box.scrollTop += step
      await new Promise(requestAnimationFrame)
      times.push(performance.now() - last)
      last = performance.now()
    }
    return times
  }, step)

describeInBrowser("a large plan", () => {
  layer(Large.layer, { excludeTestServices: true })((it) => {
    it.effect("of 10,000 events is shown whole, with only the rows in view, which scrolling uses again", () =>
      Effect.gen(function* () {
        const { id, url } = yield* Large
        const { context, faults, page } = yield* openPage(url, "/nothing")
        yield* Effect.promise(async () => {
          await watchWork(page)
          await page.goto(`/plans/${id}`)
          await page.getByText("word7999").first().waitFor()
          await page.locator(rows).waitFor()
          const metrics = await context.newCDPSession(page)
          await metrics.send("Performance.enable")
          const layouts = async () =>
            (await metrics.send("Performance.getMetrics")).metrics.find(({ name }) => name === "LayoutCount")?.value ??
            0
          const before = await layouts()
          const steps = (await scroll(page, 280)).length
          await page.getByRole("row", { name: /Step 11/ }).waitFor()
          assert.isAbove(steps, 90)
          assert.isBelow(await page.locator(".line").count(), 40)
          // Every row of the 1,022 has been in view; there were never more elements than a window has rows.
          assert.isBelow((await workOf(page)).lines, 40)
          // A picture is laid out once, and once more for what a scroll has drawn.
          assert.isAtMost((await layouts()) - before, 2 * steps + 10)
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "of 12,000 deltas changes its last blocks only, and leaves less than 20 MB in the tab that has watched",
      () =>
        Effect.gen(function* () {
          const { url } = yield* Large
          const { context, faults, page } = yield* openPage(url, "/nothing")
          const id = yield* Effect.promise(() => ask(url, { question: "Much" }))
          yield* Effect.promise(async () => {
            await watchWork(page)
            await page.goto(`/plans/${id}`)
            const session = await context.newCDPSession(page)
            const heap = async () => {
              await session.send("HeapProfiler.collectGarbage")
              return (await session.send("Runtime.getHeapUsage")).usedSize / 1_000_000
            }
            await page.locator(".prose").getByText("end0.").waitFor()
            const before = await heap()
            await page.locator(".prose").getByText("end599.").waitFor()
            await page.locator(".plan-head").getByText("completed").waitFor()
            assert.isBelow((await heap()) - before, 20)
            assert.isAtMost((await workOf(page)).blocks, 2)
          })
          assert.deepStrictEqual(faults, [])
        })
    )

    // No guarantee: `docs/architecture/performance.md` has what this said.
    it.effect.runIf(process.env["BOWLINE_MEASURE"] === "1")("takes so long on this machine", () =>
      Effect.gen(function* () {
        const { id, url } = yield* Large
        const { context, page } = yield* openPage(url)
        const told: Record<string, unknown> = {}
        const show = (times: ReadonlyArray<number>) => {
          const sorted = times.map(Math.round).toSorted((a, b) => b - a)
          return { pictures: times.length, longest: sorted.slice(0, 5), median: sorted[sorted.length >> 1] }
        }
        yield* Effect.promise(async () => {
          const usable = async (path: string, ready: () => Promise<void>) => {
            const begun = performance.now()
            await page.goto(path)
            await ready()
            const paint = await page.evaluate(
              () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime
            )
            return { paint: Math.round(paint ?? 0), usable: Math.round(performance.now() - begun) }
          }
          const plan = () => page.getByText("word7999").first().waitFor()
          told["the first page"] = await usable("/", () => page.getByLabel("Question").waitFor())
          told["10,000 events"] = [await usable(`/plans/${id}`, plan), await usable(`/plans/${id}`, plan)]
          const session = await context.newCDPSession(page)
          // What the page's thread itself has worked, whatever else the machine does.
          await session.send("Performance.enable", { timeDomain: "threadTicks" })
          const busy = async () =>
            (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")?.value ??
            0
          for (const [rate, step] of [
            [1, 280],
            [1, 2_800],
            [4, 28],
            [4, 280],
            [4, 2_800]
          ] as const) {
            await session.send("Emulation.setCPUThrottlingRate", { rate })
            await page.locator(rows).evaluate((box) => box.scrollTo(0, 0))
            const before = await busy()
            const times = await scroll(page, step)
            const cpu = (((await busy()) - before) * 1_000) / times.length
            told[`scrolling ${step} px a picture at ${rate} x`] = { ...show(times), cpu: cpu.toFixed(1) }
          }
          await session.send("Emulation.setCPUThrottlingRate", { rate: 1 })
          await page.goto(`/plans/${await ask(url, { question: "A minute" })}`)
          await page.locator(".prose").getByText("end0.").waitFor()
          const frames = page.evaluate(async () => {
            const times: Array<number> = []
            let last = performance.now()
            while (document.querySelector(".prose")?.textContent.includes("end599.") !== true) {
              await new Promise(requestAnimationFrame)
              times.push(performance.now() - last)
              last = performance.now()
            }
            return times
          })
          told["200 deltas a second for 60 s"] = show(await frames)
        })
        process.stdout.write(`${JSON.stringify(told, null, 1)}\n`)
      })
    )
  })
})
