import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall, wait } from "@bowline/testing/http/Move"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { error, noFinish, say, usage } from "@bowline/testing/provider/Turn"
import { layer, pass, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { BudgetSpent, SessionCompaction } from "../../src/plan/SessionCompaction.ts"
import type { PlansConfig } from "../../src/config/PlansConfig.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { ask, isSummary, small, words } from "../compaction/LongSession.ts"

const provide = (script: Script, config: Partial<PlansConfig["Service"]> = {}) =>
  Effect.provide(layer({ script, config: { ...small, maxRetries: 0, ...config } }))

const compact = Effect.flatMap(SessionCompaction, (sessions) => sessions.compact(anonymous, "s"))

const begin = Effect.forkChild(compact, { startImmediately: true })

const requests = Effect.flatMap(ScriptedProvider, ({ asked }) => asked.all)

const summaries = Effect.map(requests, (all) => all.filter(isSummary))

const session = Effect.flatMap(SessionStore, (sessions) => sessions.find(anonymous, "s"))

/** Three turns that are not too long for a prompt, of which one stays when they are compacted. */
const threeTurns = Effect.forEach([1, 2, 3], (turn) => ask(`turn-${turn} ${words(650)}`))

/** A summary that takes ten seconds. */
const slowly: Script = (asked) => (isSummary(asked) ? [wait("10 seconds"), say("the summary")] : [say("noted")])

describe("a compaction that is asked for", () => {
  it.effect("covers all but the newest turns, and has nothing to gain directly after that", () =>
    Effect.gen(function* () {
      yield* threeTurns
      assert.deepInclude(yield* compact, { summary: "the summary", messages_compacted: 4 })
      assert.deepInclude(yield* session, { summary: "the summary", message_count: 6 })
      assert.isNull(yield* compact)
      assert.lengthOf(yield* summaries, 1)
    }).pipe(provide((asked) => [say(isSummary(asked) ? "the summary" : "noted")]))
  )

  it.effect("is charged to its caller, also where no summary comes of it, and refused once nothing is left", () => {
    let isCut = true
    const used = usage({ input_tokens: 900, output_tokens: 100 })
    const script: Script = (asked) => {
      if (!isSummary(asked)) return [say("noted")]
      return isCut ? [say("the"), used, noFinish] : [say("the summary"), used]
    }
    const budget = { tokens: Infinity, tool_calls: Infinity, cost_usd: Infinity, month_cost_usd: Infinity }
    let tokens = Infinity
    return Effect.gen(function* () {
      yield* threeTurns
      const { spent } = yield* PlanStore
      const charged = Effect.map(spent(anonymous, "1970-01-01"), ({ tokens }) => tokens)
      assert.strictEqual((yield* Effect.flip(compact))._tag, "NoSummary")
      assert.strictEqual(yield* charged, 1_000)
      isCut = false
      assert.deepInclude((yield* compact)?.usage, { input_tokens: 900, output_tokens: 100 })
      assert.strictEqual(yield* charged, 2_000)
      tokens = 2_000
      const refused = yield* Effect.flip(compact)
      const { message, nextDay } = refused instanceof BudgetSpent ? refused : assert.fail()
      assert.strictEqual(nextDay, 86_400)
      assert.include(message, "The next day begins at 1970-01-02")
    }).pipe(provide(script, { budgetOf: () => ({ ...budget, tokens }) }))
  })

  it.effect("is joined instead of being started a second time", () =>
    Effect.gen(function* () {
      yield* threeTurns
      const waiters = [yield* begin, yield* begin, yield* begin]
      yield* pass("11 seconds")
      const results = yield* Effect.forEach(waiters, Fiber.join)
      assert.deepStrictEqual(
        results.map((result) => result?.summary),
        ["the summary", "the summary", "the summary"]
      )
      assert.lengthOf(yield* summaries, 1)
    }).pipe(provide(slowly))
  )

  it.effect("outlives the caller who asked first, and ends when the last one disconnects", () =>
    Effect.gen(function* () {
      yield* threeTurns
      const first = yield* begin
      yield* pass("1 second")
      const second = yield* begin
      yield* pass("1 second")
      yield* Fiber.interrupt(first)
      yield* pass("1 second")
      assert.strictEqual(yield* (yield* ScriptedProvider).asked.open, 1)
      yield* Fiber.interrupt(second)
      assert.strictEqual(yield* (yield* ScriptedProvider).asked.open, 0)
      assert.deepInclude(yield* session, { summary: null })

      // The session is free, and whoever comes next begins anew.
      const third = yield* begin
      yield* pass("11 seconds")
      assert.deepInclude(yield* Fiber.join(third), { summary: "the summary" })
      assert.lengthOf(yield* summaries, 2)
    }).pipe(provide(slowly))
  )

  it.effect("starts again after a failure, which everybody who waited for it is told", () => {
    let calls = 0
    return Effect.gen(function* () {
      yield* threeTurns
      const waiters = [yield* begin, yield* begin]
      yield* pass("2 seconds")
      for (const waiter of waiters) assert.strictEqual((yield* Effect.flip(Fiber.join(waiter)))._tag, "NoSummary")
      assert.lengthOf(yield* summaries, 1)
      assert.deepInclude(yield* compact, { summary: "the summary" })
    }).pipe(
      provide((asked) =>
        isSummary(asked) ? (calls++ === 0 ? [wait("1 second"), error(500)] : [say("the summary")]) : [say("noted")]
      )
    )
  })

  it.effect("fails after half an hour of a model that never comes to an end, and releases the session", () =>
    Effect.gen(function* () {
      yield* threeTurns
      const compacting = yield* Effect.forkChild(Effect.flip(compact), { startImmediately: true })
      const plan = yield* Effect.forkChild(Effect.delay(ask("next"), "1 minute"))
      yield* pass("1799 seconds", "1 second")
      assert.strictEqual(yield* (yield* ScriptedProvider).asked.open, 1)
      yield* pass("2 seconds", "1 second")
      assert.strictEqual(yield* (yield* ScriptedProvider).asked.open, 0)
      assert.strictEqual((yield* Fiber.join(compacting))._tag, "NoSummary")
      assert.lengthOf(yield* summaries, 1)
      assert.deepInclude(yield* session, { summary: null })
      single(yield* Fiber.join(plan), "final")
    }).pipe(
      provide(
        (asked) =>
          isSummary(asked)
            ? Array.from({ length: 100 }, () => [wait("1 minute"), say("word ")]).flat()
            : [say("noted")],
        { attemptTimeout: Duration.hours(2), maxRetries: 3 }
      )
    )
  )

  it.effect("makes a plan that comes meanwhile wait behind it", () =>
    Effect.gen(function* () {
      yield* threeTurns
      const compacting = yield* begin
      yield* pass("1 second")
      const plan = yield* Effect.forkChild(ask("next"))
      yield* pass("5 seconds")
      assert.lengthOf(yield* requests, 4)
      yield* pass("10 seconds")
      assert.deepInclude(yield* Fiber.join(compacting), { summary: "the summary" })
      single(yield* Fiber.join(plan), "final")
      assert.include((yield* requests).at(-1)?.system, "the summary")
    }).pipe(provide(slowly))
  )

  it.effect("is refused while the session has a plan", () =>
    Effect.gen(function* () {
      const plan = yield* Effect.forkChild(ask("now"))
      yield* pass("1 second")
      assert.strictEqual((yield* Effect.flip(compact))._tag, "SessionBusy")
      yield* Fiber.interrupt(plan)
    }).pipe(provide(() => [stall]))
  )

  it.effect("is refused when another replica does not release the session, and starts nothing", () =>
    Effect.gen(function* () {
      yield* threeTurns
      yield* (yield* LeaseStore).acquire((yield* session).session_id, "replica_other", Duration.hours(1))
      const refused = yield* Effect.forkChild(Effect.flip(compact))
      yield* pass("11 seconds")
      assert.strictEqual((yield* Fiber.join(refused))._tag, "SessionBusy")
      assert.isEmpty(yield* summaries)
    }).pipe(provide(slowly))
  )
})
