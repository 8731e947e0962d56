import { createBowline } from "@bowline/client"
import { json, text } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describeInBrowser, findBarriers, openPage } from "../browser/Browser.ts"
import { connectAccount, database } from "../browser/Database.ts"
import { start } from "../browser/Gateway.ts"
import { ask } from "./Ask.ts"
import { withoutTimes } from "./Routes.ts"

const measure = {
  name: "measure",
  description: "Measures a rope on the client's side",
  input_schema: { type: "object", properties: { rope: { type: "string", description: "Which rope" } } },
  output_schema: {
    type: "object",
    properties: { metres: { type: "number", description: "Its length" } },
    required: ["metres"]
  }
}

/** A gateway whose model asks the client to measure, and repeats what it was told. */
const measuring = start((asked) =>
  results(asked).length === 0
    ? [callTool("measure", { rope: "the long one" })]
    : [say(`Told: ${results(asked).join()}`)]
)

/** An authorization server, for browsers at another site than the gateway, whose page has a link back to that. */
const serveBooks = Effect.gen(function* () {
  const { url } = yield* (yield* Network).serve(({ url: { pathname, searchParams } }) => {
    if (pathname === "/token") {
      return Effect.succeed(json(200, { access_token: "token-of-books", token_type: "Bearer", scope: "read" }))
    }
    const back = new URL(searchParams.get("redirect_uri") ?? "")
    back.searchParams.set("code", "code")
    back.searchParams.set("state", searchParams.get("state") ?? "")
    const page = `<a href="${String(back).replaceAll("&", "&amp;")}">Agree</a>`
    return Effect.succeed(text(200, page, { "content-type": "text/html" }))
  })
  const authorization_url = `${url.replace("127.0.0.1", "localhost")}/authorize`
  return { authorization_url, token_url: `${url}/token`, client_id: "x", scopes: ["read"] }
})

/** In almost eleven days, whatever the day is. */
const inElevenDays = new Date(Date.now() + 10.8 * 86_400_000).toISOString()

const wait = {
  session_id: "session_00000000-0000-4000-8000-000000000001",
  agent: "archive",
  tool: "archive_search",
  input: { query: "knots" },
  why: null,
  message: null,
  data: null,
  url: null,
  since: "2026-01-02T03:04:05.000Z",
  expires_at: inElevenDays,
  caller: "anonymous"
}

describeInBrowser("what waits for somebody", () => {
  it.live("is a card that takes the result of a tool of the client, checked by its schema", () =>
    Effect.gen(function* () {
      const { url } = yield* measuring
      const id = yield* Effect.promise(() => ask(url, { question: "How long is it?", tools: [measure] }))
      const { faults, page } = yield* openPage(url, "/waiting")
      const card = page.getByRole("article", { name: "Result of measure" })
      yield* Effect.promise(async () => {
        await card.getByText("anonymous asked").waitFor()
        await page.getByText("1 call waiting for a result").waitFor()
        await card.getByText("the long one", { exact: true }).waitFor()
        await card.getByLabel(/^metres/).fill("many")
        await card.getByRole("button", { name: "Give the result" }).press("Enter")
        await card.getByRole("alert").getByText("metres is not a number.").waitFor()
        await card.getByRole("button", { name: "As JSON" }).press("Enter")
        await card.getByLabel("JSON", { exact: true }).fill(`{"metres":"many"}`)
        await card.getByRole("button", { name: "Give the result" }).press("Enter")
        await card
          .getByRole("alert")
          .getByText(/metres/)
          .waitFor()
        await card.getByLabel("JSON", { exact: true }).fill(`{"metres":12.5}`)
        const read = await page.locator("main").ariaSnapshot()
        await expect(withoutTimes(read)).toMatchFileSnapshot("golden/result.aria.yml")
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page), [])
      }
      yield* Effect.promise(async () => {
        await card.getByRole("button", { name: "Give the result" }).press("Enter")
        await card.getByText("You gave the result.").waitFor()
        await page.goto(`/plans/${id}`)
        await page.locator(".answer").getByText(/12\.5/).waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("takes a failure in words from the plan's own page, and says who comes too late", () =>
    Effect.gen(function* () {
      const { url } = yield* measuring
      const id = yield* Effect.promise(() => ask(url, { question: "How long is it?", tools: [measure] }))
      const { page } = yield* openPage(url, `/plans/${id}`)
      const card = page.getByRole("article", { name: "Result of measure" })
      yield* Effect.promise(async () => {
        await page.locator(".plan-head").getByText("waits for an answer").waitFor()
        await card.getByLabel("The call has failed").check()
        await card.getByLabel("Why the call failed").fill("The rope is gone.")
        await card.getByRole("button", { name: "Give the result" }).click()
        await page
          .locator(".answer")
          .getByText(/The rope is gone/)
          .waitFor()
        await card.waitFor({ state: "detached" })

        const again = await ask(url, { question: "And this one?", tools: [measure] })
        await page.goto(`/waiting`)
        await card.getByLabel(/^metres/).fill("3")
        // From here on this tab hears nothing new, as over a slow network.
        await page.route("**/waiting?*", () => undefined)
        const bowline = createBowline({ baseUrl: url })
        const [first] = (await bowline.waiting.list().page()).waiting
        await bowline.inbox.send(again, { type: "result", task_id: first?.task_id ?? "", content: { metres: 4 } })
        await card.getByRole("button", { name: "Give the result" }).click()
        await card
          .getByRole("alert")
          .getByText(/You came too late/)
          .waitFor()
        await bowline.attach(again).result()
      })
    })
  )

  it.live("has a page of the accounts that are connected, to unlink each, and a link to connect one, by keyboard", () =>
    Effect.gen(function* () {
      const db = yield* database
      yield* connectAccount(db, "anonymous", "books")
      const folder = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "bowline-accounts-"))),
        (made) => Effect.promise(() => rm(made, { recursive: true }))
      )
      const file = join(folder, "bowline.json")
      const books = yield* serveBooks
      const bank = yield* ScriptedPeer.serve({ acts: [completes("paid")] })
      const agent = {
        name: "bank",
        endpoint: `${bank.url}/`,
        dialect: "a2a-0.3",
        skills: [{ id: "pay" }],
        auth: { type: "account", account: "books" }
      }
      yield* Effect.promise(() => writeFile(file, JSON.stringify({ accounts: { books }, agents: [agent] })))
      const key = { BOWLINE_SECRET_KEY: Buffer.alloc(32).toString("base64"), BOWLINE_CONFIG: file }
      const { url } = yield* start(
        (asked) => (results(asked).length === 0 ? [callTool("bank_pay", { input: "7" })] : [say("It is paid.")]),
        { DATABASE_URL: db.toString(), ...key }
      )
      const { context, faults, page } = yield* openPage(url, "/waiting")
      yield* Effect.promise(async () => {
        await page.getByRole("link", { name: "Accounts" }).press("Enter")
        await page.getByRole("button", { name: "Unlink books" }).waitFor()
        assert.match(await page.title(), /^Accounts/)
        const read = await page.locator("main").ariaSnapshot()
        await expect(withoutTimes(read)).toMatchFileSnapshot("golden/accounts.aria.yml")
      })
      for (const colorScheme of ["light", "dark"] as const) {
        yield* Effect.promise(() => page.emulateMedia({ colorScheme }))
        assert.deepStrictEqual(yield* findBarriers(page), [])
      }
      yield* Effect.promise(async () => {
        await page.setViewportSize({ width: 360, height: 640 })
        const width = await page.evaluate(() => document.documentElement.scrollWidth)
        assert.isAtMost(width, 360)
        await page.getByRole("button", { name: "Unlink books" }).press("Enter")
        await page.getByText(/^books is unlinked/).waitFor()
        await page.getByText("No account is connected").waitFor()
        await page.reload()
        await page.getByText("No account is connected").waitFor()
      })
      assert.deepStrictEqual(faults, [])

      // The next call asks for it. The way there and back leads over another site, and is a browser's own: its form, origin and cookies.
      const id = yield* Effect.promise(() => ask(url, { question: "Pay." }))
      yield* Effect.promise(async () => {
        await page.goto("/waiting")
        const link = page.getByRole("link", { name: "Connect the account for bank_pay" })
        // It has the port that is configured, which is none.
        await link.evaluate((to, own) => {
          to.setAttribute("href", (to.getAttribute("href") ?? "").replace(/^http:\/\/[^/]*/, own))
        }, url)
        const opening = context.waitForEvent("page")
        await link.press("Enter")
        const opened = await opening
        await opened.getByRole("heading", { name: "Let anonymous act as you at books?" }).waitFor()
        await opened.getByRole("button", { name: /^Go on to/ }).press("Enter")
        await opened.getByRole("link", { name: "Agree" }).press("Enter")
        await opened.getByRole("heading", { name: "books is connected" }).waitFor()
        await page.goto(`/plans/${id}`)
        await page.locator(".answer").getByText("It is paid.").waitFor()
        await page.goto("/accounts")
        await page.getByRole("button", { name: "Unlink books" }).waitFor()
      })
      const sent = (yield* bank.requests.all).filter(({ method }) => method === "POST")
      assert.deepStrictEqual(
        sent.map(({ headers }) => headers["authorization"]),
        ["Bearer token-of-books"]
      )
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("names on the plan's page what a parked plan waits for, and until when, and wakes it", () =>
    Effect.gen(function* () {
      const db = yield* database
      const { url } = yield* start(
        (asked) => (results(asked).length === 0 ? [callTool("measure", { rope: "long" })] : [say("Told.")]),
        { DATABASE_URL: db.toString(), BOWLINE_PARK_AFTER: "100ms" }
      )
      const id = yield* Effect.promise(() => ask(url, { question: "How long is it?", tools: [measure] }))
      const { faults, page } = yield* openPage(url, `/plans/${id}`)
      yield* Effect.promise(async () => {
        await page.getByText(/^Waits for the result of measure until .*It is parked/).waitFor()
        await page.reload()
        await page.getByText(/^Waits for the result of measure until .*It is parked/).waitFor()
        assert.strictEqual(await page.getByText("Deadline", { exact: true }).count(), 0)
        await page.getByLabel(/^metres/).fill("3")
        await page.getByRole("button", { name: "Give the result" }).click()
        await page.locator(".answer").getByText("Told.").waitFor()
        await page.getByText("Deadline", { exact: true }).waitFor()
      })
      assert.deepStrictEqual(faults, [])
    })
  )

  it.live("asks what a peer asks, in a form, in words, or behind a link; a strange address is no link", () =>
    Effect.gen(function* () {
      const { url } = yield* measuring
      const { faults, page } = yield* openPage(url)
      const plan_id = "plan_00000000-0000-4000-8000-000000000001"
      const of = (n: number, fields: object) => ({
        ...wait,
        plan_id,
        task_id: `00000000-0000-4000-8000-00000000000${n}`,
        ...fields
      })
      const data = { type: "object", properties: { since: { type: "integer" } }, required: ["since"] }
      const waiting = [
        of(1, { kind: "answer", message: "Since when?", data }),
        of(2, { kind: "answer", tool: "archive_name", message: "What is your name?" }),
        of(3, { kind: "answer", tool: "archive_pay", message: "Please pay.", url: "https://pay.example/1" }),
        of(4, { kind: "account", tool: "archive_login", message: "Log in.", url: "javascript:alert(1)" })
      ]
      const sent: Array<unknown> = []
      yield* Effect.promise(async () => {
        await page.route("**/waiting?*", (route) => route.fulfill({ json: { waiting, next_cursor: null } }))
        await page.route("**/inbox", (route) => {
          sent.push(route.request().postDataJSON())
          return route.fulfill({ status: 202, json: { entry_id: "entry", plan_id, moved: false } })
        })
        await page.goto("/waiting")
        const card = (tool: string) => page.getByRole("article", { name: new RegExp(`of ${tool}$`) })
        await card("archive_search").getByText("Since when?").waitFor()
        const read = await page.locator("main").ariaSnapshot()
        await expect(withoutTimes(read)).toMatchFileSnapshot("golden/answers.aria.yml")
        await card("archive_search")
          .getByLabel(/^since/)
          .fill("1999")
        await card("archive_search").getByRole("button", { name: "Answer" }).click()
        await card("archive_search").getByText("You answered.").waitFor()
        await card("archive_name").getByLabel("Answer").fill("Ann")
        await card("archive_name").getByRole("button", { name: "Answer" }).click()
        await card("archive_name").getByText("You answered.").waitFor()
        await card("archive_pay").getByRole("link", { name: "https://pay.example/1" }).waitFor()
        await card("archive_pay").getByRole("button", { name: "Decline" }).click()
        await card("archive_pay").getByText("You answered.").waitFor()
        await card("archive_login").getByText("javascript:alert(1)").waitFor()
        assert.strictEqual(
          await card("archive_login")
            .getByRole("link", { name: /javascript/ })
            .count(),
          0
        )
      })
      assert.deepStrictEqual(sent, [
        { type: "answer", task_id: waiting[0]?.task_id, action: "accept", data: { since: 1999 } },
        { type: "answer", task_id: waiting[1]?.task_id, text: "Ann" },
        { type: "answer", task_id: waiting[2]?.task_id, action: "decline" }
      ])
      assert.deepStrictEqual(yield* findBarriers(page), [])
      assert.deepStrictEqual(faults, [])
    })
  )
})
