import * as TcpProxy from "@bowline/testing/unstable/http/TcpProxy"
import { stall, until } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, it, layer } from "@effect/vitest"
import { Context, Effect, Latch, Layer } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { describeInBrowser, openBrowser, openPage } from "../browser/Browser.ts"
import { database } from "../browser/Database.ts"
import * as FrontDoor from "../browser/FrontDoor.ts"
import { start, withProvider } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "bowline-console-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** Where a script waits until the test lets it go on. */
const gate = () => {
  const latch = Latch.makeUnsafe(false)
  return { open: latch.open, wait: until(Effect.asVoid(latch.await)) }
}

const banner = (page: Page) => page.getByText(/^Reconnecting, /)
const state = (page: Page, state: string) => page.locator(".plan-head .state").getByText(state)

/** Nothing of a plan that is over still turns, ticks or is half there. */
const checkSettled = async (page: Page) => {
  await state(page, "completed").waitFor()
  await banner(page).waitFor({ state: "detached" })
  assert.strictEqual(await page.locator("[aria-busy=true]").count(), 0)
  assert.strictEqual(await page.getByText("Elapsed", { exact: true }).count(), 0)
  assert.strictEqual(await page.getByRole("button", { name: "Cancel" }).count(), 0)
  assert.strictEqual(await page.getByRole("row").getByText("running").count(), 0)
}

/** A gateway that says the second half of an answer when its question's gate is open. */
class Halting extends Context.Service<
  Halting,
  { readonly url: string; readonly gateOf: (question: string) => ReturnType<typeof gate> }
>()("Halting") {
  static readonly layer = Layer.effect(
    Halting,
    Effect.gen(function* () {
      const gates = new Map<string, ReturnType<typeof gate>>()
      const gateOf = (question: string) => {
        const known = gates.get(question) ?? gate()
        gates.set(question, known)
        return known
      }
      const { url } = yield* start((asked) => [say("It is "), gateOf(question(asked)).wait, say("a knot.")])
      return { url, gateOf }
    })
  )
}

describeInBrowser("a page whose gateway is in trouble", () => {
  layer(Halting.layer, { excludeTestServices: true })((it) => {
    it.effect("loads itself anew for the code of a page that did not come, as soon as it can be had", () =>
      Effect.gen(function* () {
        const { url } = yield* Halting
        const { context, faults, openTab } = yield* openBrowser(url)
        const code = "**/assets/pages-*.js"
        yield* Effect.promise(() => context.route(code, (route) => route.abort()))
        const page = yield* openTab("/sessions")
        yield* Effect.promise(async () => {
          const missing = page.getByText("The gateway has not sent this part of the page.")
          await missing.waitFor()
          const loaded = page.waitForEvent("load")
          await page.getByRole("button", { name: "Load it now" }).click()
          await loaded
          await missing.waitFor()
          await context.unroute(code)
          await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor()
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "sends a question until a gateway that is away answers, says so, and takes nobody away who has left",
      () =>
        Effect.gen(function* () {
          const { gateOf, url } = yield* Halting
          yield* gateOf("What is a bowline?").open
          const door = yield* FrontDoor.open(url)
          const { faults, page } = yield* openPage(door.url)
          const ask = async (question: string) => {
            await page.getByLabel("Question").fill(question)
            await page.getByRole("button", { name: "Ask", exact: true }).click()
            await page.getByText("The gateway cannot be reached. It is asked again until it answers.").waitFor()
          }
          yield* Effect.promise(() => page.getByText("Nothing runs").waitFor())
          yield* door.refuse
          yield* Effect.promise(async () => {
            await ask("Left alone")
            await page.getByRole("link", { name: "Plans", exact: true }).click()
            await page.getByRole("link", { name: "Ask", exact: true }).click()
            await ask("What is a bowline?")
          })
          yield* door.restore
          yield* Effect.promise(async () => {
            await page.locator(".question").getByText("What is a bowline?").waitFor()
            await state(page, "completed").waitFor()
          })
          assert.deepStrictEqual(faults, [])
        })
    )
    it.effect("settles a plan after a proxy has swallowed its end", () =>
      Effect.gen(function* () {
        const { gateOf, url } = yield* Halting
        const rest = gateOf("What is swallowed?")
        const door = yield* FrontDoor.open(url)
        const id = yield* Effect.promise(() => ask(url, { question: "What is swallowed?" }))
        const { context, faults, page } = yield* openPage(door.url)
        yield* Effect.promise(async () => {
          await context.clock.install()
          await page.goto(`/plans/${id}`)
          await page.locator(".answer").getByText("It is").waitFor()
        })
        yield* door.swallow
        yield* rest.open
        yield* Effect.promise(async () => {
          // What is older than 30 s is not waited for, nor a connection for more than 10 s.
          await page.clock.fastForward(31_000)
          await page.clock.fastForward(11_000)
          await banner(page).waitFor()
        })
        yield* door.restore
        yield* Effect.promise(async () => {
          await page.clock.fastForward(21_000)
          await page.locator(".answer .prose").getByText("It is a knot.").waitFor()
          await checkSettled(page)
        })
        assert.deepStrictEqual(faults, [])
      })
    )

    it.effect(
      "has no stream in a tab that nobody has looked at for 30 s, and catches up when it is looked at again",
      () =>
        Effect.gen(function* () {
          const { gateOf, url } = yield* Halting
          const rest = gateOf("What is hidden?")
          const id = yield* Effect.promise(() => ask(url, { question: "What is hidden?" }))
          const { context, page } = yield* openPage(url)
          const hide = (hidden: boolean) =>
            page.evaluate((hidden) => {
              Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden })
              document.dispatchEvent(new Event("visibilitychange"))
            }, hidden)
          const streams = new Set<string>()
          const isStream = (one: { readonly url: () => string }) => one.url().includes("/events")
          page.on("request", (request) => void (isStream(request) && streams.add("open")))
          page.on("requestfailed", (request) => void (isStream(request) && streams.delete("open")))
          yield* Effect.promise(async () => {
            await context.clock.install()
            await page.goto(`/plans/${id}`)
            await page.locator(".answer").getByText("It is").waitFor()
            assert.strictEqual(streams.size, 1)
            const closed = page.waitForEvent("requestfailed", isStream)
            await hide(true)
            // The page's clock goes on by itself, too: what a busy machine takes for this counts.
            await page.clock.fastForward(20_000)
            assert.strictEqual(streams.size, 1)
            await page.clock.fastForward(11_000)
            await closed
          })
          yield* rest.open
          yield* Effect.promise(async () => {
            await hide(false)
            await page.locator(".answer .prose").getByText("It is a knot.").waitFor()
            await checkSettled(page)
          })
        })
    )
  })
})

describeInBrowser("an open plan", () => {
  it.live("goes on where it was when its gateway is killed and comes back", () =>
    Effect.gen(function* () {
      let asked = 0
      const startOne = yield* withProvider(() =>
        asked++ === 0 ? [say("Half an "), stall] : [say("The whole answer.")]
      )
      const settings = { BOWLINE_DATA_DIR: yield* folder }
      const first = yield* startOne(settings)
      const door = yield* FrontDoor.open(first.url)
      const id = yield* Effect.promise(() => ask(door.url, { question: "What is a bowline?" }))
      const { faults, page } = yield* openPage(door.url, `/plans/${id}`)
      yield* Effect.promise(() => page.locator(".answer").getByText("Half an").waitFor())
      yield* first.kill("SIGKILL")
      yield* Effect.promise(() => banner(page).waitFor())
      yield* door.turnTo((yield* startOne(settings)).url)
      yield* Effect.promise(async () => {
        await page.locator(".answer .prose").getByText("The whole answer.").waitFor()
        await checkSettled(page)
        await page.getByText("Retracted: step 1, attempt 1").waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("is there again when the database is back, also in a tab that was opened without it", () =>
    Effect.gen(function* () {
      const rest = gate()
      const url = yield* database
      const db = yield* TcpProxy.proxy(url)
      url.port = db.port
      url.hostname = "127.0.0.1"
      const gateway = yield* start([[say("It is "), rest.wait, say("a knot.")]], { DATABASE_URL: url.toString() })
      const id = yield* Effect.promise(() => ask(gateway.url, { question: "What is a bowline?" }))
      const { context, faults, page } = yield* openPage(gateway.url, `/plans/${id}`)
      yield* Effect.promise(() => page.locator(".answer").getByText("It is").waitFor())
      yield* db.refuse
      yield* rest.open
      const other = yield* Effect.promise(async () => {
        const other = await context.newPage()
        await other.goto(`/plans/${id}`)
        await banner(other).waitFor()
        return other
      })
      yield* db.restore
      yield* Effect.promise(async () => {
        for (const one of [page, other]) {
          await one.bringToFront()
          await one.locator(".answer .prose").getByText("It is a knot.").waitFor()
          await checkSettled(one)
        }
      })
      assert.deepStrictEqual(faults, [])
    })
  )
})
