import { anonymous } from "@bowline/domain/caller/CallerName"
import { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, pass, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Metric, Stream } from "effect"
import { InboxStore } from "../../src/store/InboxStore.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import * as PlanMetrics from "../../src/telemetry/PlanMetrics.ts"
import { names } from "./Bob.ts"
import { admin, agents, approve, get, onMemory, pays, waitsOf } from "./Parked.ts"
import { type Mortal, mortal, peer, replayed, stays } from "./Mortal.ts"

/** Asks, and waits until the plan only waits, or is parked. */
const ask = Effect.fnUntraced(function* (process: Mortal, body: object = {}) {
  const { frames, plan_id, session_id } = yield* process.on(
    post({ question: "?", session_id: "s", ...stays, agents, ...body })
  )
  const reader = yield* Effect.forkChild(Effect.map(Stream.runCollect(frames), seen))
  yield* pass("1 second")
  return { plan_id, session_id, reader }
})

const entryOf = (number: number) => EntryId.make(`entry_00000000-0000-4000-8000-00000000000${number}`)

const eventsOf = Effect.fnUntraced(function* (plan_id: PlanId) {
  const rows = yield* (yield* PlanStore).events(plan_id, 0, 500)
  return rows.map(({ event }) => event)
})

describe("a plan that only waits", () => {
  it.effect("is parked after its time, and is woken by the decision with the rest of its time", () =>
    onMemory(
      Effect.gen(function* () {
        const first = yield* mortal({ script: [pays], peers: peer().peers })
        const called = peer()
        const second = yield* mortal({ script: [[say("paid")]], peers: called.peers })
        const { plan_id, reader } = yield* ask(first, { preferences: { ...stays.preferences, timeout_ms: 100_000 } })
        yield* pass("3 seconds", "1 second")
        assert.deepInclude(yield* get(first, plan_id), { state: "running", stage: "approval" })
        yield* pass("3 seconds", "1 second")
        assert.deepInclude(yield* get(first, plan_id), { state: "waiting", stage: "approval", deadline_at: null })
        assert.isUndefined(reader.pollUnsafe())
        first.kill()

        // Far beyond its deadline.
        yield* pass("1 hour", "10 minutes")
        assert.deepInclude(yield* get(second, plan_id), { state: "waiting" })
        yield* approve(second, plan_id)
        const events = yield* replayed(second, plan_id, "2 seconds")
        assert.strictEqual(single(events, "final").text, "paid")
        assert.lengthOf(called.calls, 1)
        assert.strictEqual(single(events, "parked").wakes_at, "1970-01-02T00:00:00.000Z")
        const { because, deadline_at } = single(events, "woken")
        assert.strictEqual(because, "entry")
        const left = Date.parse(deadline_at) - 3_607_000
        assert.isTrue(left > 93_000 && left < 96_000, String(left))
        const told = names(events)
        assert.deepStrictEqual(told.slice(told.indexOf("parked")), [
          "parked",
          "woken",
          "approval.resolved",
          "task.started",
          "task.progress",
          "task.artifact",
          "task.finished",
          "step",
          "text.delta",
          "final",
          "done"
        ])
      })
    )
  )

  it.effect("is counted for operators", () =>
    onMemory(
      Effect.gen(function* () {
        const count = Effect.map(Metric.value(PlanMetrics.parked.of({})), ({ value }) => value)
        const process = yield* mortal({ script: [pays, [say("done")]], peers: peer().peers })
        const { plan_id } = yield* ask(process)
        yield* pass("61 seconds", "1 second")
        assert.strictEqual(yield* count, 1)
        yield* approve(process, plan_id)
        yield* pass("61 seconds", "1 second")
        assert.strictEqual(yield* count, 0)
      })
    ).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it.effect("is woken by the end of its wait, and by nothing that is said besides", () =>
    onMemory(
      Effect.gen(function* () {
        const process = yield* mortal({ script: [pays, [say("done")]], peers: peer().peers })
        const { plan_id } = yield* ask(process, { preferences: { ...stays.preferences, wait_timeout_ms: 60_000 } })
        yield* pass("10 seconds", "1 second")
        const text = { type: "text", text: "Hurry.", when: "boundary", else: "ask" } as const
        yield* process.on(
          Effect.gen(function* () {
            const accepted = yield* process.inbox.accept(admin, plan_id, text)
            assert.deepStrictEqual((yield* eventsOf(plan_id)).slice(-2), ["parked", "inbox.accepted"])
            const other = yield* process.inbox.accept(admin, plan_id, { ...text, text: "No." })
            yield* process.inbox.withdraw(admin, plan_id, other.entry_id)
            assert.deepStrictEqual((yield* eventsOf(plan_id)).slice(-2), ["inbox.accepted", "inbox.moved"])
            yield* pass("20 seconds", "1 second")
            assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
            const events = yield* replayed(process, plan_id, "40 seconds")
            assert.strictEqual(single(events, "woken").because, "expired")
            assert.deepInclude(single(events, "approval.resolved"), { note: "expired" })
            assert.strictEqual(single(events, "inbox.taken").entry_id, accepted.entry_id)
            assert.lengthOf(all(events, "inbox.accepted"), 2)
            assert.lengthOf(all(events, "inbox.moved"), 1)
          })
        )
      })
    )
  )

  it.effect("keeps its session: a question queues behind it, or is refused, or ends it", () =>
    onMemory(
      Effect.gen(function* () {
        const first = yield* mortal({ script: [pays], peers: peer().peers })
        const second = yield* mortal({ script: () => [say("next")], peers: peer().peers })
        const { plan_id } = yield* ask(first)
        yield* pass("10 seconds", "1 second")
        const busy = yield* Effect.flip(
          second.on(post({ question: "2", session_id: "s", preferences: { on_busy: "reject" } }))
        )
        assert.strictEqual(busy._tag, "SessionBusy")
        const queued = yield* ask(second, { question: "3" })
        yield* pass("10 seconds", "1 second")
        assert.deepInclude(yield* get(second, queued.plan_id), { state: "queued" })
        const over = yield* ask(second, { preferences: { ...stays.preferences, on_busy: "interrupt" } })
        yield* pass("10 seconds", "1 second")
        const ended = yield* get(second, plan_id)
        assert.deepInclude(ended, { state: "aborted" })
        assert.deepInclude(ended.error, { reason: "superseded" })
        assert.deepInclude(yield* get(second, over.plan_id), { state: "completed" })
      })
    )
  )

  it.effect("is woken to be cancelled, also where no place is free", () =>
    onMemory(
      Effect.gen(function* () {
        const config = { maxPlans: 1 }
        const process = yield* mortal({ script: [pays, pays], peers: peer().peers, config })
        const { plan_id } = yield* ask(process)
        yield* pass("10 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
        // Another plan has the place.
        yield* ask(process, { session_id: "t", preferences: { ...stays.preferences } })
        const cancelling = yield* Effect.forkChild(process.plans.cancel(anonymous, plan_id))
        yield* pass("3 seconds", "100 millis")
        const cancelled = yield* Fiber.join(cancelling)
        assert.deepInclude(cancelled, { state: "aborted" })
        assert.deepInclude(cancelled.error, { reason: "cancelled" })
        assert.strictEqual(single(yield* replayed(process, plan_id, "1 second"), "woken").because, "abort")
      })
    )
  )

  it.effect("waits in the queue for a place when it is woken, which does not count", () =>
    onMemory(
      Effect.gen(function* () {
        const config = { maxPlans: 1 }
        const script = [pays, [callTool("bob_ask", { input: "x" })], [say("there")], [say("here")]]
        const slow = peer(
          Effect.delay(
            Effect.succeed({ state: "completed", content: "hi", verified: "unknown" } as const),
            "60 seconds"
          )
        )
        const process = yield* mortal({ script, peers: slow.peers, config })
        const { plan_id } = yield* ask(process, { preferences: { ...stays.preferences, timeout_ms: 30_000 } })
        yield* pass("10 seconds", "1 second")
        const other = yield* ask(process, { session_id: "t" })
        yield* approve(process, plan_id)
        yield* pass("40 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "running", stage: "queue", deadline_at: null })
        yield* pass("30 seconds", "1 second")
        assert.deepInclude(yield* get(process, other.plan_id), { state: "completed" })
        assert.notStrictEqual((yield* get(process, plan_id)).stage, "queue")
      })
    )
  )

  it.effect("is not parked while something of it runs, nor before the last decision is used", () =>
    onMemory(
      Effect.gen(function* () {
        const slow = peer(
          Effect.delay(
            Effect.succeed({ state: "completed", content: "hi", verified: "unknown" } as const),
            "20 seconds"
          )
        )
        const calls = [...pays, callTool("bob_ask", { input: "x" })]
        const process = yield* mortal({ script: [calls, [say("done")]], peers: slow.peers })
        const { plan_id } = yield* ask(process)
        yield* pass("15 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "running", stage: "tool" })
        yield* pass("8 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "running", stage: "approval" })
        yield* pass("3 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "waiting", stage: "approval" })
      })
    )
  )

  it.effect("goes on where the decision comes while the database is asked", () => {
    let asked = 0
    return onMemory(
      Effect.gen(function* () {
        const decided = Effect.fnUntraced(function* (plan_id: PlanId) {
          asked++
          const [wait] = yield* waitsOf(plan_id)
          if (wait === undefined) return
          const { task_id } = wait
          yield* (yield* InboxStore).accept({
            plan_id,
            entry_id: entryOf(asked),
            by: anonymous,
            owner: undefined,
            entry: { type: "decision", task_id, decision: "approve" }
          })
        })
        const racing = Layer.effect(
          PlanStore,
          Effect.gen(function* () {
            const plans = yield* PlanStore
            const context = yield* Effect.context<InboxStore>()
            return {
              ...plans,
              commit: (batch) => {
                const parked = batch.find(({ changes }) => changes.some(({ _tag }) => _tag === "Parked"))
                const before = parked === undefined || asked > 0 ? Effect.void : Effect.orDie(decided(parked.plan_id))
                return Effect.andThen(Effect.provideContext(before, context), plans.commit(batch))
              }
            } satisfies PlanStore["Service"]
          })
        )
        yield* Effect.gen(function* () {
          const called = peer()
          const process = yield* mortal({ script: [pays, [say("done")]], peers: called.peers })
          const { plan_id } = yield* ask(process)
          const events = yield* replayed(process, plan_id, "20 seconds")
          assert.strictEqual(asked, 1)
          assert.lengthOf(all(events, "parked"), 0)
          assert.strictEqual(single(events, "final").text, "done")
          assert.lengthOf(called.calls, 1)
        }).pipe(Effect.provide(racing))
      })
    )
  })

  for (const [title, body, config] of [
    ["where it may not", {}, { parkAfter: undefined }],
    ["where its replica resumes no plans", {}, { resume: false }],
    [
      "where a secret of its request is not stored",
      { agents: agents.map((agent) => ({ ...agent, auth: { type: "bearer", token: "secret" } })) },
      {}
    ]
  ] as const) {
    it.effect(`is not parked ${title}`, () =>
      onMemory(
        Effect.gen(function* () {
          const process = yield* mortal({ script: [pays, [say("done")]], peers: peer().peers, config })
          const { plan_id } = yield* ask(process, body)
          yield* pass("30 seconds", "1 second")
          assert.deepInclude(yield* get(process, plan_id), { state: "running", stage: "approval" })
          yield* approve(process, plan_id)
          const events = yield* replayed(process, plan_id, "2 seconds")
          assert.lengthOf(all(events, "parked"), 0)
          assert.strictEqual(single(events, "final").text, "done")
        })
      )
    )
  }

  it.effect("is parked after as long as the configuration says", () =>
    onMemory(
      Effect.gen(function* () {
        const config = { parkAfter: Duration.minutes(1) }
        const process = yield* mortal({ script: [pays], peers: peer().peers, config })
        const { plan_id } = yield* ask(process)
        yield* pass("58 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "running" })
        yield* pass("3 seconds", "1 second")
        assert.deepInclude(yield* get(process, plan_id), { state: "waiting" })
      })
    )
  )
})
