import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { join } from "node:path"
import { InvalidConfiguration } from "../../src/config/setting/ReadSettings.ts"
import { fromEnvironment } from "../../src/config/GatewayConfig.ts"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { send, start, stores } from "../http/RunningGateway.ts"
import { dump } from "../plan/Databases.ts"
import { makeBrowser } from "./Browser.ts"
import { audience, newKey, serve } from "./OpenIdProvider.ts"

const client = { client_id: "console", client_secret: "planted-client-secret" }

/** A provider, and a gateway whose console logs in with it. */
const startBoth = Effect.fnUntraced(function* (store: Readonly<Record<string, string>> = {}, issuer: object = {}) {
  const key = yield* newKey("one")
  const provider = yield* serve([key])
  const folder = yield* folderOf({
    "gateway.json": JSON.stringify({
      auth: {
        jwt: [
          {
            name: "corp",
            issuer: provider.issuer,
            audience,
            admin: { claim: "groups", equals: "boss" },
            groups: { claim: "groups" },
            ...issuer
          }
        ]
      },
      console: { oidc: { issuer: "corp", client_id: client.client_id, client_secret_env_var: "CONSOLE_SECRET" } },
      presets: { books: { instructions: "Keep the books." } },
      permissions: { "*": { presets: { deny: ["*"] } }, "group:boss": { presets: { allow: ["books"] } } }
    })
  })
  const { url } = yield* start(() => [say("x")], {
    BOWLINE_CONFIG: join(folder, "gateway.json"),
    BOWLINE_API_KEYS: "ann=key-of-ann",
    CONSOLE_SECRET: client.client_secret,
    ...store
  })
  yield* provider.rotate([key], {
    clients: [
      {
        ...client,
        redirect_uris: [`${url}/console/callback`],
        post_logout_redirect_uris: [`${url}/`],
        response_types: ["code"],
        grant_types: ["authorization_code"]
      }
    ],
    features: { devInteractions: { enabled: true } },
    conformIdTokenClaims: false,
    claims: { openid: ["sub", "groups"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, groups: id === "alice" ? ["boss"] : ["staff"] })
    })
  })
  return { url, provider }
})

const configOf = (browser: ReturnType<typeof makeBrowser>, url: string) =>
  Effect.flatMap(browser.get(`${url}/console/config`), (response) =>
    Effect.promise(async () => ({ status: response.status, body: (await response.json()) as Record<string, unknown> }))
  )

describe("a login to the console with an identity provider", () => {
  it.live("is of whom the provider names, with groups and rights, and ends there, too", () =>
    Effect.gen(function* () {
      const settings = yield* stores.postgres
      const { provider, url } = yield* startBoth(settings)
      const browser = makeBrowser()
      assert.strictEqual((yield* configOf(browser, url)).status, 401)
      const page = yield* browser.follow(`${url}/console/login`)
      assert.deepStrictEqual([page.url, page.status], [`${url}/`, 200], page.text.slice(0, 500))
      const { body } = yield* configOf(browser, url)
      assert.deepInclude(body, { caller: "corp:alice", admin: true, presets: true })
      // The same cookie as that of a key: only the gateway's own pages change something by it.
      const foreign = yield* browser.get(`${url}/plan`, { method: "POST", body: "{}" })
      assert.strictEqual(foreign.status, 403)

      const rows = yield* dump(settings.DATABASE_URL)
      const stored = Array.from(rows.values()).join("\n")
      assert.notInclude(rows.get("logins"), "alice")
      for (const secret of [client.client_secret, ...(browser.jars.get(new URL(url).host)?.values() ?? [])]) {
        assert.notInclude(stored, secret)
      }
      for (const visited of browser.visited.filter((at) => at.startsWith(provider.issuer))) {
        assert.notInclude(visited, "code_verifier")
        assert.notInclude(visited, client.client_secret)
      }

      const ended = yield* browser.get(`${url}/console/session`, {
        method: "DELETE",
        headers: { "sec-fetch-site": "same-origin" }
      })
      const { end_session_url } = yield* Effect.promise(
        async () => (await ended.json()) as { readonly end_session_url: string }
      )
      assert.strictEqual((yield* configOf(browser, url)).status, 401)
      const out = yield* browser.follow(end_session_url)
      assert.strictEqual(new URL(out.url).origin, url)
      // The provider asks for a password again.
      const other = yield* browser.follow(`${url}/console/login`, "bob")
      assert.strictEqual(other.url, `${url}/`)
      assert.deepInclude((yield* configOf(browser, url)).body, { caller: "corp:bob", admin: false, presets: false })
    }).pipe(Effect.scoped)
  )

  it.live("is refused where the browser is another one, the way back comes twice, or somebody has changed it", () =>
    Effect.gen(function* () {
      const { url } = yield* startBoth()
      const browser = makeBrowser()
      yield* browser.follow(`${url}/console/login`)
      const callback = browser.visited.find((at) => at.startsWith(`${url}/console/callback`)) ?? ""
      assert.match(callback, /[?&]code=.+&state=/)

      // Of another browser, which would be logged in as somebody else.
      const victim = makeBrowser()
      const planted = yield* victim.get(callback)
      assert.strictEqual(planted.status, 401)
      yield* victim.get(`${url}/console/login`)
      assert.strictEqual((yield* victim.get(callback)).status, 401)
      assert.strictEqual((yield* configOf(victim, url)).status, 401)

      // Again, with what this browser had.
      assert.strictEqual((yield* browser.get(callback)).status, 401)
      const again = makeBrowser()
      yield* again.get(`${url}/console/login`)
      const cookies = new Map(again.jars.get(new URL(url).host))
      const page = yield* again.follow(`${url}/console/login`)
      assert.strictEqual(page.url, `${url}/`)
      const second = again.visited.findLast((at) => at.startsWith(`${url}/console/callback`)) ?? ""
      const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join("; ")
      assert.strictEqual((yield* send(second, { headers: { cookie } })).status, 401)
      for (const changed of [
        second.replace(/state=[^&]+/, "state=x"),
        second.replace(/code=[^&]+/, "code=x"),
        `${url}/console/callback?error=access_denied`
      ]) {
        assert.strictEqual((yield* browser.get(changed)).status, 401, changed)
      }
    }).pipe(Effect.scoped)
  )

  it.live("is refused with 403 where the provider vouches for somebody who lacks what is required", () =>
    Effect.gen(function* () {
      const { url } = yield* startBoth({}, { required: { groups: "boss" } })
      const browser = makeBrowser()
      const page = yield* browser.follow(`${url}/console/login`, "bob")
      assert.strictEqual(page.status, 403)
      assert.strictEqual((yield* configOf(browser, url)).status, 401)
    }).pipe(Effect.scoped)
  )

  it.live("is not there without console.oidc, and 503 while the provider is away", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")], { BOWLINE_API_KEYS: "ann=key-of-ann" })
      for (const path of ["/console/login", "/console/callback?code=x&state=y"]) {
        assert.strictEqual((yield* send(url + path)).status, 404)
      }
      const both = yield* startBoth()
      const departed = yield* send(`${both.url}/console/login`, { method: "HEAD", redirect: "manual" })
      assert.strictEqual(departed.status, 303)
      const fresh = yield* startBoth()
      yield* fresh.provider.setAway(true)
      assert.strictEqual((yield* send(`${fresh.url}/console/login`, { redirect: "manual" })).status, 503)
      yield* fresh.provider.setAway(false)
      assert.strictEqual((yield* send(`${fresh.url}/console/login`, { redirect: "manual" })).status, 303)
    }).pipe(Effect.scoped)
  )

  it.live("is configured with a provider that the file has, and with a secret that is there", () =>
    Effect.gen(function* () {
      const oidc = { issuer: "shop", client_id: "console", client_secret_env_var: "NOT_SET" }
      const jwt = [{ name: "corp", issuer: "https://id.test", audience }]
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ auth: { jwt }, console: { oidc } }) })
      const read = fromEnvironment({ BOWLINE_CONFIG: join(folder, "gateway.json"), OPENAI_API_KEY: "x" }, false)
      const exit = yield* Effect.exit(Effect.flip(read))
      assert(Exit.isSuccess(exit) && exit.value instanceof InvalidConfiguration)
      assert.deepStrictEqual(
        exit.value.problems.map(({ expected }) => expected),
        ["Expected one of auth.jwt: corp", "Expected NOT_SET to be set"]
      )
    }).pipe(Effect.scoped)
  )
})
