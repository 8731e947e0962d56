import { stall } from "@bowline/testing/http/Move"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule } from "effect"
import { dump } from "../plan/Databases.ts"
import { eventsOf, payloads, post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = {
  BOWLINE_API_KEYS: "ann=key-of-ann,root=key-of-root",
  BOWLINE_ADMIN_CALLERS: "root",
  BOWLINE_SHUTDOWN_GRACE: "0s"
}
const by = (key: string) => ({ authorization: `Bearer ${key}` })
const root = by("key-of-root")

const script: Script = (asked) => (question(asked) === "for ever" ? [stall] : [say("x")])

type Body = Readonly<Record<string, unknown>>
type Sent = Readonly<Record<string, string>>

const issuesOf = (body: Body) => (body["issues"] as ReadonlyArray<{ readonly path: string }>).map(({ path }) => path)

/** Makes a key, which is expected to work. */
const add = Effect.fnUntraced(function* (url: string, given: Body, headers: Sent = root) {
  const { body, status } = yield* post(`${url}/keys`, given, headers)
  assert.strictEqual(status, 201, JSON.stringify(body))
  return { body, key: String(body["key"]), id: String(body["key_id"]) }
})

const revoke = (url: string, id: string, query = "", headers: Sent = root) =>
  Effect.map(send(`${url}/keys/${id}${query}`, { method: "DELETE", headers }), ({ status }) => status)

const statusOf = (url: string, key: string) =>
  Effect.map(send(`${url}/plans`, { headers: by(key) }), ({ status }) => status)

/** A plan of this key that runs for ever, and the stream of its events. */
const running = Effect.fnUntraced(function* (url: string, key: string) {
  const headers = { ...by(key), "content-type": "application/json" }
  const body = JSON.stringify({ question: "for ever", preferences: { on_disconnect: "continue" } })
  const streamed = yield* Effect.forkChild(send(`${url}/plan`, { method: "POST", headers, body }))
  const listed = Effect.map(send(`${url}/plans?state=running`, { headers: by(key) }), ({ body }) => body["plans"] as [])
  yield* Effect.repeat(listed, { until: ({ length }) => length > 0, schedule: Schedule.spaced("20 millis") })
  return streamed
})

describe("a key that an admin makes", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`is shown once, stands for its caller until it is revoked, and is kept as a digest (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(script, callers)
        const laptop = yield* add(url, { name: "eve", note: "laptop" })
        assert.match(laptop.key, /^bw_[A-Za-z0-9_-]{43}$/)
        assert.match(laptop.id, /^key_[0-9a-f-]{36}$/)
        const facts = { name: "eve", admin: false, note: "laptop", created_by: "root", expires_at: null }
        assert.deepInclude(laptop.body, { ...facts, last_used_at: null })
        const { body } = yield* send(`${url}/console/config`, { headers: by(laptop.key) })
        assert.deepInclude(body, { caller: "eve", admin: false })
        const { body: plan } = yield* post(`${url}/plan`, { question: "?" }, by(laptop.key))

        const phone = yield* add(url, { name: "eve", expires: "90d" })
        const mine = yield* send(`${url}/plans`, { headers: by(phone.key) })
        assert.deepInclude((mine.body["plans"] as ReadonlyArray<object>)[0], { plan_id: plan["plan_id"] })

        const { body: first } = yield* send(`${url}/keys?limit=1`, { headers: root })
        const rest = yield* send(`${url}/keys?cursor=${String(first["next_cursor"])}`, { headers: root })
        const all = [first, rest.body].flatMap(({ keys }) => keys as ReadonlyArray<Body>)
        assert.deepStrictEqual(
          all.map(({ key_id }) => key_id),
          [phone.id, laptop.id]
        )
        assert.deepInclude(all[1], facts)
        assert.match(String(all[1]?.["last_used_at"]), /:00\.000Z$/)
        assert.strictEqual(
          Date.parse(String(all[0]?.["expires_at"])) - Date.parse(String(all[0]?.["created_at"])),
          90 * 86_400_000
        )
        assert.notInclude(rest.text, "bw_")

        assert.deepStrictEqual(yield* Effect.all([revoke(url, laptop.id), revoke(url, laptop.id)]), [204, 404])
        assert.deepStrictEqual(yield* Effect.all([statusOf(url, laptop.key), statusOf(url, phone.key)]), [401, 200])
        assert.strictEqual(yield* statusOf(url, `bw_${"x".repeat(43)}`), 401)
      }).pipe(Effect.scoped)
    )
  }

  it.live("may be an admin's, whose keys end with it as little as its plans do", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script, callers)
      const boss = yield* add(url, { name: "boss", admin: true })
      const made = yield* add(url, { name: "eve" }, by(boss.key))
      assert.deepInclude(made.body, { created_by: "boss" })
      const streamed = yield* running(url, boss.key)
      assert.strictEqual(yield* revoke(url, boss.id), 204)
      assert.deepStrictEqual(yield* Effect.all([statusOf(url, boss.key), statusOf(url, made.key)]), [401, 200])
      const { body } = yield* send(`${url}/plans?caller=boss`, { headers: root })
      const [plan] = body["plans"] as ReadonlyArray<Body>
      assert.deepInclude(plan, { state: "running" })
      yield* Fiber.interrupt(streamed)
    })
  )

  it.live("is for admins alone to make, to see and to revoke", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script, callers)
      const { id, key } = yield* add(url, { name: "eve" })
      for (const headers of [by("key-of-ann"), by(key)]) {
        assert.strictEqual((yield* post(`${url}/keys`, { name: "mallory" }, headers)).status, 403)
        assert.strictEqual((yield* send(`${url}/keys`, { headers })).status, 403)
        assert.strictEqual(yield* revoke(url, id, "", headers), 403)
      }
      assert.strictEqual((yield* send(`${url}/keys`)).status, 401)
      for (const [given, paths] of [
        [{}, ["name"]],
        [{ name: "corp:eve" }, ["name"]],
        [{ name: "group:eve" }, ["name"]],
        [{ name: "*" }, ["name"]],
        [{ name: "ann" }, ["name"]],
        [{ name: "anonymous" }, ["name"]],
        [{ name: "eve", expires: "yesterday" }, ["expires"]],
        [{ name: "eve", expires: "2020-01-01T00:00:00Z" }, ["expires"]],
        [{ name: "eve", expires: "0s" }, ["expires"]],
        [{ name: "eve", key: "bw_mine" }, ["key"]],
        [{ name: "eve", admin: "yes", note: "x".repeat(513) }, ["admin", "note"]]
      ] as const) {
        const { body, status } = yield* post(`${url}/keys`, given, root)
        assert.strictEqual(status, 400, JSON.stringify(given))
        assert.sameMembers([...issuesOf(body)], [...paths], JSON.stringify(given))
      }
      assert.strictEqual(yield* revoke(url, "key_x"), 404)
      assert.strictEqual(yield* revoke(url, id, "?end_plans=maybe"), 400)
    })
  )

  it.live("ends when its time is over", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script, callers)
      const { key } = yield* add(url, { name: "eve", expires: "1s" })
      assert.strictEqual(yield* statusOf(url, key), 200)
      yield* Effect.repeat(statusOf(url, key), {
        until: (status) => status === 401,
        schedule: Schedule.spaced("50 millis")
      })
    })
  )

  it.live("logs in to the console until it is revoked", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script, callers)
      const { id, key } = yield* add(url, { name: "eve", admin: true })
      const { headers, status } = yield* post(`${url}/console/session`, { key })
      assert.strictEqual(status, 204)
      const cookie = (headers.get("set-cookie") ?? "").split(";")[0] ?? ""
      const config = () => send(`${url}/console/config`, { headers: { cookie } })
      assert.deepInclude((yield* config()).body, { caller: "eve", admin: true })
      assert.strictEqual(yield* revoke(url, id), 204)
      assert.strictEqual((yield* config()).status, 401)
      assert.strictEqual((yield* post(`${url}/console/session`, { key })).status, 401)
    })
  )

  it.live("names a caller at an open gateway, too, and nobody any more when it is revoked", () =>
    Effect.gen(function* () {
      const { url } = yield* start(script)
      const { id, key } = yield* add(url, { name: "eve" }, {})
      const config = (headers: Readonly<Record<string, string>>) => send(`${url}/console/config`, { headers })
      assert.deepInclude((yield* config(by(key))).body, { caller: "eve", admin: false })
      assert.deepInclude((yield* config({})).body, { caller: "anonymous", admin: true })
      assert.strictEqual(yield* revoke(url, id, "", {}), 204)
      assert.strictEqual((yield* config(by(key))).status, 401)
    })
  )

  it.live("is revoked on every replica within a second, and its plans end if they are to end", () =>
    Effect.gen(function* () {
      const settings = { ...(yield* stores.postgres), ...callers }
      const [one, other] = [yield* start(script, settings), yield* start(script, settings)]
      const { id, key } = yield* add(one.url, { name: "eve" })
      const second = yield* add(one.url, { name: "eve" })
      const streamed = yield* running(other.url, key)
      const kept = yield* running(one.url, second.key)
      assert.strictEqual(yield* statusOf(other.url, key), 200)
      const revoking = yield* Effect.forkChild(revoke(one.url, id, "?end_plans=true"))
      const gone = Effect.repeat(statusOf(other.url, key), {
        until: (status) => status === 401,
        schedule: Schedule.spaced("50 millis")
      })
      yield* gone
      const { text } = yield* Fiber.join(streamed)
      assert.strictEqual(eventsOf(text).at(-1), "done")
      assert.deepInclude(payloads(text, "error")[0], { code: "aborted", reason: "cancelled" })
      assert.strictEqual(yield* Fiber.join(revoking), 204)
      const { body } = yield* send(`${one.url}/plans?state=running`, { headers: by(second.key) })
      assert.lengthOf(body["plans"] as [], 1)
      yield* Fiber.interrupt(kept)
      const rows = yield* dump(settings.DATABASE_URL)
      for (const [table, text] of rows) assert.notInclude(text, second.key, table)
      assert.include(rows.get("caller_keys"), "eve")
    }).pipe(Effect.scoped)
  )
})
