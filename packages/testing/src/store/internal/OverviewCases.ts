import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Outcome } from "@bowline/domain/plan/Outcome"
import type { TaskState } from "@bowline/domain/tool/TaskState"
import type { Overview } from "@bowline/domain/unstable/plan/Overview"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { Effect } from "effect"
import assert from "node:assert/strict"
import type { StoreCase } from "../StoreCase.ts"
import * as Given from "../Given.ts"

const aborted: Outcome = {
  state: "aborted",
  error: { code: "aborted", message: `"reason":"no" \u0000`, retryable: true, stage: "tool", reason: "deadline" }
}
const failed: Outcome = {
  state: "failed",
  error: { code: "loop_detected", message: "Again \u0000", retryable: false, stage: "tool" }
}

/** A day of which no other test knows. */
const dayOf = (year: number) => ({
  since: `${year}-05-01T00:00:00.000Z`,
  until: `${year}-05-02T00:00:00.000Z`,
  stepMs: 3_600_000,
  at: (time: string) => `${year}-05-01T${time}Z`
})

const states = { queued: 0, running: 0, waiting: 0, completed: 0, failed: 0, aborted: 0 }

/** A plan of the day that ended so many milliseconds after it was created. */
const ended = Effect.fnUntraced(function* (
  owner: CallerName,
  created_at: string,
  { firstTokenAt = null, outcome = Given.completed, took = 1_000 }: Partial<Ended> = {}
) {
  const held = yield* Given.createHeld({ owner, created_at })
  const at = fromMillis(Date.parse(created_at) + took)
  const gist = firstTokenAt === null ? undefined : { ...PlanGist.upTo(2), firstTokenAt }
  yield* Given.write(held, [{ _tag: "Settled", outcome, progress: Given.progress, at }, PlanGist.summed(gist)])
  return held
})

interface Ended {
  readonly outcome: Outcome
  readonly took: number
  readonly firstTokenAt: string | null
}

type Started = ReturnType<typeof Given.started>

interface Calling extends Pick<Started, "agent" | "endpoint" | "kind"> {
  readonly state: TaskState
  readonly message: string
}

const archive = "https://archive.test/?token="

/** A call that took so many milliseconds. */
const called = Effect.fnUntraced(function* (
  held: Given.Stored,
  tool: string,
  at: string,
  { state = "completed", took = 100 }: { readonly state?: TaskState; readonly took?: number } = {}
) {
  const task_id = yield* Given.newTask
  const finishedAt = fromMillis(Date.parse(at) + took)
  yield* Given.write(held, [
    { ...Given.started(task_id, tool), at },
    { _tag: "TaskFinished", task_id, state, result: "", error: null, at: finishedAt }
  ])
})

const shown = (stretches: Overview["stretches"]) =>
  stretches.flatMap(({ at, duration_p95, first_token_p95, plans }) =>
    Object.values(plans).some((count) => count > 0)
      ? [[at, plans.completed, plans.failed, plans.aborted, first_token_p95, duration_p95]]
      : []
  )

export const overviewCases: ReadonlyArray<StoreCase> = [
  {
    title: "counts the plans of a stretch of time by their states, and tells how long they took",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2040)
      const owner = yield* Given.newOwner
      yield* ended(owner, at("00:00:00.000"), { took: 1_000, firstTokenAt: at("00:00:00.300") })
      yield* ended(owner, at("00:59:59.999"), { took: 3_000, firstTokenAt: at("01:00:00.199") })
      yield* ended(owner, at("23:59:59.999"), { outcome: failed, took: 9_001 })
      // Neither the plan before nor the one behind, nor somebody else's.
      yield* ended(owner, "2040-04-30T23:59:59.999Z")
      yield* ended(owner, day.until)
      yield* ended(yield* Given.newOwner, at("12:00:00.000"))
      const read = yield* (yield* OverviewStore).read({ owner, ...day })
      assert.deepEqual([read.since, read.until, read.step_ms, read.caller], [day.since, day.until, day.stepMs, owner])
      assert.deepEqual(read.plans, { ...states, completed: 2, failed: 1 })
      assert.deepEqual(read.first_token_ms, { p50: 200, p95: 300 })
      assert.deepEqual(read.duration_ms, { p50: 3_000, p95: 9_001 })
      assert.deepEqual(
        read.stretches.map(({ at }) => at),
        Array.from({ length: 24 }, (_, hour) => at(`${String(hour).padStart(2, "0")}:00:00.000`))
      )
      assert.deepEqual(shown(read.stretches), [
        [at("00:00:00.000"), 2, 0, 0, 300, 3_000],
        [at("23:00:00.000"), 0, 1, 0, null, 9_001]
      ])
      assert.equal(read.replicas, null)
    })
  },
  {
    title: "begins with the whole stretch in which the time begins, and counts nothing before that time",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2041)
      const owner = yield* Given.newOwner
      yield* ended(owner, at("03:10:00.000"))
      yield* ended(owner, at("03:30:00.000"))
      const asked = { owner, ...day, since: at("03:20:00.000"), until: at("04:40:00.000") }
      const { plans, stretches } = yield* (yield* OverviewStore).read(asked)
      assert.equal(plans.completed, 1)
      assert.deepEqual(
        stretches.map(({ at, plans }) => [at, plans.completed]),
        [
          [at("03:00:00.000"), 1],
          [at("04:00:00.000"), 0]
        ]
      )
    })
  },
  {
    title: "counts failures by what they were, and cost by model and by caller, the most expensive first",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2042)
      const [ann, bob] = [yield* Given.newOwner, yield* Given.newOwner]
      for (const outcome of [aborted, aborted, failed]) yield* ended(ann, at("01:00:00.000"), { outcome })
      for (const cost_usd of [1, null]) {
        const held = yield* Given.createHeld({ owner: bob, created_at: at("02:00:00.000") })
        const progress = { ...Given.progress, model: "a/model", cost_usd }
        yield* Given.write(held, [{ _tag: "Settled", outcome: Given.completed, progress, at: at("02:00:01.000") }])
      }
      const store = yield* OverviewStore
      const read = yield* store.read(day)
      assert.equal(read.caller, null)
      assert.deepEqual(read.failures, [
        { error_code: "aborted", reason: "deadline", plans: 2 },
        { error_code: "loop_detected", reason: null, plans: 1 }
      ])
      assert.deepEqual(read.models, [
        { model: "a/model", plans: 2, cost_usd: 1, unpriced: 1 },
        { model: "scripted/other", plans: 3, cost_usd: 0.000_75, unpriced: 0 }
      ])
      assert.deepEqual(read.callers, [
        { caller: bob, plans: 2, cost_usd: 1, unpriced: 1 },
        { caller: ann, plans: 3, cost_usd: 0.000_75, unpriced: 0 }
      ])
      const own = yield* store.read({ owner: bob, ...day })
      assert.deepEqual([own.failures, own.callers.map(({ caller }) => caller)], [[], [bob]])
    })
  },
  {
    title: "tells the slowest tools, and those that fail most often, of one caller or of all",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2043)
      const owner = yield* Given.newOwner
      const [own, other] = yield* Effect.all([
        Given.createHeld({ owner, created_at: at("05:00:00.000") }),
        Given.createHeld({ created_at: at("05:00:00.000") })
      ])
      yield* called(own, "search", at("05:00:01.000"), { took: 100 })
      yield* called(own, "search", at("05:00:01.000"), { took: 700, state: "timed-out" })
      yield* called(other, "search", at("05:00:01.000"), { took: 800, state: "failed" })
      yield* called(other, "search", at("06:00:01.000"), { took: 10, state: "rejected" })
      yield* called(other, "search", day.until, { took: 9_000 })
      yield* called(own, "quick", at("05:00:02.000"), { took: 5, state: "invalid" })
      for (let index = 10; index < 21; index++)
        yield* called(own, `slow_${index}`, at("05:00:02.000"), { took: index * 100 })
      const open = yield* Given.newTask
      yield* Given.write(other, [{ ...Given.started(open, "search"), at: at("05:00:02.000") }])
      const store = yield* OverviewStore
      const search = { tool: "search", kind: "peer" }
      const quick = { tool: "quick", kind: "peer", calls: 1, failures: 1, duration_ms: { p50: 5, p95: 5 } }
      const { tools } = yield* store.read({ owner, ...day })
      assert.deepEqual(
        tools.map(({ tool }) => tool),
        [...Array.from({ length: 10 }, (_, index) => `slow_${20 - index}`), "search", "quick"]
      )
      assert.deepEqual(tools.slice(-2), [
        { ...search, calls: 2, failures: 1, duration_ms: { p50: 100, p95: 700 } },
        quick
      ])
      assert.deepEqual((yield* store.read(day)).tools.slice(-2), [
        { ...search, calls: 5, failures: 2, duration_ms: { p50: 100, p95: 800 } },
        quick
      ])
    })
  },
  {
    title: "tells how long the calls of each peer took, how many failed, and of what the newest of these",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2046)
      const [own, other] = yield* Effect.all([
        Given.createHeld({ created_at: at("05:00:00.000") }),
        Given.createHeld({ created_at: at("05:00:00.000") })
      ])
      const call = Effect.fnUntraced(function* (
        held: Given.Stored,
        startedAt: string,
        took: number,
        { state = "completed", message, ...start }: Partial<Calling> = {}
      ) {
        const task_id = yield* Given.newTask
        const finishedAt = fromMillis(Date.parse(startedAt) + took)
        const error = message === undefined ? null : { code: "peer_failed", message }
        yield* Given.write(held, [
          { ...Given.started(task_id, "search"), agent: "archive", endpoint: archive, ...start, at: startedAt },
          { _tag: "TaskFinished", task_id, state, result: "", error, at: finishedAt }
        ])
      })
      const message = `It broke: "\u0000"`
      yield* call(own, at("05:00:01.000"), 100)
      yield* call(other, at("07:00:01.000"), 800, { state: "failed", message })
      yield* call(own, at("06:00:01.000"), 700, { state: "timed-out", message: "Too late" })
      yield* call(own, day.until, 100, { state: "failed", message: "Tomorrow" })
      yield* call(other, at("05:00:01.000"), 7, { kind: "mcp", agent: "docs", endpoint: null })
      yield* call(other, at("05:00:01.000"), 7, { kind: "recipe", agent: null, endpoint: null })
      const { peers } = yield* OverviewStore
      assert.deepEqual(
        (yield* peers(day)).toSorted((a, b) => (a.kind < b.kind ? -1 : 1)),
        [
          { kind: "mcp", called: "docs", calls: 1, failures: 0, duration_ms: { p50: 7, p95: 7 }, last_error: null },
          {
            kind: "peer",
            called: archive,
            calls: 3,
            failures: 2,
            duration_ms: { p50: 700, p95: 800 },
            last_error: { at: at("07:00:01.800"), message: `It broke: "\u0000"` }
          }
        ]
      )
    })
  },
  {
    title: "tells what waits and runs now, since when, and on which replicas",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2044)
      const owner = yield* Given.newOwner
      const replica = yield* Given.newReplica
      const earlier = "2026-01-01T00:00:00.000Z"
      yield* Given.create({ owner, replica, created_at: earlier })
      yield* Given.create({ owner, replica })
      const held = yield* Given.createHeld({ owner, replica })
      yield* Given.write(held, [{ _tag: "Progressed", stage: "approval", progress: Given.progress }])
      const store = yield* OverviewStore
      const own = yield* store.read({ owner, ...day })
      assert.deepEqual(own.open, [
        { state: "queued", stage: "queue", plans: 2, oldest_at: earlier },
        { state: "running", stage: "approval", plans: 1, oldest_at: Given.at }
      ])
      assert.deepEqual(own.plans, states)
      const { replicas } = yield* store.read(day)
      const found = replicas?.find((one) => one.replica === replica)
      assert.deepEqual(found, { replica, alive: true, queued: 2, running: 1 })
      yield* Given.abandon
      const later = (yield* store.read(day)).replicas?.find((one) => one.replica === replica)
      assert.deepEqual(later, { replica, alive: false, queued: 2, running: 1 })
      yield* ended(owner, at("00:00:00.000"))
    })
  },
  {
    title: "keeps the time of the first text that it is told first",
    test: Effect.gen(function* () {
      const { at, ...day } = dayOf(2045)
      const owner = yield* Given.newOwner
      const held = yield* Given.createHeld({ owner, created_at: at("00:00:00.000") })
      yield* Given.write(held, [PlanGist.summed({ ...PlanGist.upTo(1), firstTokenAt: at("00:00:00.250") })])
      yield* Given.write(held, [PlanGist.summed(undefined)])
      yield* Given.write(held, [PlanGist.summed({ ...PlanGist.upTo(1), firstTokenAt: at("00:00:07.000") })])
      const { first_token_ms } = yield* (yield* OverviewStore).read({ owner, ...day })
      assert.deepEqual(first_token_ms, { p50: 250, p95: 250 })
    })
  }
]
