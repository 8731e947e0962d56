import { assert, expect, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { startDemo } from "../browser/Gateway.ts"
import { emptyRoutes, fillDemo, type ShownRoute, show, withoutTimes } from "./Routes.ts"

const themes = ["light", "dark"] as const

const windows = [
  { width: 360, height: 640 },
  // What a zoom of 200 % leaves of 1280 by 800.
  { width: 640, height: 400 }
]

/** What keeps somebody out of the page that is shown. What it is made of is the same in the other theme: only its colours are not. */
const findAll = Effect.fnUntraced(function* (page: Page, { path }: ShownRoute) {
  const barriers: Array<string> = []
  for (const colorScheme of themes) {
    yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
    const found = yield* findBarriers(page, colorScheme === "light" ? "all" : "colours")
    barriers.push(...found.map((barrier) => `${path}, ${colorScheme}: ${barrier}`))
  }
  return barriers
})

/** The windows of these that are too narrow for the page that is shown, which scrolls sideways there, and the labels that are cut. */
const findCuts = async (page: Page, path: string) => {
  const cuts: Array<string> = []
  for (const size of windows) {
    await page.setViewportSize(size)
    const { labels, width } = await page.evaluate(async () => {
      // By then the page has seen its new size, and has drawn itself.
      for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame)
      const end = document.querySelector(".marks")?.getBoundingClientRect().right ?? 0
      const rights = Array.from(document.querySelectorAll(".mark"), (mark) => mark.getBoundingClientRect().right)
      return { labels: rights.filter((right) => right > end + 0.5), width: document.documentElement.scrollWidth }
    })
    if (width > size.width) cuts.push(`${path} is ${width} px wide at ${size.width} px`)
    if (labels.length > 0) cuts.push(`${path} cuts labels of its axis at ${size.width} px`)
  }
  await page.setViewportSize({ width: 1_280, height: 720 })
  return cuts
}

/** What was found out about a page in one visit. */
interface Visit {
  readonly route: ShownRoute
  readonly barriers: ReadonlyArray<string>
  readonly cuts: ReadonlyArray<string>
  readonly read: string
}

const visit = Effect.fnUntraced(function* (page: Page, route: ShownRoute) {
  yield* Effect.promise(() => show(page, route))
  const read = yield* Effect.promise(() => page.locator("main").ariaSnapshot())
  const barriers = yield* findAll(page, route)
  return { route, read, barriers, cuts: yield* Effect.promise(() => findCuts(page, route.path)) }
})

/** The pages of a demo that nobody has asked anything yet, and then of one in which everything was asked that the pages can show. */
class Visited extends Context.Service<
  Visited,
  { readonly empty: ReadonlyArray<Visit>; readonly full: ReadonlyArray<Visit>; readonly faults: ReadonlyArray<string> }
>()("Visited") {
  static readonly layer = Layer.effect(
    Visited,
    Effect.gen(function* () {
      const { url } = yield* startDemo
      const { faults, page } = yield* openPage(url)
      const empty = yield* Effect.forEach(emptyRoutes, (route) =>
        visit(page, { ...route, name: `empty ${route.name}` })
      )
      const routes = yield* Effect.promise(() => fillDemo(url))
      return { empty, full: yield* Effect.forEach(routes, (route) => visit(page, route)), faults }
    })
  )
}

describeInBrowser("every page, empty and full", () => {
  layer(Visited.layer, { excludeTestServices: true })((it) => {
    it.effect("can be used by everybody, in both themes", () =>
      Effect.gen(function* () {
        const { empty, faults, full } = yield* Visited
        assert.deepStrictEqual(
          [...empty, ...full].flatMap(({ barriers }) => barriers),
          []
        )
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect("fits into 360 pixels and into a window at 200 %", () =>
      Effect.gen(function* () {
        const { empty, full } = yield* Visited
        assert.deepStrictEqual(
          [...empty, ...full].flatMap(({ cuts }) => cuts),
          []
        )
      })
    )

    it.effect("reads as it did before", () =>
      Effect.gen(function* () {
        for (const { read, route } of (yield* Visited).full) {
          yield* Effect.promise(() => expect(withoutTimes(read)).toMatchFileSnapshot(`golden/${route.name}.aria.yml`))
        }
      })
    )
  })
})
