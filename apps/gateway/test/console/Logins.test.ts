import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { join } from "node:path"
import { folderOf } from "../config/file/ConfigFolder.ts"
import { ask } from "../http/RawExchange.ts"
import { post, send, start, stores } from "../http/RunningGateway.ts"
import { dump } from "../plan/Databases.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }

const logIn = (url: string, key: string) => post(`${url}/console/session`, { key })

/** The cookie that a login has set, as a browser sends it back. */
const cookieOf = ({ headers }: { readonly headers: Headers }) => headers.getSetCookie()[0]?.split(";")[0] ?? ""

const cookieOfLogin = (url: string, key: string) => Effect.map(logIn(url, key), cookieOf)

const by = (cookie: string) => ({ headers: { cookie } })
const ofPage = { "sec-fetch-site": "same-origin" }

describe("a login to the console", () => {
  it.live("is a cookie of 256 bits that no script can read, and counts as the key on the whole API", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")], keys)
      const login = yield* logIn(url, "key-of-ann")
      assert.deepStrictEqual([login.status, login.text], [204, ""])
      const [pair = "", ...attributes] = (login.headers.getSetCookie()[0] ?? "").split("; ")
      assert.match(pair, /^bowline=[\w-]{43}$/)
      assert.sameMembers(attributes, ["Max-Age=43200", "Path=/", "HttpOnly", "SameSite=Strict"])
      const other = yield* cookieOfLogin(url, "key-of-bob")
      assert.notStrictEqual(other, pair)
      const plan = yield* post(`${url}/plan`, { question: "?" }, { cookie: pair, ...ofPage })
      assert.strictEqual(plan.status, 200)
      const path = `${url}/plans/${String(plan.body["plan_id"])}`
      const own = yield* send(path, by(pair))
      assert.strictEqual(own.status, 200)
      // A cache between the two would show it to the next caller.
      assert.strictEqual(own.headers.get("cache-control"), "no-store")
      assert.strictEqual((yield* send(path, by(other))).status, 404)
      assert.strictEqual((yield* send(path, { headers: { authorization: "Bearer key-of-ann" } })).status, 200)
    })
  )

  it.live("has a cookie that only this host can set, wherever TLS may be in front", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...keys, BOWLINE_PUBLIC_HOSTS: "bowline.example" })
      const body = JSON.stringify({ key: "key-of-ann" })
      const logInAs = (host: string, ...headers: ReadonlyArray<string>) =>
        ask(
          url,
          "POST /console/session HTTP/1.1",
          `Host: ${host}`,
          "Content-Type: application/json",
          "Connection: close",
          `Content-Length: ${body.length}`,
          ...headers,
          "",
          body
        )
      for (const [host, ...headers] of [
        ["bowline.example"],
        ["bowline.example:8443", "Origin: https://bowline.example:8443"],
        ["localhost:8443", "Origin: https://localhost:8443"]
      ] as const) {
        const { head, status } = yield* logInAs(host, ...headers)
        assert.strictEqual(status, 204, host)
        const [, cookie = "", rest = ""] = /^set-cookie: (__Host-bowline=[\w-]{43}); ([^\r\n]*)/im.exec(head) ?? []
        assert.sameMembers(rest.split("; "), ["Max-Age=43200", "Path=/", "HttpOnly", "Secure", "SameSite=Strict"])
        const asked = yield* ask(url, "GET /plans HTTP/1.1", `Host: ${host}`, `Cookie: ${cookie}`)
        assert.strictEqual(asked.status, 200, host)
        const planted = yield* ask(
          url,
          "GET /plans HTTP/1.1",
          "Host: bowline.example",
          `Cookie: ${cookie.replace("__Host-", "")}`
        )
        assert.strictEqual(planted.status, 401)
      }
      const { head } = yield* logInAs("127.0.0.1", "Origin: http://127.0.0.1")
      assert.match(head, /^set-cookie: bowline=/im)
    })
  )

  it.live("changes something only for the gateway's own pages", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")], keys)
      const cookie = yield* cookieOfLogin(url, "key-of-ann")
      for (const [headers, status] of [
        [{ "sec-fetch-site": "same-origin" }, 200],
        [{ "sec-fetch-site": "same-origin", origin: url }, 200],
        [{ origin: url }, 200],
        [{}, 403],
        [{ "sec-fetch-site": "same-site", origin: url }, 403],
        [{ "sec-fetch-site": "none" }, 403],
        [{ "sec-fetch-site": "cross-site" }, 403],
        [{ origin: "http://evil.example" }, 403]
      ] as const) {
        const asked = yield* post(`${url}/plan`, { question: "?" }, { cookie, ...headers })
        assert.strictEqual(asked.status, status, JSON.stringify(headers))
        assert.strictEqual(asked.body["code"], status === 200 ? undefined : "forbidden")
      }
      assert.strictEqual((yield* send(`${url}/plans`, by(cookie))).status, 200)
      const key = { authorization: "Bearer key-of-ann", cookie }
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" }, key)).status, 200)
    })
  )

  it.live("ends when its person logs out, and the other logins go on", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const cookie = yield* cookieOfLogin(url, "key-of-ann")
      const other = yield* cookieOfLogin(url, "key-of-ann")
      const logOut = (headers: Readonly<Record<string, string>>) =>
        send(`${url}/console/session`, { method: "DELETE", headers: { cookie, ...headers } })
      assert.strictEqual((yield* logOut({ "sec-fetch-site": "cross-site" })).status, 403)
      assert.strictEqual((yield* send(`${url}/plans`, by(cookie))).status, 200)
      const out = yield* logOut(ofPage)
      assert.strictEqual(out.status, 204)
      const expired = out.headers.getSetCookie()
      assert.isTrue(
        expired.some((text) => /^bowline=; .*Max-Age=0/.test(text)),
        expired.join("\n")
      )
      assert.isTrue(
        expired.some((text) => /^__Host-bowline=; .*Max-Age=0.*Secure/.test(text)),
        expired.join("\n")
      )
      const { body, status } = yield* send(`${url}/plans`, by(cookie))
      assert.deepStrictEqual([status, body["code"]], [401, "unauthorized"])
      assert.strictEqual((yield* send(`${url}/plans`, by(other))).status, 200)
      assert.strictEqual((yield* logOut(ofPage)).status, 204)
    })
  )

  it.effect("ends after 12 hours", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const cookie = yield* cookieOfLogin(url, "key-of-ann")
      yield* TestClock.adjust("719 minutes")
      assert.strictEqual((yield* send(`${url}/plans`, by(cookie))).status, 200)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* send(`${url}/plans`, by(cookie))).status, 401)
    })
  )

  it.live("counts on every replica, ends with its key, and leaves nothing to log in with in the database", () =>
    Effect.gen(function* () {
      const settings = { ...keys, ...(yield* stores.postgres) }
      const [one, other] = [yield* start([], settings), yield* start([], settings)]
      const cookie = yield* cookieOfLogin(one.url, "key-of-ann")
      assert.strictEqual((yield* send(`${other.url}/plans`, by(cookie))).status, 200)
      const rotated = yield* start([], { ...settings, BOWLINE_API_KEYS: "ann=new-key,bob=key-of-bob" })
      assert.strictEqual((yield* send(`${rotated.url}/plans`, by(cookie))).status, 401)
      const tables = yield* dump(settings.DATABASE_URL)
      assert.isNotEmpty(tables.get("logins"))
      const stored = Array.from(tables.values()).join("\n")
      for (const secret of [cookie.split("=")[1] ?? "", "key-of-ann"]) assert.notInclude(stored, secret)
      yield* send(`${other.url}/console/session`, { method: "DELETE", headers: { cookie, ...ofPage } })
      assert.strictEqual((yield* send(`${one.url}/plans`, by(cookie))).status, 401)
    })
  )

  it.live("lets nobody be locked out by the wrong keys of others at the same address", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      for (let wrong = 0; wrong < 12; wrong++) {
        const { body, headers, status } = yield* logIn(url, `wrong-${wrong}`)
        assert.deepStrictEqual([status, body["code"]], [401, "unauthorized"])
        assert.isEmpty(headers.getSetCookie())
      }
      assert.strictEqual((yield* logIn(url, "key-of-ann")).status, 204)
    })
  )

  it.live("says which field of a wrong body is wrong", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      for (const body of [
        {},
        { key: "" },
        { key: 1 },
        { key: "a b" },
        { key: "x".repeat(5_000) },
        { key: "x", more: 1 }
      ]) {
        const { body: problem, status } = yield* post(`${url}/console/session`, body)
        const [issue] = problem["issues"] as ReadonlyArray<{ readonly path: string }>
        assert.deepStrictEqual([status, issue?.path], [400, "more" in body ? "more" : "key"])
      }
      assert.strictEqual((yield* logIn(url, "key-of-ann")).status, 204)
    })
  )

  it.live("is not needed without keys, and does not exist without a console", () =>
    Effect.gen(function* () {
      const open = yield* start([])
      assert.deepInclude((yield* logIn(open.url, "any")).body, {
        code: "not_found",
        detail: "The gateway has no keys: nobody needs to log in"
      })
      const folder = yield* folderOf({ "gateway.json": JSON.stringify({ console: { enabled: false } }) })
      const off = yield* start([], { ...keys, BOWLINE_CONFIG: join(folder, "gateway.json") })
      assert.deepInclude((yield* logIn(off.url, "key-of-ann")).body, {
        code: "not_found",
        detail: "The console is off: console.enabled is false"
      })
    })
  )
})
