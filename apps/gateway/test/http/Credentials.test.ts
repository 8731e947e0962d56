import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { dump } from "../plan/Databases.ts"
import { post, send, start, stores } from "./RunningGateway.ts"

const keys = ["planted-key-one", "planted-key-two"] as const
const pool = { OPENAI_API_KEYS: keys.join(), OPENAI_API_KEY: "planted-key-three" }
const callers = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob", BOWLINE_ADMIN_CALLERS: "root, ann" }
const ann = { authorization: "Bearer key-of-ann" }
const bob = { authorization: "Bearer key-of-bob" }

const fresh = (id: string) => ({ id, provider: "openai", state: "ok", windows: [], last_used_at: null })

describe("credentials", () => {
  it.live("are shown to an admin with their windows and never with their keys, and reset by an admin", () =>
    Effect.gen(function* () {
      const script = [[error(401, { message: `Incorrect API key provided: ${keys[0]}` })], [say("a")], [say("b")]]
      const { url, provider } = yield* start(script, { ...pool, ...callers })
      const before = yield* send(`${url}/credentials`, { headers: ann })
      assert.deepStrictEqual(before.body, { credentials: [fresh("openai-1"), fresh("openai-2")] })

      const plan = yield* post(`${url}/plan`, { question: "?" }, ann)
      assert.strictEqual(plan.body["state"], "completed")
      const after = yield* send(`${url}/credentials`, { headers: ann })
      const [first, second] = after.body["credentials"] as ReadonlyArray<Record<string, unknown>>
      assert.deepInclude(first, { id: "openai-1", state: "out" })
      const [window] = (first?.["windows"] ?? []) as ReadonlyArray<Record<string, unknown>>
      assert.deepInclude(window, { model: null, reason: "auth" })
      const left = Date.parse(String(window?.["until"])) - Date.now()
      assert.isTrue(left > 590_000 && left <= 600_000, String(left))
      assert.deepInclude(second, { id: "openai-2", state: "ok", windows: [] })
      assert.isString(second?.["last_used_at"])

      const cleared = yield* send(`${url}/credentials/openai-1/clear`, { method: "POST", headers: ann })
      assert.strictEqual(cleared.status, 200)
      assert.deepInclude(cleared.body, { id: "openai-1", state: "ok", windows: [] })
      yield* post(`${url}/plan`, { question: "?" }, ann)
      const asked = (yield* provider.requests.all).map(({ headers }) => headers["authorization"])
      assert.deepStrictEqual(
        asked,
        [keys[0], keys[1], keys[0]].map((key) => `Bearer ${key}`)
      )
      assert.notMatch([before, plan, after, cleared].map(({ text }) => text).join(), /planted-key/)
    })
  )

  it.live("show a model that their provider does not have, until the window ends or one of them is reset", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[error(404, { message: "The model does not exist" })], [say("there it is")]], pool)
      const { body } = yield* post(`${url}/plan`, { question: "?" })
      assert.strictEqual(body["state"], "failed")
      const shown = yield* send(`${url}/credentials`)
      for (const credential of shown.body["credentials"] as ReadonlyArray<Record<string, unknown>>) {
        assert.strictEqual(credential["state"], "ok")
        const [window, ...others] = credential["windows"] as ReadonlyArray<Record<string, unknown>>
        assert.deepInclude(window, { model: "openai/gpt-5-mini", reason: "model_unavailable" })
        assert.deepStrictEqual(others, [])
      }
      const skipped = yield* post(`${url}/plan`, { question: "?" })
      assert.deepInclude(skipped.body["error"], { code: "provider_model_unavailable", retryable: false })
      const cleared = yield* send(`${url}/credentials/openai-2/clear`, { method: "POST" })
      assert.deepInclude(cleared.body, { id: "openai-2", windows: [] })
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" })).body["state"], "completed")
    })
  )

  it.live("are named where a refused key keeps plans from being answered, and are forgotten with a corrected key", () =>
    Effect.gen(function* () {
      const { DATABASE_URL, ...database } = yield* stores.postgres
      const settings = (key: string) => ({ ...database, DATABASE_URL, OPENAI_API_KEY: key })
      const [wrong, replica] = [
        yield* start([[error(401)]], settings("planted-wrong-key")),
        yield* start([], settings("planted-wrong-key"))
      ]
      const refused = yield* post(`${wrong.url}/plan`, { question: "?" })
      assert.deepInclude(refused.body["error"], { code: "provider_auth", retryable: false })
      for (const { url } of [wrong, replica]) {
        const { body } = yield* post(`${url}/plan`, { question: "?" })
        const { code, message, retryable } = body["error"] as Record<string, unknown>
        assert.deepStrictEqual([code, retryable], ["provider_auth", false])
        assert.match(
          String(message),
          /openai-1 is blocked for auth since \d{4}-\S+Z, until \d{4}-\S+Z\. .*bowline credentials clear openai-1$/
        )
      }
      const corrected = yield* start([[say("there it is")]], settings("planted-right-key"))
      assert.strictEqual((yield* post(`${corrected.url}/plan`, { question: "?" })).body["state"], "completed")
      const rows = (yield* dump(DATABASE_URL)).get("credentials_state") ?? ""
      assert.include(rows, "openai-1")
      for (const text of ["planted", createHash("sha256").update("planted-right-key").digest("base64url")]) {
        assert.notInclude(rows, text)
      }
    })
  )

  it.live("have a window of a day at most, and no row for a model that a caller has made up", () =>
    Effect.gen(function* () {
      const { DATABASE_URL, ...database } = yield* stores.postgres
      const script = [
        [error(404, { message: "There is no such model" })],
        [error(429, {}, { "retry-after": "2592000" })],
        [error(429, {}, { "retry-after": "9".repeat(300) })]
      ]
      const { url } = yield* start(script, {
        ...database,
        ...pool,
        DATABASE_URL,
        BOWLINE_ALLOWED_MODELS: "openai/*",
        BOWLINE_MAX_RETRIES: "0"
      })
      const made = yield* post(`${url}/plan`, { question: "?", preferences: { model: "openai/made-up" } })
      assert.deepInclude(made.body["error"], { code: "provider_model_unavailable" })
      for (let key = 1; key <= 2; key++) yield* post(`${url}/plan`, { question: "?" })
      const { body } = yield* post(`${url}/plan`, { question: "?" })
      assert.deepInclude(body["error"], { code: "provider_rate_limited", retryable: true })
      const shown = (yield* send(`${url}/credentials`)).body["credentials"] as ReadonlyArray<{
        readonly windows: ReadonlyArray<Record<"model" | "reason" | "until", string>>
      }>
      const ends = shown.flatMap(({ windows }) => windows.filter(({ reason }) => reason === "rate_limited"))
      assert.strictEqual(ends.length, 2)
      for (const { until } of ends) {
        const left = Date.parse(until) - Date.now()
        assert.isTrue(left > 86_300_000 && left <= 86_400_500, String(left))
      }
      const rows = (yield* dump(DATABASE_URL)).get("credentials_state") ?? ""
      assert.include(rows, "gpt-5-mini")
      assert.notInclude(rows, "made-up")
    })
  )

  it.live("are for admins only", () =>
    Effect.gen(function* () {
      const { url } = yield* start([], { ...pool, ...callers })
      for (const [method, path] of [
        ["GET", "/credentials"],
        ["POST", "/credentials/openai-1/clear"],
        ["POST", "/credentials/openai-9/clear"]
      ] as const) {
        const { status, body } = yield* send(url + path, { method, headers: bob })
        assert.deepStrictEqual([status, body["code"]], [403, "forbidden"], path)
        assert.strictEqual((yield* send(url + path, { method })).status, 401, path)
      }
      const unknown = yield* send(`${url}/credentials/openai-9/clear`, { method: "POST", headers: ann })
      assert.deepStrictEqual([unknown.status, unknown.body["code"]], [404, "not_found"])
    })
  )

  it.live("are for everybody where nobody needs a key, and for nobody where no admin is named", () =>
    Effect.gen(function* () {
      const open = yield* start([])
      assert.deepStrictEqual((yield* send(`${open.url}/credentials`)).body, { credentials: [fresh("openai-1")] })
      const closed = yield* start([], { BOWLINE_API_KEYS: callers.BOWLINE_API_KEYS })
      assert.strictEqual((yield* send(`${closed.url}/credentials`, { headers: ann })).status, 403)
    })
  )
})
