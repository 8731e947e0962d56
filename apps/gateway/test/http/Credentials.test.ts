import { error, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

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
      assert.deepInclude(skipped.body["error"], { code: "provider_rate_limited" })
      const cleared = yield* send(`${url}/credentials/openai-2/clear`, { method: "POST" })
      assert.deepInclude(cleared.body, { id: "openai-2", windows: [] })
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" })).body["state"], "completed")
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
