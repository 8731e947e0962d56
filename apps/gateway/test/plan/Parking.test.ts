import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { completes, produces } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { results } from "@bowline/testing/unstable/provider/Script"
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Config, Effect, Fiber, Layer, Option, Redacted, Schedule, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { Cluster, settled } from "./Cluster.ts"
import { ask, type Frame, get, replay, start } from "./GatewayProcess.ts"
import { checkStream } from "./Storm.ts"

const onRealClock = { excludeTestServices: true }

/** How many plans wait while their gateways are restarted. */
const many = Config.Int("BOWLINE_PARKED_PLANS").pipe(Config.withDefault(12))

const soon = Schedule.spaced("20 millis")

interface Waiting {
  readonly id: string
  readonly task_id: string
}

const pays = ScriptedPeer.serve({ acts: [produces("paid"), completes()] })

const gateways = Effect.map(Cluster, ({ gateways: [a, b, c] }) =>
  a === undefined || b === undefined || c === undefined ? assert.fail("There are three") : ([a, b, c] as const)
)

/** What asks for a call of the peer that somebody has to approve. */
const bodyOf = Effect.fnUntraced(function* (peer: string, question: string, preferences: object = {}) {
  const { answer } = yield* Cluster
  answer(question, (asked) =>
    results(asked).length === 0 ? [callTool("rigger_pay", { input: question })] : [say(results(asked).join())]
  )
  const skills = [{ id: "pay", approval: "always" }]
  const agents = [{ name: "rigger", endpoint: `${peer}/`, dialect: "a2a-0.3", skills }]
  return { question, session_id: question, agents, preferences: { on_disconnect: "continue", ...preferences } }
})

const stateOf = (url: string, id: string) => Effect.map(get(url, `/plans/${id}`), ({ state }) => state)

const until = (url: string, id: string, state: string) =>
  Effect.repeat(stateOf(url, id), { until: (now) => now === state, schedule: soon })

/** Asks, leaves when the call waits, and waits until the plan is parked. */
const park = Effect.fnUntraced(function* (url: string, body: object) {
  const requested = yield* ask(url, body).pipe(
    Stream.filter(({ event }) => event === "approval.requested"),
    Stream.runHead
  )
  const { plan_id, task_id } = Option.getOrThrow(requested).data
  const waiting: Waiting = { id: String(plan_id), task_id: String(task_id) }
  yield* until(url, waiting.id, "waiting")
  return waiting
})

const approve = (url: string, { id, task_id }: Waiting) =>
  get(url, `/plans/${id}/approvals/${task_id}`, { decision: "approve" })

const checkPaid = Effect.fnUntraced(function* (url: string, { id, task_id }: Waiting) {
  const { final, state } = yield* settled(url, id)
  assert.strictEqual(state, "completed")
  assert.match(JSON.stringify(final), /paid/)
  const frames = yield* Stream.runCollect(replay(url, id))
  checkStream(frames)
  const of = (frame: Frame) => frame.data["task_id"] === task_id || frame.event === "parked" || frame.event === "woken"
  assert.deepStrictEqual(
    frames
      .filter(of)
      .map(({ event }) => event)
      .filter((event) => event !== "task.progress"),
    ["approval.requested", "parked", "woken", "approval.resolved", "task.started", "task.artifact", "task.finished"]
  )
})

/** The decision was used once, whatever became of the call; its plan is over. */
const checkTaken = Effect.fnUntraced(function* (url: string, { id, task_id }: Waiting) {
  const { error, state } = yield* settled(url, id)
  if (state !== "completed") assert.deepInclude(error, { code: "interrupted" })
  const { entries } = yield* get(url, `/plans/${id}/inbox`)
  assert.deepStrictEqual(
    (entries as ReadonlyArray<Record<string, unknown>>).map((entry) => [entry["task_id"], entry["state"]]),
    [[task_id, "taken"]]
  )
  const frames = yield* Stream.runCollect(replay(url, id))
  if (state === "completed") checkStream(frames)
  const count = (name: string) => frames.filter(({ event }) => event === name).length
  assert.deepStrictEqual(["woken", "approval.resolved", "task.started"].map(count), [1, 1, 1])
  return state
})

const settings = { BOWLINE_LEASE_TTL: "1s", BOWLINE_PARK_AFTER: "200ms" }

layer(Layer.merge(Cluster.layer(3, settings), LoopbackNetwork.layer), onRealClock)(
  "a parked plan on three gateways",
  (it) => {
    it.effect("goes on where another gateway is told, and its reader stays", () =>
      Effect.gen(function* () {
        const [a, b] = yield* gateways
        const { seen, url } = yield* pays
        const body = yield* bodyOf(url, "stays", { on_disconnect: "cancel" })
        const frames: Array<Frame> = []
        const reader = yield* ask(a.url, body).pipe(
          Stream.runForEach((frame) => Effect.sync(() => frames.push(frame))),
          Effect.forkChild
        )
        const requested = yield* Effect.repeat(
          Effect.sync(() => frames.find(({ event }) => event === "approval.requested")),
          { until: (frame) => frame !== undefined, schedule: soon }
        )
        const data = requested?.data ?? assert.fail()
        const waiting = { id: String(data["plan_id"]), task_id: String(data["task_id"]) }
        yield* until(b.url, waiting.id, "waiting")
        assert.deepInclude(yield* get(b.url, `/plans/${waiting.id}`), { deadline_at: null, stage: "approval" })
        yield* approve(b.url, waiting)
        yield* Fiber.join(reader)
        checkStream(frames)
        assert.deepStrictEqual(
          frames.slice(-2).map(({ event }) => event),
          ["final", "done"]
        )
        yield* checkPaid(a.url, waiting)
        assert.lengthOf((yield* seen).sends, 1)
      })
    )

    it.effect("keeps its session on every gateway, and ends for whoever may end it", () =>
      Effect.gen(function* () {
        const [a, b] = yield* gateways
        const { seen, url } = yield* pays
        const parked = yield* park(a.url, yield* bodyOf(url, "interrupted"))
        const refused = yield* get(b.url, "/plan", {
          question: "no",
          session_id: "interrupted",
          preferences: { on_busy: "reject" }
        })
        assert.strictEqual(refused["code"], "session_busy")
        const next = yield* get(b.url, "/plan", {
          question: "next",
          session_id: "interrupted",
          preferences: { on_busy: "interrupt" }
        })
        assert.strictEqual(next["state"], "completed")
        const ended = yield* settled(a.url, parked.id)
        assert.deepInclude(ended["error"], { code: "aborted", reason: "superseded" })

        const other = yield* park(a.url, yield* bodyOf(url, "cancelled"))
        const cancelled = yield* get(b.url, `/plans/${other.id}/cancel`, {})
        assert.deepInclude(cancelled["error"], { code: "aborted", reason: "cancelled" })

        const expiring = yield* park(a.url, yield* bodyOf(url, "expired", { wait_timeout_ms: 2_000 }))
        const expired = yield* settled(b.url, expiring.id)
        assert.match(JSON.stringify(expired["final"]), /nobody has decided/)
        assert.lengthOf((yield* seen).sends, 0)
      })
    )

    it.effect("is found by the others when its gateway is killed, and when that is that woke it", () =>
      Effect.gen(function* () {
        const [a, b, c] = yield* gateways
        const { seen, url } = yield* pays
        const first = yield* park(a.url, yield* bodyOf(url, "killed"))
        const second = yield* park(a.url, yield* bodyOf(url, "killed again"))
        yield* a.kill("SIGKILL")
        yield* approve(b.url, first)
        yield* checkPaid(b.url, first)
        yield* approve(b.url, second)
        yield* b.kill("SIGKILL")
        yield* checkTaken(c.url, second)
        assert.isAtMost((yield* seen).sends.length, 2)
      })
    )
  }
)

layer(Layer.merge(Cluster.layer(3, settings), LoopbackNetwork.layer), onRealClock)("many parked plans", (it) => {
  it.effect("outlast kills and an upgrade, half of them answered meanwhile: none is lost, or used twice", () =>
    Effect.gen(function* () {
      const [a, b, c] = yield* gateways
      const { databaseUrl, environment } = yield* Cluster
      const sql = yield* PgClient.makeClient({ url: Redacted.make(databaseUrl) })
      const { seen, url } = yield* pays
      const count = yield* many
      const numbers = Array.from({ length: count }, (_, number) => number)
      const plans = yield* Effect.forEach(
        numbers,
        (number) => Effect.flatMap(bodyOf(url, `many ${number}`), (body) => park(a.url, body)),
        { concurrency: 10 }
      )
      // All that they have told so far is sealed.
      yield* Effect.repeat(sql`select from events limit 1`, { until: (rows) => rows.length === 0, schedule: soon })
      const answered = plans.filter((_, index) => index % 2 === 0)
      const others = plans.filter((_, index) => index % 2 === 1)
      const killing = Effect.gen(function* () {
        yield* a.kill("SIGKILL")
        yield* Effect.sleep("300 millis")
        yield* b.kill("SIGKILL")
        return yield* start(environment)
      })
      const [, restarted] = yield* Effect.all(
        [Effect.forEach(answered, (plan) => Effect.delay(approve(c.url, plan), "20 millis")), killing],
        { concurrency: "unbounded" }
      )
      const ends = yield* Effect.forEach(answered, (plan) => checkTaken(restarted.url, plan), { concurrency: 5 })
      for (const { id } of others) assert.strictEqual(yield* stateOf(c.url, id), "waiting")
      const { length } = (yield* seen).sends
      // Of a call that was being made at a kill nobody knows.
      assert.isAtMost(length, answered.length)
      assert.isAtLeast(length, ends.filter((state) => state === "completed").length)
      // A rolling upgrade: the old gateway may wake plans, and hands over what it has not ended.
      const [inTime, late] = [others.slice(0, count / 4), others.slice(count / 4)]
      const telling = Effect.forEach(inTime, (plan) => Effect.delay(approve(restarted.url, plan), "20 millis"))
      yield* Effect.all([telling, Effect.delay(c.kill("SIGTERM"), "60 millis")], { concurrency: "unbounded" })
      for (const { id } of late) assert.strictEqual(yield* stateOf(restarted.url, id), "waiting")
      yield* Effect.forEach(late, (plan) => approve(restarted.url, plan))
      yield* Effect.forEach(others, (plan) => checkPaid(restarted.url, plan), { concurrency: 5 })
      assert.lengthOf((yield* seen).sends, length + others.length)
    }).pipe(Effect.provide(Reactivity.layer))
  )
})
