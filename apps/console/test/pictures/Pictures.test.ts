import { assert, expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { show, withoutTimes } from "../page/Routes.ts"
import { smaller } from "./SmallPng.ts"
import { SupportDesk } from "./SupportDesk.ts"

const themes = ["light", "dark"] as const
const windows = [
  { width: 390, height: 844 },
  { width: 1_280, height: 720 },
  { width: 1_440, height: 900 }
]

/** Set, every page is photographed for the docs. */
const folder =
  process.env["BOWLINE_SCREENSHOTS"] === "1" ? join(import.meta.dirname, "../../../../docs/images/console") : undefined

const photograph = async (page: Page, name: string) => {
  await page.evaluate(async () => {
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame)
  })
  if (folder === undefined) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.png`), smaller(await page.screenshot()))
}

/** What can be used on the page that is shown, and is not reached by Tab, or has a focus that nobody sees. Within bars the arrow keys move. */
const findUnreached = async (page: Page): Promise<ReadonlyArray<string>> => {
  const count = await page.evaluate(() => {
    const usable =
      "a[href]:not([tabindex='-1']), button:not(:disabled), input, select, textarea, summary, [tabindex='0']"
    const shown = Array.from(document.querySelectorAll<HTMLElement>(usable)).filter((one) => one.checkVisibility())
    for (const [index, one] of shown.entries()) one.dataset["stop"] = String(index)
    document.body.tabIndex = -1
    document.body.focus()
    return shown.length
  })
  // A box that scrolls is a stop of its own.
  for (let presses = 0; presses < 2 * count + 10; presses++) {
    await page.keyboard.press("Tab")
    const isOver = await page.evaluate(() => {
      const one = document.activeElement
      if (!(one instanceof HTMLElement) || one === document.body) return true
      const { outlineStyle, outlineWidth } = getComputedStyle(one)
      one.dataset["seen"] = String(outlineStyle !== "none" && outlineWidth !== "0px")
      return false
    })
    if (isOver) break
  }
  const found = await page.evaluate(() =>
    Array.from(document.querySelectorAll<HTMLElement>("[data-stop]:not([data-seen='true'])"), (one) => one.outerHTML)
  )
  return found.map((html) => html.slice(0, 120))
}

/** What a screen reader gets of these. */
const read = new Set(["plan", "failed", "session", "approvals"])

describeInBrowser("a support desk on an ordinary day", () => {
  layer(SupportDesk.layer, { excludeTestServices: true })((it) => {
    it.effect("is shown whole and for everybody at 390, 1280 and 1440 pixels, in both themes", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url)
        const found: Array<string> = []
        for (const route of routes) {
          for (const size of windows) {
            yield* Effect.promise(() => page.setViewportSize(size))
            // What is wide has opened the same rows at each width.
            if (size.width !== 1_440) yield* Effect.promise(() => show(page, route))
            for (const colorScheme of themes) {
              yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
              const name = `${route.name}-${size.width}-${colorScheme}`
              yield* Effect.promise(() => photograph(page, name))
              const width = yield* Effect.promise(() => page.evaluate(() => document.documentElement.scrollWidth))
              if (width > size.width) found.push(`${name} is ${width} px wide`)
              // Between the narrow and the wide one nothing else is on the page.
              if (size.width === 1_280) continue
              const barriers = yield* findBarriers(page, colorScheme === "light" ? "all" : "colours")
              found.push(...barriers.map((barrier) => `${name}: ${barrier}`))
            }
          }
        }
        assert.deepStrictEqual(found, [])
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("is used by keyboard alone: Tab reaches everything, with a focus that is seen", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url)
        const found: Array<string> = []
        for (const route of routes) {
          yield* Effect.promise(() => show(page, route))
          const unreached = yield* Effect.promise(() => findUnreached(page))
          found.push(...unreached.map((html) => `${route.name}: ${html}`))
        }
        assert.deepStrictEqual(found, [])
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("reads as it did before", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { page } = yield* openPage(url)
        for (const route of routes.filter(({ name }) => read.has(name))) {
          yield* Effect.promise(async () => {
            await show(page, route)
            const tree = withoutTimes(await page.locator("main").ariaSnapshot())
            await expect(tree).toMatchFileSnapshot(`golden/${route.name}.aria.yml`)
          })
        }
      })
    )
  })
})
