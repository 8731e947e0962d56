import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"
import { emptyRoutes, fillDemo, type ShownRoute } from "./Routes.ts"

const themes = ["light", "dark"] as const

/** Set, the pages that the docs show are photographed. */
const pictures =
  process.env["BOWLINE_SCREENSHOTS"] === "1" ? join(import.meta.dirname, "../../../../docs/images") : undefined

const shown = new Set(["ask", "plan", "approvals"])

const show = async (page: Page, { path, ready }: ShownRoute) => {
  await page.goto(path)
  await page.locator(ready).first().waitFor()
}

/** What keeps somebody out of a page, in both themes. */
const check = Effect.fnUntraced(function* (page: Page, route: ShownRoute) {
  yield* Effect.promise(() => show(page, route))
  const barriers: Array<string> = []
  for (const colorScheme of themes) {
    yield* Effect.promise(() => page.emulateMedia({ colorScheme, reducedMotion: "reduce" }))
    barriers.push(...(yield* findBarriers(page)).map((barrier) => `${route.path}, ${colorScheme}: ${barrier}`))
    if (pictures === undefined || !shown.has(route.name)) continue
    mkdirSync(pictures, { recursive: true })
    yield* Effect.promise(() => page.screenshot({ path: join(pictures, `console-${route.name}-${colorScheme}.png`) }))
  }
  return barriers
})

describeInBrowser("every page", () => {
  it.live("can be used by everybody, in both themes, while there is nothing to show", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url)
      const barriers = yield* Effect.forEach(emptyRoutes, (route) =>
        check(page, { ...route, name: `empty ${route.name}` })
      )
      assert.deepStrictEqual(barriers.flat(), [])
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("can be used by everybody, in both themes, when it is full", () =>
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const routes = yield* Effect.promise(() => fillDemo(url))
      const { faults, page } = yield* openPage(url)
      const barriers = yield* Effect.forEach(routes, (route) => check(page, route))
      assert.deepStrictEqual(barriers.flat(), [])
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
