import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces, says } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { question, results } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, think } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { describeInBrowser, openPage } from "../browser/Browser.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

/** What runs, or asks somebody, in a page that takes it for markup. */
const evil = [
  `<img src=x onerror="planted()">`,
  `<script>planted()</script>`,
  `"><svg onload=planted()>`,
  "[press](javascript:planted())",
  "![seen](http://evil.example/seen.png)",
  "<javascript:planted()>",
  `<a href="javascript:planted()">press</a>`,
  "[data](data:text/html,<script>planted()</script>)",
  "&lt;img src=x onerror=planted()&gt;"
].join(" ")

/** A line that no page can break. */
const long = "x".repeat(200_000)

/** The elements of the page that only markup out of a text could have made. */
const foreign = (page: Page) =>
  page.evaluate(() =>
    Array.from(
      document.querySelectorAll(
        "img, iframe, object, embed, body script, svg [onload], [onerror], [onload], main a:not([href^='/']):not([href^='http']):not([href^='#'])"
      ),
      (element) => element.outerHTML.slice(0, 200)
    )
  )

describeInBrowser("what models, peers and callers say", () => {
  it.live("is text on every page, also where it is markup, and whatever its length", () =>
    Effect.gen(function* () {
      const peer = yield* serve({
        card: {
          name: `peer ${evil}`.slice(0, 200),
          description: evil,
          skills: [{ id: "ask", name: evil, description: evil, tags: [evil] }]
        },
        acts: [says(evil), produces(`${evil}\n${long}`), completes(evil)]
      })
      const { url } = yield* start((asked) => {
        if (question(asked).includes("fail")) return [error(400, { message: evil, code: "bad" })]
        if (results(asked).length === 0) {
          return [
            think(`${evil} ${long}`),
            say(evil),
            callTool("peer_ask", { input: evil }),
            callTool(evil, { [evil]: evil })
          ]
        }
        if (question(asked).includes(long.slice(1_000))) return [say(`${evil} ${long}`)]
        return [say(`# ${evil}\n\n- ${evil}\n\n| ${evil.replaceAll("|", "")} |\n| --- |\n| x |\n\n${evil}`)]
      })
      const agents = [{ name: "peer", endpoint: `${peer.url}/` }]
      const session = `<img src=x onerror="planted()"> ${"y".repeat(100)}`
      const request = { question: evil, session_id: session, agents }
      const answered = yield* Effect.promise(() => ask(url, request))
      const endless = { ...request, question: `${evil} ${long}`.slice(0, 200_000) }
      const big = yield* Effect.promise(() => ask(url, endless))
      const failed = yield* Effect.promise(() => ask(url, { question: `fail ${evil}`, session_id: session }))
      const approvals = { ...request, session_id: evil.slice(0, 200), preferences: { approval: "always" as const } }
      const waiting = yield* Effect.promise(() => ask(url, approvals))

      const { context, faults, page } = yield* openPage(url)
      const asked: Array<string> = []
      context.on("request", (request) => asked.push(request.url()))
      yield* Effect.promise(async () => {
        await page.exposeFunction("planted", () => faults.push("planted markup ran"))
        const look = async (path: string, ready: string) => {
          await page.goto(path)
          await page.locator(ready).first().waitFor()
          assert.deepStrictEqual(await foreign(page), [], path)
          // The page itself does not scroll sideways: what is long breaks, or scrolls in a box of its own.
          const { client, scroll } = await page.evaluate(() => ({
            client: document.documentElement.clientWidth,
            scroll: document.documentElement.scrollWidth
          }))
          assert.isAtMost(scroll, client, path)
        }
        await look(`/plans/${answered}`, ".prose li")
        for (const row of await page.locator(".lines [role=row]").all()) {
          await row.click()
          assert.deepStrictEqual(await foreign(page), [])
        }
        for (const link of await page.locator(".prose a").all()) {
          assert.match((await link.getAttribute("href")) ?? "", /^https?:\/\//)
          assert.strictEqual(await link.getAttribute("rel"), "noopener noreferrer")
        }
        await look(`/plans/${big}`, ".prose")
        await look(`/plans/${failed}`, ".outcome")
        await look(`/plans/${waiting}`, ".approval")
        await look("/", ".ask")
        await look("/plans", "tbody tr")
        await look("/sessions", "tbody tr")
        await page.locator("tbody a").first().click()
        await page.getByRole("heading", { level: 1 }).waitFor()
        assert.deepStrictEqual(await foreign(page), [])
        await look("/approvals", ".approval")
        await look("/peers", "main h1")
        await look(`/plans?q=${encodeURIComponent(evil)}`, "main h1")
        await look(`/${encodeURIComponent(evil)}`, "main h1")
      })
      assert.deepStrictEqual(faults, [])
      assert.deepStrictEqual(
        asked.filter((one) => !one.startsWith(url)),
        []
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
