import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { until, wait } from "@bowline/testing/http/Move"
import { type Asked, question } from "@bowline/testing/unstable/provider/Script"
import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Schedule } from "effect"
import { databases } from "../plan/Databases.ts"
import { post, send, start, startOn, stores } from "./RunningGateway.ts"

const callers = {
  BOWLINE_API_KEYS: "ann=key-of-ann,bob=key-of-bob,root=key-of-root",
  BOWLINE_ADMIN_CALLERS: "root",
  BOWLINE_RATE_LIMIT: "1000000/1m"
}
const by = (name: string) => ({ authorization: `Bearer key-of-${name}` })
const [ann, bob, root] = [by("ann"), by("bob"), by("root")]
const whole = { ...ann, accept: "application/json" }

interface Listed {
  readonly plan_id: string
  readonly state: string
}

/** The newest plan of ann's, once it is in this state. */
const newest = (url: string, state: string) =>
  send(`${url}/plans?limit=1`, { headers: ann }).pipe(
    Effect.map(({ body }) => (body["plans"] as ReadonlyArray<Listed>)[0]),
    Effect.repeat({ until: (plan) => plan?.state === state, schedule: Schedule.spaced("10 millis") }),
    Effect.map((plan) => plan?.plan_id ?? assert.fail())
  )

const entriesOf = (url: string, plan: string) =>
  Effect.map(
    send(`${url}/plans/${plan}/inbox`, { headers: ann }),
    ({ body }) => body["entries"] as ReadonlyArray<Readonly<Record<string, unknown>>>
  )

/** How often an entry and the end of a plan meet. */
const races = Number(process.env["BOWLINE_INBOX_RACES"] ?? 25)

const deployments = [
  { name: "memory", replicas: 1, store: stores.memory },
  { name: "embedded", replicas: 1, store: Effect.orDie(databases.embedded) },
  { name: "postgres", replicas: 1, store: stores.postgres },
  { name: "postgres, two replicas", replicas: 2, store: stores.postgres }
]

describe("the inbox of a plan", () => {
  for (const [name, store] of Object.entries(stores)) {
    it.live(`takes what its caller and admins say, once, and refuses the rest in words (${name})`, () =>
      Effect.gen(function* () {
        const isHeard = Latch.makeUnsafe(false)
        const { url } = yield* startOn(store)(
          (asked) =>
            question(asked) === "first" ? [until(isHeard.await), say("one")] : [say(`to ${question(asked)}`)],
          callers
        )
        const asking = yield* Effect.forkChild(post(`${url}/plan`, { question: "first", session_id: "s" }, whole))
        const plan = yield* newest(url, "running")
        const inbox = `${url}/plans/${plan}/inbox`
        const tell = (body: unknown, headers: Readonly<Record<string, string>> = ann) => post(inbox, body, headers)

        const wrong = yield* tell({ type: "text", when: "later", extra: 1 })
        assert.strictEqual(wrong.status, 400)
        assert.match(wrong.text, /"path":"text"/)
        assert.strictEqual((yield* tell({ type: "shout", text: "?" })).status, 400)
        assert.strictEqual((yield* tell({ type: "text", text: " " })).status, 400)
        const lost = "00000000-0000-4000-8000-000000000000"
        assert.strictEqual((yield* tell({ type: "decision", task_id: lost, decision: "approve" })).status, 404)
        assert.strictEqual((yield* tell({ type: "text", text: "mine" }, bob)).status, 404)
        assert.strictEqual((yield* post(`${url}/plans/nothing/inbox`, { type: "text", text: "?" }, ann)).status, 404)

        const key = { ...ann, "idempotency-key": "one" }
        const first = yield* tell({ type: "text", text: "second" }, key)
        assert.strictEqual(first.status, 202)
        assert.deepStrictEqual(first.body, { entry_id: first.body["entry_id"], plan_id: plan, moved: false })
        assert.deepStrictEqual((yield* tell({ text: "second", type: "text" }, key)).body, first.body)
        const other = yield* tell({ type: "text", text: "other" }, key)
        assert.deepStrictEqual([other.status, other.body["code"]], [409, "idempotency_conflict"])
        const { body: back } = yield* tell({ type: "text", text: "no" }, root)
        const taken = `${inbox}/${String(back["entry_id"])}`
        for (const status of [204, 204]) {
          assert.strictEqual((yield* send(taken, { method: "DELETE", headers: ann })).status, status)
        }

        yield* isHeard.open
        const { body: result } = yield* Fiber.join(asking)
        assert.strictEqual((result["final"] as Listed & { readonly text: string }).text, "to second")
        assert.deepStrictEqual(
          (yield* entriesOf(url, plan)).map(({ by, state, step, text }) => [by, text, state, step]),
          [
            ["ann", "second", "taken", 2],
            ["root", "no", "withdrawn", null]
          ]
        )
        const late = yield* send(`${inbox}/${String(first.body["entry_id"])}`, { method: "DELETE", headers: ann })
        assert.deepStrictEqual([late.status, late.body["code"]], [409, "entry_taken"])

        const refused = yield* tell({ type: "text", text: "too late", else: "reject" })
        assert.deepStrictEqual([refused.status, refused.body["code"]], [409, "plan_over"])
        const { body: moved } = yield* tell({ type: "text", text: "third" })
        assert.isTrue(moved["moved"])
        const next = yield* newest(url, "completed")
        assert.strictEqual(next, moved["plan_id"])
        const { body: shown } = yield* send(`${url}/plans/${next}`, { headers: ann })
        assert.deepStrictEqual([shown["question"], shown["session_id"]], ["third", result["session_id"]])

        yield* isHeard.close
        const steered = yield* Effect.forkChild(post(`${url}/plan`, { question: "first", session_id: "t" }, whole))
        const running = yield* newest(url, "running")
        const steers = { question: "turn", session_id: "t", preferences: { on_busy: "steer" } }
        const steering = yield* Effect.forkChild(post(`${url}/plan`, steers, whole))
        yield* Effect.repeat(entriesOf(url, running), { until: ({ length }) => length > 0 })
        yield* isHeard.open
        const { body: joined } = yield* Fiber.join(steering)
        assert.strictEqual(joined["plan_id"], running)
        assert.deepStrictEqual(joined, (yield* Fiber.join(steered)).body)
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }

  for (const { name, replicas, store } of deployments) {
    it.live(`has each entry that meets the end of its plan in one place: taken, moved, or refused (${name})`, () =>
      Effect.gen(function* () {
        const settings = { ...(yield* store), ...callers }
        const script = (asked: Asked) => [wait("20 millis"), say(`to ${question(asked)}`)]
        const { url } = yield* start(script, settings)
        // It is said to the other one, if there is one.
        const { url: other } = replicas === 1 ? { url } : yield* start(script, settings)
        const race = Effect.fnUntraced(function* (round: number) {
          const session_id = `s${round}`
          const asking = yield* Effect.forkChild(
            post(`${url}/plan`, { question: "first", session_id }, { ...ann, accept: "text/event-stream" })
          )
          const find = Effect.map(send(`${url}/plans?session_id=${session_id}`, { headers: ann }), ({ body }) => {
            const [plan] = (body["plans"] ?? []) as ReadonlyArray<Listed>
            return plan?.plan_id
          })
          const plan = yield* Effect.repeat(find, { until: (id) => id !== undefined })
          yield* Effect.sleep(round % 25)
          const entry = { type: "text", text: `entry ${round}`, else: round % 2 === 0 ? "ask" : "reject" }
          const { body, status } = yield* post(`${other}/plans/${plan}/inbox`, entry, ann)
          const { text: stream } = yield* Fiber.join(asking)
          const count = (name: string) => stream.match(new RegExp(`^event: ?${name}$`, "gm"))?.length
          const entries = yield* entriesOf(url, plan)
          const [listed] = entries ?? assert.fail(plan)
          if (status === 409) {
            assert.deepStrictEqual([body["code"], listed], ["plan_over", undefined])
            return "refused"
          }
          assert.strictEqual(status, 202)
          if (body["moved"] === true) {
            assert.deepStrictEqual([listed?.["state"], listed?.["moved_to"]], ["moved", body["plan_id"]])
            return "moved"
          }
          assert.deepStrictEqual([listed?.["state"], count("inbox.taken"), count("final")], ["taken", 1, 1])
          assert.include(stream, `to entry ${round}`)
          return "taken"
        })
        const ends = yield* Effect.forEach(
          Array.from({ length: races }, (_, round) => round),
          race,
          { concurrency: 4 }
        )
        assert.lengthOf(ends, races)
      }).pipe(Effect.provide(LoopbackNetwork.layer), Effect.scoped)
    )
  }
})
