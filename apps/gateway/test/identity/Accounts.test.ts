import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { decodeJwt } from "jose"
import { join } from "node:path"
import { gunzipSync } from "node:zlib"
import { bowline } from "../cli/Bowline.ts"
import { folderOf, problems } from "../config/file/ConfigFolder.ts"
import { clients, readOut } from "../edge/a2a/Clients.ts"
import { payloads, post, send, start, stores } from "../http/RunningGateway.ts"
import { dump } from "../plan/Databases.ts"
import { makeBrowser } from "./Browser.ts"
import { newKey, serve } from "./OpenIdProvider.ts"

const client = { client_id: "books", client_secret: "planted-client-secret" }
const ann = { authorization: "Bearer key-of-ann" }
const bob = { authorization: "Bearer key-of-bob" }
const environment = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob",
  BOWLINE_SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
  BOWLINE_SHUTDOWN_GRACE: "0s",
  BOOKS_SECRET: client.client_secret
}

const script: Script = (asked) =>
  results(asked).length === 0 ? [callTool("rigger_pay", { input: "7" })] : [say("done")]

const bearerOf = (headers: Readonly<Record<string, string | undefined>>) =>
  (headers["authorization"] ?? "").replace("Bearer ", "")

/** Two replicas, an authorization server whose tokens live for 30 s and whose refresh tokens rotate, and an agent that is called as the caller. */
const given = Effect.fnUntraced(function* (store: Readonly<Record<string, string>>) {
  const key = yield* newKey("one")
  const provider = yield* serve([key])
  const peer = yield* ScriptedPeer.serve({ acts: [completes("paid")] })
  const folder = yield* folderOf({
    "gateway.json": JSON.stringify({
      accounts: {
        books: {
          issuer: provider.issuer,
          client_id: client.client_id,
          client_secret_env_var: "BOOKS_SECRET",
          scopes: ["pay"],
          resource: peer.url
        }
      },
      agents: [
        {
          name: "rigger",
          endpoint: `${peer.url}/`,
          dialect: "a2a-0.3",
          skills: [{ id: "pay" }],
          auth: { type: "account", account: "books" }
        }
      ]
    })
  })
  const replica = start(script, { ...environment, BOWLINE_CONFIG: join(folder, "gateway.json"), ...store })
  const [one, other] = [yield* replica, yield* replica]
  const resource = {
    audience: "https://books.test/",
    accessTokenFormat: "jwt",
    accessTokenTTL: 30,
    scope: "pay"
  } as const
  yield* provider.rotate([key], {
    clients: [
      {
        ...client,
        redirect_uris: [one, other].map(({ url }) => `${url}/accounts/callback`),
        response_types: ["code"],
        grant_types: ["authorization_code", "refresh_token"]
      }
    ],
    scopes: ["pay"],
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({ ...resource, jwt: { sign: { alg: "RS256" } } }),
        useGrantedResource: () => true
      }
    }
  })
  const ask = (url = one.url, body: object = {}) => post(`${url}/plan`, { question: "?", ...body }, ann)
  /** The link of the one plan that waits, at a replica. */
  const linkAt = (url: string) =>
    send(`${url}/waiting?kind=account`, { headers: ann }).pipe(
      Effect.repeat({
        until: ({ body }) => (body["waiting"] as ReadonlyArray<unknown>).length === 1,
        schedule: Schedule.spaced("20 millis")
      }),
      Effect.map(({ body }) => {
        const [{ url: link }] = body["waiting"] as readonly [{ readonly url: string }]
        const { pathname, search } = new URL(link)
        return `${url}${pathname}${search}`
      })
    )
  const tokens = Effect.map(peer.requests.all, (all) =>
    all.filter(({ method }) => method === "POST").map(({ headers }) => bearerOf(headers))
  )
  return { provider, peer, one, other, ask, linkAt, tokens, scripted: one.provider }
})

describe("an account", () => {
  it.live("is granted on another replica than the one whose plan waits, renewed by both, and taken back", () =>
    Effect.gen(function* () {
      const store = yield* stores.postgres
      const { ask, linkAt, one, other, provider, scripted, tokens } = yield* given(store)
      const asked = yield* Effect.forkChild(ask())
      const link = yield* linkAt(other.url)
      assert.deepStrictEqual(yield* tokens, [])
      const browser = makeBrowser()
      const shown = yield* Effect.flatMap(browser.get(link), (page) => Effect.promise(() => page.text()))
      for (const text of ["ann", "books", "rigger", new URL(provider.issuer).host, "<code>pay</code>"]) {
        assert.include(shown, text)
      }
      const page = yield* browser.follow(link)
      assert.include(page.text, "books is connected", `${page.url} ${page.status}`)
      const { body } = yield* Fiber.join(asked)
      assert.strictEqual(body["state"], "completed", JSON.stringify(body))
      assert.deepStrictEqual(
        (yield* tokens).map((token) => decodeJwt(token).sub),
        ["alice"]
      )
      const events = yield* send(`${one.url}/plans/${String(body["plan_id"])}/events`, { headers: ann })
      const [waited] = payloads(events.text, "waiting") as ReadonlyArray<Readonly<Record<string, unknown>>>
      assert.deepInclude(waited, { kind: "account", tool: "rigger_pay" })
      assert.match(String(waited?.["url"]), /\/accounts\/connect\?link=/)
      const exported = yield* Effect.promise(async () => {
        const response = await fetch(`${one.url}/plans/${String(body["plan_id"])}/export`, { headers: ann })
        return gunzipSync(await response.arrayBuffer()).toString()
      })
      assert.include(exported, '/accounts/connect"')
      assert.notInclude(exported, "?link=")

      // A token of 30 s is renewed for each call. The provider would drop a grant of which it sees a token twice.
      const plans = yield* Effect.all(
        [one, other, one, other, one, other].map(({ url }) => ask(url)),
        { concurrency: "unbounded" }
      )
      for (const { body } of plans) assert.strictEqual(body["state"], "completed", JSON.stringify(body))
      const used = yield* tokens
      assert.lengthOf(used, 7)
      for (const token of used) assert.strictEqual(decodeJwt(token).sub, "alice")

      const list = (headers: Readonly<Record<string, string>>) =>
        Effect.map(send(`${other.url}/accounts`, { headers }), ({ body }) => body["accounts"])
      const [account] = (yield* list(ann)) as ReadonlyArray<Readonly<Record<string, unknown>>>
      assert.deepInclude(account, { name: "books", scopes: ["pay"] })
      assert.deepStrictEqual(yield* list(bob), [])
      const dropped = (headers: Readonly<Record<string, string>>) =>
        Effect.map(send(`${one.url}/accounts/books`, { method: "DELETE", headers }), ({ status }) => status)
      assert.strictEqual(yield* dropped(bob), 404)

      const rows = yield* dump(store.DATABASE_URL)
      const kept = [...Array.from(rows.values()), ...(yield* scripted.requests.all).map((one) => JSON.stringify(one))]
      const everything = [...kept, ...plans.map(({ text }) => text), events.text].join()
      const cookies = Array.from(browser.jars.get(new URL(other.url).host)?.values() ?? [])
      for (const secret of [...used, client.client_secret, ...cookies]) assert.notInclude(everything, secret)
      const visited = browser.visited.join()
      for (const secret of [...used, client.client_secret, "code_verifier"]) assert.notInclude(visited, secret)

      const key = { BOWLINE_URL: other.url, BOWLINE_API_KEY: "key-of-ann" }
      const listed = yield* Effect.flatMap(bowline(["accounts", "list"], key), ({ ended }) => ended)
      assert.match(listed.stdout, /^books\t.*\tpay\t/)
      const removed = yield* Effect.flatMap(bowline(["accounts", "remove", "books"], key), ({ ended }) => ended)
      assert.deepStrictEqual([removed.code, removed.stderr], [0, "books is removed\n"])
      assert.include(provider.requests, "/token/revocation")
      assert.strictEqual(yield* dropped(ann), 404)
      // The next plan asks again. A client of A2A has the link, too, and follows the task through that.
      const agent = yield* Effect.promise(() => clients["1.0 over JSON-RPC"](one.url, "key-of-ann"))
      const task = yield* Effect.promise(() => agent.send({ text: "Hi" }))
      assert.strictEqual(task.state, "auth-required")
      assert.match(task.said, /at the account books.*: http.*\/accounts\/connect\?link=/)
      const shownNow = yield* Effect.promise(() => agent.get(task.id))
      assert.deepInclude(shownNow, { state: "auth-required" })
      assert.notStrictEqual(shownNow.said, task.said)
      const followed = yield* Effect.forkChild(readOut(agent.subscribe(task.id)))
      yield* makeBrowser().follow(yield* linkAt(other.url))
      const states = (yield* Fiber.join(followed)).map(({ state }) => state)
      assert.deepStrictEqual([states[0], states.at(-1)], ["auth-required", "completed"])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is granted by nobody but whoever has the link, once, and in the browser that has begun", () =>
    Effect.gen(function* () {
      const { ask, linkAt, one, provider, tokens } = yield* given(yield* stores.memory)
      const asked = yield* Effect.forkChild(ask())
      const link = yield* linkAt(one.url)
      const statusOf = (response: Response) => response.status

      // Somebody else is logged in to the console.
      const other = makeBrowser()
      const login = { method: "POST", body: JSON.stringify({ key: "key-of-bob" }) }
      yield* other.get(`${one.url}/console/session`, {
        ...login,
        headers: { "content-type": "application/json", "sec-fetch-site": "same-origin" }
      })
      const own = { "sec-fetch-site": "same-origin" }
      for (const method of ["GET", "POST"]) {
        assert.strictEqual(statusOf(yield* other.get(link, { method, headers: own })), 403)
      }
      assert.strictEqual(statusOf(yield* makeBrowser().get(`${link}x`)), 404)

      // A browser says the origin of the page that has sent its form, unless the page has forbidden that. Pages of others are refused.
      const page = yield* makeBrowser().get(link)
      assert.strictEqual(page.headers.get("referrer-policy"), "same-origin")
      for (const origin of ["null", "https://elsewhere.test"]) {
        assert.strictEqual(statusOf(yield* makeBrowser().get(link, { method: "POST", headers: { origin } })), 403)
      }

      const browser = makeBrowser()
      const left = yield* browser.get(link, { method: "POST", headers: { ...own, origin: one.url } })
      const away = new URL(left.headers.get("location") ?? "")
      assert.strictEqual(away.origin, provider.issuer)
      assert.strictEqual(away.searchParams.get("redirect_uri"), `${one.url}/accounts/callback`)
      assert.strictEqual(away.searchParams.get("code_challenge_method"), "S256")
      assert.match(left.headers.get("set-cookie") ?? "", /^bowline-account=.*HttpOnly.*SameSite=Lax/i)
      // The link was used.
      assert.strictEqual(statusOf(yield* makeBrowser().get(link, { method: "POST" })), 403)
      // The provider sends nobody anywhere else.
      const elsewhere = new URL(away)
      elsewhere.searchParams.set("redirect_uri", "https://elsewhere.test/")
      assert.strictEqual(statusOf(yield* makeBrowser().get(elsewhere.href)), 400)

      // The way of one browser, in the one of somebody else.
      const victim = makeBrowser()
      const atProvider = yield* victim.follow(away.href)
      assert.strictEqual(atProvider.status, 401)
      const callback = victim.visited.find((at) => at.startsWith(`${one.url}/accounts/callback`)) ?? ""
      assert.match(callback, /[?&]code=/)
      assert.strictEqual(statusOf(yield* other.get(callback)), 401)
      const wrong = new URL(callback)
      wrong.searchParams.set("iss", "https://mixed.test")
      assert.strictEqual(statusOf(yield* browser.get(wrong.href)), 401)
      // One try for each way: the secret was used with the wrong issuer.
      assert.strictEqual(statusOf(yield* browser.get(callback)), 401)
      assert.deepStrictEqual(yield* tokens, [])

      // `GET /waiting` has a new link.
      const again = yield* linkAt(one.url)
      const mine = makeBrowser()
      assert.include((yield* mine.follow(again)).text, "books is connected")
      const back = mine.visited.findLast((at) => at.startsWith(`${one.url}/accounts/callback`)) ?? ""
      assert.strictEqual(statusOf(yield* mine.get(back)), 401)
      assert.strictEqual((yield* Fiber.join(asked)).body["state"], "completed")
      assert.strictEqual(statusOf(yield* makeBrowser().get(again)), 404)
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("goes nowhere but to its resource where a request names the agent", () =>
    Effect.gen(function* () {
      const { ask, one } = yield* given(yield* stores.memory)
      const agent = (name: string, account: string) => ({
        name,
        endpoint: "https://elsewhere.test/",
        auth: { type: "account", account }
      })
      const { body, status } = yield* ask(one.url, { agents: [agent("a", "books"), agent("b", "mail")] })
      assert.strictEqual(status, 400)
      assert.deepStrictEqual(body["issues"], [
        {
          path: "agents[0].auth.account",
          message:
            "Expected a URL of the resource of the account books: what callers have granted goes nowhere else that a request names"
        },
        { path: "agents[1].auth.account", message: "Expected one of the accounts of the configuration: books" }
      ])
    }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
  )

  it.live("is refused in a file without an authorization server, a secret, or a key that encrypts", () =>
    Effect.gen(function* () {
      const account = { client_id: "x", scopes: [] }
      const file = {
        accounts: {
          books: { ...account, client_secret_env_var: "NOT_SET" },
          mail: { ...account, issuer: "https://id.test", token_url: "https://id.test/token" },
          desk: { ...account, issuer: "https://id.test" }
        },
        agents: [{ name: "a", endpoint: "https://a.test/", auth: { type: "account", account: "bookz" } }]
      }
      const found = yield* problems("gateway.json", JSON.stringify(file), {
        OPENAI_API_KEY: "key",
        BOWLINE_SECRET_KEY: environment.BOWLINE_SECRET_KEY
      })
      assert.sameMembers(found, [
        "gateway.json accounts.books.issuer: Expected it, or authorization_url and token_url",
        "gateway.json accounts.books.client_secret_env_var: Expected NOT_SET to be set",
        "gateway.json accounts.mail.issuer: Expected it alone, or with authorization_url and token_url",
        "gateway.json agents[0].auth.account: Expected one of accounts: books, mail, desk"
      ])
      const whole = { accounts: { desk: file.accounts.desk } }
      assert.deepStrictEqual(yield* problems("gateway.json", JSON.stringify(whole), { OPENAI_API_KEY: "key" }), [
        "gateway.json accounts.desk: Expected it with BOWLINE_SECRET_KEY (plans.secret_key in the file), which encrypts what acts as callers"
      ])
    }).pipe(Effect.scoped)
  )
})
