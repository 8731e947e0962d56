import { callTool, say } from "@bowline/testing/provider/Turn"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { outputOf } from "../cli/Bowline.ts"
import { databases } from "../plan/Databases.ts"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const soon = Schedule.spaced("50 millis")

/** The stream of a plan behind the seq `after`. */
const replay = (url: string, plan: unknown, after: number) =>
  send(`${url}/plans/${String(plan)}/events`, { headers: { "last-event-id": String(after) } })

describe.each(Object.entries(stores))("the events of a plan that is over, %s", (_, store) => {
  const start = startOn(store)

  it.live("are refused as expired behind their time, and what the plan has come to stays", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("Two turns.")], { BOWLINE_EVENTS_TTL: "2s" })
      const asked = { question: "How is it tied?", session_id: "knots" }
      const again = { "idempotency-key": "once" }
      const { body } = yield* post(`${url}/plan`, asked, again)
      const response = yield* post(`${url}/v1/responses`, { model: "bowline", input: "?" })
      const message = {
        messageId: "m",
        role: "ROLE_USER",
        parts: [{ text: "?" }],
        metadata: { bowline: { idempotent: true } }
      }
      const call = { jsonrpc: "2.0", id: 1, method: "SendMessage", params: { message } }
      const sendMessage = post(`${url}/a2a`, call, { "a2a-version": "1.0" })
      const task = yield* sendMessage
      // The other plans have ended later.
      const latest = String(/plan_[\da-f-]+/.exec(task.text)?.[0])
      yield* Effect.repeat(replay(url, latest, 0), { until: ({ status }) => status !== 200, schedule: soon })
      const read = replay(url, body["plan_id"], 0)
      const expired = yield* read
      assert.deepStrictEqual([expired.status, expired.body["code"]], [410, "events_expired"])
      assert.strictEqual(expired.headers.get("content-type"), "application/problem+json")
      assert.strictEqual((yield* replay(url, body["plan_id"], 3)).status, 410)
      const stream = yield* post(`${url}/plan`, asked, { ...again, accept: "text/event-stream" })
      assert.deepStrictEqual([stream.status, stream.body["plan_id"]], [410, body["plan_id"]])
      // What is no stream is told by rows.
      const repeated = yield* post(`${url}/plan`, asked, again)
      assert.deepStrictEqual([repeated.status, repeated.body], [200, body])
      assert.deepStrictEqual((yield* sendMessage).body, task.body)
      const responses = `${url}/v1/responses/${String(response.body["id"])}`
      assert.deepStrictEqual((yield* send(responses)).body, response.body)
      assert.strictEqual((yield* send(`${responses}?stream=true&starting_after=2`)).status, 410)
      const plan = yield* send(`${url}/plans/${String(body["plan_id"])}`)
      assert.deepStrictEqual([plan.status, plan.body["state"]], [200, "completed"])
      assert.deepStrictEqual(plan.body["final"], body["final"])
      const recorded = yield* outputOf(["export", "--where", "session_id=knots"], { BOWLINE_URL: url })
      const leftOut = `${String(body["plan_id"])}: left out: events_expired: `
      assert.deepStrictEqual([recorded.code, recorded.stdout], [0, ""])
      assert.isTrue(recorded.stderr.startsWith(leftOut), recorded.stderr)
      const messages = yield* send(`${url}/sessions/knots/messages`)
      assert.include(messages.text, "Two turns.")
      yield* send(`${url}/sessions/knots`, { method: "DELETE" })
      assert.strictEqual((yield* read).status, 404)
    }).pipe(Effect.scoped)
  )
})

describe("a plan that has ended on Postgres", () => {
  it.live("is sealed by its own process, and streams the same bytes from every cursor", () =>
    Effect.gen(function* () {
      const settings = yield* databases.postgres
      const sql = yield* PgClient.makeClient({ url: Redacted.make(settings["DATABASE_URL"] ?? "") })
      const pieces = "A bowline is the knot that holds under any load and never jams.".split(/(?= )/).map(say)
      const { url } = yield* start([[callTool("nothing", {})], pieces], settings)
      const streamed = yield* post(`${url}/plan`, { question: "?" }, { accept: "text/event-stream" })
      const id = /plan_[\da-f-]+/.exec(streamed.text)?.[0]
      const [, last = ""] = /.*\nid: (\d+)/s.exec(streamed.text) ?? []
      const cursors = Array.from({ length: Number(last) + 1 }, (_, seq) => seq)
      const readAll = Effect.forEach(cursors, (seq) => Effect.map(replay(url, id, seq), ({ text }) => text))
      const before = yield* readAll
      assert.strictEqual(before[0], streamed.text)
      yield* Effect.repeat(sql`select from sealed where plan_id = ${id}`, {
        until: (rows) => rows.length === 1,
        schedule: soon
      })
      assert.deepStrictEqual(yield* sql`select from events where plan_id = ${id}`, [])
      assert.deepStrictEqual(yield* readAll, before)
    }).pipe(Effect.scoped, Effect.provide(Reactivity.layer))
  )
})
