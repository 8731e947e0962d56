import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"
import { build } from "vite"
import { describeInBrowser, openBrowser } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"

const bundle = async (): Promise<string> => {
  const entry = createRequire(import.meta.url).resolve("@bowline/client/tools")
  const result = await build({
    configFile: false,
    logLevel: "silent",
    build: { write: false, target: "es2024", lib: { entry, formats: ["es"], fileName: "bowline" } }
  })
  const [chunk] = [result].flat().flatMap((one) => ("output" in one ? one.output : []))
  return chunk?.type === "chunk" ? chunk.code : ""
}

/** A page of the app: its tool asks the person, who presses the button. */
const html = `<!doctype html><title>Boats</title><output></output>
<script type="module">
  import { createBowline } from "/app/bowline.js"
  const bowline = createBowline({ baseUrl: "" })
  const run = ({ boats }) =>
    new Promise((resolve) => {
      const button = document.body.appendChild(document.createElement("button"))
      button.textContent = boats[0]
      button.onclick = () => resolve({ boat: boats[0] })
    })
  const tools = { pick: { schema: { type: "object", properties: { boats: { type: "array" } } }, run } }
  const known = location.hash.slice(1)
  const plan = known
    ? bowline.attach(known, { tools })
    : bowline.plan({ question: "Which boat?", tools, preferences: { on_disconnect: "continue" } })
  history.replaceState(null, "", "#" + (await plan.planId))
  document.querySelector("output").textContent = (await plan.result()).text
</script>`

const isShown = (page: Page, text: string) => page.locator("output", { hasText: text }).waitFor()

describeInBrowser("tools that run in a browser", () => {
  it.live("are answered by the person, also on a page that was loaded again, and once by two tabs", () =>
    Effect.gen(function* () {
      const { url } = yield* start((asked) =>
        results(asked).length === 0
          ? [callTool("pick", { boats: ["Swift", "Gull"] })]
          : [say(`Booked: ${results(asked).join()}`)]
      )
      const { context, faults, openTab } = yield* openBrowser(url)
      yield* Effect.promise(async () => {
        const body = await bundle()
        await context.route("**/app/", (route) => route.fulfill({ contentType: "text/html", body: html }))
        await context.route("**/app/bowline.js", (route) => route.fulfill({ contentType: "text/javascript", body }))
      })
      const page = yield* openTab("/app/")
      yield* Effect.promise(async () => {
        await page.getByRole("button", { name: "Swift" }).waitFor()
        await page.reload()
        await page.getByRole("button", { name: "Swift" }).waitFor()
      })
      const other = yield* openTab(`/app/${new URL(page.url()).hash}`)
      yield* Effect.promise(async () => {
        await other.getByRole("button", { name: "Swift" }).click()
        await isShown(page, '{"boat":"Swift"}')
        await isShown(other, '{"boat":"Swift"}')
        assert.strictEqual(await page.getByRole("button").count(), 1)
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
