import { assert, expect, it, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
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
  await expect.poll(() => page.getByText("Loading…").count(), { timeout: 20_000 }).toBe(0)
}

/** What a screen reader gets, without what is another one in each run: ids, times and lengths of time. */
const withoutTimes = (read: string): string =>
  read
    .replaceAll(/(plan|session|task)_[0-9a-f-]{6,}/g, "$1_…")
    .replaceAll(/\b(?=[0-9a-f]*\d)[0-9a-f]{8,9}\b/g, "…")
    .replaceAll(/(?:< ?)?\d[\d.,]* (?:ms|s|min|h)\b(?: \d+ s)?(?: ago)?/g, "<time>")
    .replaceAll(/\b(?:just )?now\b/g, "<time>")
    .replaceAll(/\d+\/\d+\/\d+, \d+:\d+:\d+ [AP]M/g, "<time>")

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

/** A demo in which everything was asked that the pages can show. */
class Filled extends Context.Service<Filled, { readonly url: string; readonly routes: ReadonlyArray<ShownRoute> }>()(
  "Filled"
) {
  static readonly layer = Layer.effect(
    Filled,
    Effect.gen(function* () {
      const { url } = yield* startDemo
      return { url, routes: yield* Effect.promise(() => fillDemo(url)) }
    })
  )
}

describeInBrowser("every page that has nothing to show", () => {
  it.live("can be used by everybody, in both themes", () =>
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
})

describeInBrowser("every page that is full", () => {
  layer(Filled.layer, { excludeTestServices: true })((it) => {
    it.effect("can be used by everybody, in both themes", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* Filled
        const { faults, page } = yield* openPage(url)
        const barriers = yield* Effect.forEach(routes, (route) => check(page, route))
        assert.deepStrictEqual(barriers.flat(), [])
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("reads as it did before", () =>
      Effect.gen(function* () {
        const { routes, url } = yield* Filled
        const { page } = yield* openPage(url)
        // The peers of the demo are listed by their ports, which are others where several demos run.
        for (const route of routes.filter(({ name }) => name !== "peers")) {
          const read = yield* Effect.promise(async () => {
            await show(page, route)
            return page.locator("main").ariaSnapshot()
          })
          yield* Effect.promise(() => expect(withoutTimes(read)).toMatchFileSnapshot(`golden/${route.name}.aria.yml`))
        }
      })
    )

    it.effect.each([
      { what: "360 pixels", options: { viewport: { width: 360, height: 640 } } },
      // What a zoom of 200 % leaves of 1280 by 800.
      { what: "a window at 200 %", options: { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 } }
    ])("fits into $what", ({ options }) =>
      Effect.gen(function* () {
        const { routes, url } = yield* Filled
        const { faults, page } = yield* openPage(url, "/", options)
        yield* Effect.promise(async () => {
          for (const route of routes) {
            await show(page, route)
            const width = await page.evaluate(() => document.documentElement.scrollWidth)
            assert.isAtMost(width, options.viewport.width, route.path)
          }
        })
        assert.deepStrictEqual(faults, [])
      })
    )
  })
})
