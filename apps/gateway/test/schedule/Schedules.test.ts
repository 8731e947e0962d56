import { say } from "@bowline/testing/provider/Turn"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { post, send, startOn, start, stores } from "../http/RunningGateway.ts"

const often = { BOWLINE_SCHEDULE_MIN: "1s" }
const everySecond = { every_ms: 1_000 }

const echo: Script = (asked) => [say(`asked: ${question(asked)}`)]

type Body = Readonly<Record<string, unknown>>

const create = (url: string, fields: object, headers: Readonly<Record<string, string>> = {}) =>
  post(`${url}/schedules`, { name: "mine", when: everySecond, plan: { question: "Hi" }, ...fields }, headers)

const patch = (url: string, id: unknown, body: object) =>
  send(`${url}/schedules/${String(id)}`, {
    method: "PATCH",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body)
  })

const firingsOf = Effect.fnUntraced(function* (url: string, id: unknown) {
  const { body } = yield* send(`${url}/schedules/${String(id)}/firings`)
  return body["firings"] as ReadonlyArray<Body>
})

/** The firings of a schedule, once there are so many. */
const awaitFirings = (url: string, id: unknown, count: number) =>
  Effect.repeat(firingsOf(url, id), {
    until: (firings) => firings.length >= count,
    schedule: Schedule.spaced("20 millis")
  })

describe("a schedule", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`starts a plan at each of its due times, once, and tells what became of them (${name})`, () =>
      Effect.gen(function* () {
        const { url } = yield* startOn(store)(echo, often)
        const { body: made, status } = yield* create(url, {
          name: "each second",
          plan: { question: "{{schedule}} at {{due_at}}, {{ due_at }}" }
        })
        assert.strictEqual(status, 201)
        const id = made["schedule_id"]
        const when = made["when"] as { readonly every_ms: number; readonly from: string }
        assert.deepStrictEqual(Object.keys(made).toSorted(), [
          "catch_up",
          "created_at",
          "failures",
          "last_at",
          "last_plan_id",
          "name",
          "next_at",
          "overlap",
          "paused",
          "plan",
          "schedule_id",
          "when"
        ])
        const firings = (yield* awaitFirings(url, id, 3)).toReversed()
        const due = firings.map(({ due_at }) => Date.parse(String(due_at)))
        assert.deepStrictEqual(
          due,
          due.map((_, index) => Date.parse(when.from) + (index + 1) * 1_000)
        )
        for (const { due_at, outcome, plan_id, reason } of firings) {
          assert.deepStrictEqual([outcome, reason], ["started", null])
          const { body: plan } = yield* send(`${url}/plans/${String(plan_id)}`)
          assert.strictEqual(plan["question"], `each second at ${String(due_at)}, {{ due_at }}`)
        }
        const { body: shown } = yield* send(`${url}/schedules/${String(id)}`)
        assert.isTrue(firings.some(({ plan_id }) => plan_id === shown["last_plan_id"]) || firings.length < 4)
        const { body: paused } = yield* patch(url, id, { paused: true })
        assert.deepInclude(paused, { paused: true, next_at: null })
        const { body: listed } = yield* send(`${url}/schedules`)
        assert.deepStrictEqual(listed, { schedules: [paused], next_cursor: null })
        assert.strictEqual((yield* send(`${url}/schedules/${String(id)}`, { method: "DELETE" })).status, 204)
        assert.strictEqual((yield* send(`${url}/schedules/${String(id)}`)).status, 404)
        assert.strictEqual((yield* send(`${url}/schedules/${String(id)}/firings`)).status, 404)
      })
    )
  }

  it.live("refuses what it cannot keep, and names the field", () =>
    Effect.gen(function* () {
      const { url } = yield* start(echo)
      const issuesOf = Effect.fnUntraced(function* (fields: object) {
        const { body, status } = yield* create(url, { when: { every_ms: 60_000 }, ...fields })
        assert.strictEqual(status, 400)
        const issues = body["issues"] as ReadonlyArray<{ readonly path: string; readonly message: string }>
        return issues.map(({ path }) => path)
      })
      assert.deepStrictEqual(yield* issuesOf({ when: everySecond }), ["when.every_ms"])
      assert.deepStrictEqual(yield* issuesOf({ when: { at: "2020-01-01T00:00:00Z" } }), ["when.at"])
      assert.include(yield* issuesOf({ when: {} }), "when.at")
      assert.deepStrictEqual(yield* issuesOf({ plan: { question: "?", preset: "none" } }), ["plan.preset"])
      const auth = { type: "bearer", token: "planted" }
      const plan = {
        question: "?",
        agents: [{ name: "a", endpoint: "http://a.test/?api_key=planted", auth }],
        mcp_servers: [{ name: "m", url: "http://m.test/", auth, headers: { "x-key": "planted" } }],
        webhooks: [{ url: "http://h.test/", secret: "whsec_cGxhbnRlZA==", headers: { "x-key": "planted" } }]
      }
      assert.includeMembers(
        [...(yield* issuesOf({ plan }))],
        [
          "plan.agents[0].endpoint",
          "plan.agents[0].auth.token",
          "plan.mcp_servers[0].auth.token",
          "plan.mcp_servers[0].headers",
          "plan.webhooks[0].secret",
          "plan.webhooks[0].headers"
        ]
      )
      assert.strictEqual((yield* create(url, { when: { every_ms: 60_000 } })).status, 201)
      const { body, status } = yield* create(url, { when: { every_ms: 60_000 } })
      assert.deepStrictEqual([status, body["code"]], [409, "name_taken"])
      const { body: other } = yield* create(url, { when: { every_ms: 60_000 }, name: "other" })
      assert.strictEqual((yield* patch(url, other["schedule_id"], { name: "mine" })).status, 409)
      assert.strictEqual((yield* patch(url, other["schedule_id"], { when: everySecond })).status, 400)
    })
  )
})
