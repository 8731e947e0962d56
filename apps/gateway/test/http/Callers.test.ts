import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "./RunningGateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
const by = (authorization: string) => ({ authorization })
const ann = by("Bearer key-of-ann")
const bob = by("bearer  key-of-bob")

const idsOf = (body: Readonly<Record<string, unknown>>, list: string, id: string) =>
  (body[list] as ReadonlyArray<Readonly<Record<string, unknown>>>).map((entry) => entry[id])

describe("callers", () => {
  it.live("are known by their key, and by nothing else", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")], keys)
      for (const [authorization, isWrong] of [
        ["", false],
        ["Basic key-of-ann", false],
        ["Bearer", false],
        ["Bearer key-of-ann2", true],
        ["Bearer ann", true]
      ] as const) {
        const { status, headers, body } = yield* post(`${url}/plan`, "not even JSON", by(authorization))
        assert.deepStrictEqual([status, body["code"]], [401, "unauthorized"], authorization)
        const challenge = `Bearer realm="bowline"${isWrong ? ', error="invalid_token"' : ""}`
        assert.strictEqual(headers.get("www-authenticate"), challenge, authorization)
        assert.isString(body["request_id"])
      }
      assert.strictEqual((yield* post(`${url}/plan`, { question: "?" }, bob)).status, 200)
      for (const path of ["/health", "/ready", "/openapi.json", "/docs"]) {
        assert.strictEqual((yield* send(url + path)).status, 200, path)
      }
    })
  )

  it.live("see what is theirs, and nothing of others", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")], keys)
      const { body } = yield* post(`${url}/plan`, { question: "?", session_id: "shared name" }, ann)
      const plan = `/plans/${String(body["plan_id"])}`
      const sessions = [`/sessions/${String(body["session_id"])}`, "/sessions/shared%20name"]
      const mine = [plan, `${plan}/events`, ...sessions, ...sessions.map((session) => `${session}/messages`)]
      for (const path of mine) {
        assert.strictEqual((yield* send(url + path, { headers: ann })).status, 200, path)
        const theirs = yield* send(url + path, { headers: bob })
        assert.deepStrictEqual([theirs.status, theirs.body["code"]], [404, "not_found"], path)
      }
      const cancel = yield* send(`${url}${plan}/cancel`, { method: "POST", headers: bob })
      assert.strictEqual(cancel.status, 404)
      assert.deepStrictEqual((yield* send(`${url}/plans`, { headers: bob })).body["plans"], [])
      assert.strictEqual((yield* send(`${url}/plans?session_id=shared%20name`, { headers: bob })).status, 404)
      const other = yield* post(`${url}/plan`, { question: "?", session_id: "shared name" }, bob)
      assert.notStrictEqual(other.body["session_id"], body["session_id"])
    })
  )

  it.live("page through their lists", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("x")])
      const names = ["one/two", "ünïcode".normalize("NFD").replaceAll(/[^ -~]/g, "~"), "x".repeat(200)]
      for (const session_id of names) yield* post(`${url}/plan`, { question: "?", session_id })
      for (const [list, id] of [
        ["plans", "plan_id"],
        ["sessions", "external_session_id"]
      ] as const) {
        const all = yield* send(`${url}/${list}`)
        assert.strictEqual(all.body["next_cursor"], null)
        const first = yield* send(`${url}/${list}?limit=2`)
        const second = yield* send(`${url}/${list}?limit=2&cursor=${String(first.body["next_cursor"])}`)
        const paged = [...idsOf(first.body, list, id), ...idsOf(second.body, list, id)]
        assert.deepStrictEqual(paged, idsOf(all.body, list, id))
        assert.deepStrictEqual([paged.length, second.body["next_cursor"]], [3, null])
        for (const query of ["limit=0", "limit=201", "limit=x", "limit=", "cursor=2", "cursor="]) {
          const { status, body } = yield* send(`${url}/${list}?${query}`)
          const [issue] = body["issues"] as ReadonlyArray<{ readonly path: string }>
          assert.deepStrictEqual([status, issue?.path], [400, query.split("=")[0]], query)
        }
      }
      const wrong = yield* send(`${url}/plans?limit=x&state=over&sorted=1`)
      const issues = wrong.body["issues"] as ReadonlyArray<{ readonly path: string }>
      assert.sameMembers(
        issues.map(({ path }) => path),
        ["limit", "state", "sorted"]
      )
      for (const path of ["session_id", "limit", "cursor"]) {
        const { body } = yield* send(`${url}/plans?${path}=1&${path}=2`)
        assert.deepStrictEqual(body["issues"], [{ path, message: "Expected one value" }])
      }
      for (const name of names) {
        const session = yield* send(`${url}/sessions/${encodeURIComponent(name)}`)
        assert.deepInclude(session.body, { external_session_id: name, message_count: 2 })
        const messages = yield* send(`${url}/sessions/${encodeURIComponent(name)}/messages?limit=1`)
        const next = yield* send(
          `${url}/sessions/${encodeURIComponent(name)}/messages?cursor=${String(messages.body["next_cursor"])}`
        )
        assert.deepStrictEqual(
          [...idsOf(messages.body, "messages", "role"), ...idsOf(next.body, "messages", "role")],
          ["user", "assistant"]
        )
        const plans = yield* send(`${url}/plans?session_id=${encodeURIComponent(name)}`)
        assert.strictEqual(idsOf(plans.body, "plans", "plan_id").length, 1)
      }
    })
  )
})
