import { assert, expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import type { ShownRoute } from "../page/Routes.ts"
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

const show = async (page: Page, { path, ready }: ShownRoute) => {
  await page.goto(path)
  await page.locator(ready).first().waitFor()
  await expect.poll(() => page.getByText("Loading…").count()).toBe(0)
  await page.evaluate(async () => {
    for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame)
  })
}

const photograph = async (page: Page, name: string) => {
  if (folder === undefined) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.png`), smaller(await page.screenshot()))
}

describeInBrowser("a support desk on an ordinary day", () => {
  layer(SupportDesk.layer, { excludeTestServices: true })((it) => {
    it.effect("is shown whole and for everybody at 390, 1280 and 1440 pixels, in both themes", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* SupportDesk
        const { faults, page } = yield* openPage(url, "/", { reducedMotion: "reduce" })
        const found: Array<string> = []
        for (const size of windows) {
          yield* Effect.promise(() => page.setViewportSize(size))
          for (const colorScheme of themes) {
            yield* Effect.promise(() => page.emulateMedia({ colorScheme, reducedMotion: "reduce" }))
            for (const route of routes) {
              const name = `${route.name}-${size.width}-${colorScheme}`
              yield* Effect.promise(() => show(page, route))
              yield* Effect.promise(() => photograph(page, name))
              const width = yield* Effect.promise(() => page.evaluate(() => document.documentElement.scrollWidth))
              if (width > size.width) found.push(`${name} is ${width} px wide`)
              const barriers = yield* findBarriers(page, colorScheme === "light" ? "all" : "colours")
              found.push(...barriers.map((barrier) => `${name}: ${barrier}`))
            }
          }
        }
        assert.deepStrictEqual(found, [])
        assert.deepStrictEqual(faults, [])
      })
    )
  })
})
