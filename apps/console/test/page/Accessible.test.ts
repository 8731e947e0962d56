import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { checkAccessible, describeInBrowser, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"
import { emptyRoutes, fillDemo, type ShownRoute } from "./Routes.ts"

const themes = ["light", "dark"] as const

/** Set, the pages that the docs show are photographed. */
const pictures =
  process.env["BOWLINE_SCREENSHOTS"] === "1" ? join(import.meta.dirname, "../../../../docs/images") : undefined

const shown = new Set(["ask", "plans", "plan", "approvals"])

const show = async (page: Page, { path, ready }: ShownRoute) => {
  await page.goto(path)
  await page.locator(ready).first().waitFor()
}

/** Looks at a page in both themes. */
const check = Effect.fnUntraced(function* (page: Page, route: ShownRoute) {
  yield* Effect.promise(() => show(page, route))
  for (const colorScheme of themes) {
    yield* Effect.promise(() => page.emulateMedia({ colorScheme, reducedMotion: "reduce" }))
    yield* checkAccessible(page)
    if (pictures === undefined || !shown.has(route.name)) continue
    mkdirSync(pictures, { recursive: true })
    yield* Effect.promise(() => page.screenshot({ path: join(pictures, `console-${route.name}-${colorScheme}.png`) }))
  }
})

describeInBrowser("every page", () => {
  it.live("can be used by everybody, in both themes, while there is nothing to show", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url)
      for (const route of emptyRoutes) yield* check(page, { ...route, name: `empty ${route.name}` })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("can be used by everybody, in both themes, when it is full", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const routes = yield* Effect.promise(() => fillDemo(url))
      const { faults, page } = yield* openPage(url)
      for (const route of routes) yield* check(page, route)
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("fits into 360 pixels", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const routes = yield* Effect.promise(() => fillDemo(url))
      const { faults, page } = yield* openPage(url, "/", { viewport: { width: 360, height: 640 } })
      yield* Effect.promise(async () => {
        for (const route of routes) {
          await show(page, route)
          const width = await page.evaluate(() => document.documentElement.scrollWidth)
          assert.isAtMost(width, 360, route.path)
        }
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
