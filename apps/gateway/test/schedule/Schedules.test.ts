import { say } from "@bowline/testing/provider/Turn"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { databases } from "../plan/Databases.ts"
import { eventsOf, post, send, startOn, start, stores } from "../http/RunningGateway.ts"

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
          overlap: "queue",
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

  it.live("is fired by hand as a plan is asked, once for each key, and a refusal is the answer", () =>
    Effect.gen(function* () {
      const { url } = yield* start(echo)
      const { body: made } = yield* create(url, { when: { every_ms: 60_000 }, paused: true })
      const fire = (headers: Readonly<Record<string, string>> = {}, id = made["schedule_id"]) =>
        post(`${url}/schedules/${String(id)}/fire`, "", headers)
      const key = { "idempotency-key": "one" }
      const { body: plan, status } = yield* fire(key)
      assert.deepInclude(plan, { state: "completed" })
      assert.strictEqual(status, 200)
      assert.strictEqual((yield* fire(key)).body["plan_id"], plan["plan_id"])
      const { text } = yield* fire({ accept: "text/event-stream" })
      assert.deepStrictEqual(eventsOf(text).at(-1), "done")
      const firings = yield* firingsOf(url, made["schedule_id"])
      assert.deepStrictEqual(
        firings.map(({ outcome }) => outcome),
        ["started", "started"]
      )
      const { body: schedule } = yield* send(`${url}/schedules/${String(made["schedule_id"])}`)
      assert.deepInclude(schedule, { paused: true, next_at: null, last_plan_id: firings[0]?.["plan_id"], failures: 0 })
      assert.strictEqual((yield* fire({}, "schedule_none")).status, 404)
      const { body: blank } = yield* create(url, {
        name: "b",
        when: { every_ms: 60_000 },
        plan: { question: "{{last_answer}}" }
      })
      const refused = yield* fire({}, blank["schedule_id"])
      assert.deepStrictEqual([refused.status, refused.body["code"]], [400, "invalid_request"])
      const { body: unchanged } = yield* send(`${url}/schedules/${String(blank["schedule_id"])}`)
      assert.deepStrictEqual(unchanged, blank)
    })
  )

  it.live("runs as its caller, and is refused when that is known no more, or has made too many requests", () =>
    Effect.gen(function* () {
      const store = yield* Effect.orDie(databases.postgres)
      const sql = yield* PgClient.makeClient({ url: Redacted.make(store.DATABASE_URL) })
      const keys = { ...store, ...often, BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob" }
      const ann = { authorization: "Bearer key-of-ann" }
      /** Waits for a firing of which this is told. */
      const awaitFiring = (outcome: string, reason: string | null) =>
        Effect.repeat(
          sql<{ readonly owner: string | null }>`
select p.owner from firings f left join plans p on p.id = f.plan_id
where f.outcome = ${outcome} and f.reason is not distinct from ${reason} limit 1`,
          { until: (rows) => rows.length > 0, schedule: Schedule.spaced("20 millis") }
        )
      yield* Effect.scoped(
        Effect.gen(function* () {
          const { url } = yield* start(echo, keys)
          assert.strictEqual((yield* create(url, {}, ann)).status, 201)
          assert.deepStrictEqual(yield* awaitFiring("started", null), [{ owner: "ann" }])
        })
      )
      yield* Effect.scoped(
        Effect.andThen(
          start(echo, { ...keys, BOWLINE_API_KEYS: "bob=key-of-bob" }),
          awaitFiring("refused", "the gateway does not know ann any more")
        )
      )
      yield* start(echo, { ...keys, BOWLINE_RATE_LIMIT: "1/1h" })
      yield* awaitFiring("refused", "ann may make 1 requests in 1h")
    }).pipe(Effect.provide(Reactivity.layer))
  )
})
