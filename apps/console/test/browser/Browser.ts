import { describe } from "@effect/vitest"
import axe, { type AxeResults } from "axe-core"
import { Effect } from "effect"
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core"
import { inject } from "vitest"

const browserUrl = inject("browserUrl")

/** Its tests need a browser, and are skipped where there is none. */
export const describeInBrowser = browserUrl === null ? describe.skip : describe

/** The files of a worker share its connection: the browser ends it with itself. */
let connection: Promise<Browser> | undefined

/** What no page of ours may do: log errors, fail, violate its policy, or ask somebody else. */
const watch = (page: Page, origin: string, faults: Array<string>) => {
  // Refusals that a test provokes are logged by the browser itself.
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) faults.push(message.text())
  })
  page.on("pageerror", (error) => faults.push(String(error)))
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin) {
      faults.push(`asked ${request.url()}`)
    }
  })
}

/** A person's browser at the gateway: its tabs share cookies and storage. `faults` has what pages did wrong, for a test to look at. */
export const openBrowser = Effect.fnUntraced(function* (url: string, options: BrowserContextOptions = {}) {
  const context = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const browser = await (connection ??= chromium.connect(browserUrl ?? ""))
      // What moves without an end is painted for as long as it is shown.
      return browser.newContext({ baseURL: url, reducedMotion: "reduce", ...options })
    }),
    (context) => Effect.promise(() => context.close())
  )
  // A busy machine takes its time; what never comes ends the test all the same.
  context.setDefaultTimeout(120_000)
  const faults: Array<string> = []
  context.on("page", (page) => watch(page, new URL(url).origin, faults))
  const openTab = (path = "/") =>
    Effect.promise(async () => {
      const page = await context.newPage()
      await page.goto(path)
      return page
    })
  return { context, faults, openTab }
})

/** The only tab of a person. */
export const openPage = Effect.fnUntraced(function* (
  url: string,
  path: string = "/",
  options: BrowserContextOptions = {}
) {
  const { context, faults, openTab } = yield* openBrowser(url, options)
  return { context, faults, page: yield* openTab(path) }
})

/** What axe finds in a page as it is now that keeps somebody out: everything serious or critical, by all rules or only those about colours. */
export const findBarriers = (page: Page, rules: "all" | "colours" = "all") =>
  Effect.promise(async () => {
    // The policy of the page holds for its own scripts, not for what the test evaluates.
    if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(axe.source)
    const runOnly = rules === "all" ? undefined : ["color-contrast", "link-in-text-block"]
    const { violations } = await page.evaluate<AxeResults>(
      // The selectors of what it has looked at, which nobody reads, are a third of its work.
      `axe.run(${JSON.stringify({ resultTypes: ["violations"], selectors: false, runOnly })})`
    )
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
  })
