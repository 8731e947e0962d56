import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { type PlanCommit, PlanStore } from "../../src/store/PlanStore.ts"
import { ask as askIn, isSummary, small, words } from "../compaction/LongSession.ts"
import { askBob, bob } from "../plan/Bob.ts"
import { askAndKill, hi, mortal, peer, replayed } from "../plan/Mortal.ts"

const spends = usage({ input_tokens: 900, output_tokens: 100 })
const budgetOf = () => ({ tokens: 2_000, tool_calls: 10 })
const ask = Effect.flatMap(post({ question: "?", agents: [bob] }), ({ frames }) => readAll(frames))

const spentOn = (day: string) => Effect.flatMap(PlanStore, (store) => store.spent(anonymous, day))

describe("a daily budget", () => {
  it.effect("begins anew at midnight in UTC, also for a plan that runs then", () => {
    const call = () => Effect.as(TestClock.adjust("2 seconds"), hi)
    const again = [callTool("bob_ask", { input: "again" }), spends]
    const script = [[say("ok"), spends], [...askBob, spends], again, [say("ok"), spends]]
    return Effect.gen(function* () {
      assert.strictEqual(single(yield* ask, "final").stop_reason, "stop")
      // Its first step uses up the day, and its first call ends on the next one.
      assert.deepInclude(single(yield* ask, "final"), { stop_reason: "stop", steps: 3 })
      assert.deepInclude(yield* spentOn("2026-03-01"), { tokens: 2_000, tool_calls: 1 })
      assert.deepInclude(yield* spentOn("2026-03-02"), { tokens: 2_000, tool_calls: 1 })
      const refused = single(yield* ask, "error")
      assert.deepInclude(refused, { code: "budget_exceeded", retryable: false, stage: null })
      const resets_at = "2026-03-03T00:00:00.000Z"
      assert.deepStrictEqual(refused.data, { tokens_used: 2_000, tokens_per_day: 2_000, resets_at })
    }).pipe(Effect.provide(layer({ script, peers: { call }, config: { budgetOf } })), Effect.scoped, (test) =>
      Effect.andThen(TestClock.setTime(Date.parse("2026-03-01T23:59:59.000Z")), test)
    )
  })

  it.effect("counts the summary in front of a step for that step", () => {
    const script: Script = (asked) =>
      isSummary(asked) ? [say("the summary"), usage({ input_tokens: 4_000 })] : [say("noted")]
    const config = { ...small, budgetOf: () => ({ tokens: 4_000, tool_calls: 10 }) }
    return Effect.gen(function* () {
      const reasons: Array<string> = []
      for (const turn of [1, 2, 3, 4]) {
        const events = yield* askIn(`turn-${turn} ${words(650)}`, { agents: [bob] })
        reasons.push(single(events, "final").stop_reason)
      }
      assert.deepStrictEqual(reasons, ["stop", "stop", "stop", "max_total_tokens"])
    }).pipe(Effect.provide(layer({ script, config })))
  })

  it.effect("pays for no summary where it is used up: the last step reads less", () => {
    /** Each step has used 700 tokens more than the one before. The fourth would be too long. */
    const script: Script = (asked) => {
      const done = results(asked).length
      if (asked.toolChoice === "none") return [say("enough")]
      return [callTool("bob_ask", { input: `${done}` }), usage({ input_tokens: 700 * (done + 1) })]
    }
    const peers = { call: () => Effect.succeed({ ...hi, content: words(900) }) }
    const model = { contextWindow: 4_000, outputLimit: 1_000, price: { input: 1, output: 0 } }
    const models = () => ({ exact: new Map([[small.model, model]]), named: new Map() })
    const budgets = [
      { budgetOf: () => ({ tokens: 4_000, tool_calls: 10 }) },
      { budgetOf: () => ({ tokens: Infinity, tool_calls: 10, cost_usd: 0.004 }) },
      { preferences: { max_total_tokens: 4_000 } },
      { preferences: { max_cost_usd: 0.004 } }
    ]
    return Effect.forEach(budgets, ({ preferences = {}, ...budget }) =>
      Effect.gen(function* () {
        const events = yield* askIn("?", { agents: [bob], preferences })
        assert.deepInclude(single(events, "final"), { text: "enough", steps: 4 })
        assert.deepStrictEqual(all(events, "compaction"), [])
        const asked = yield* (yield* ScriptedProvider).asked.all
        assert.isFalse(asked.some(isSummary))
      }).pipe(Effect.provide(layer({ script, peers, config: { ...small, models, ...budget } })))
    )
  })

  it.effect("pays for no summary that alone may use more than all of it", () =>
    Effect.gen(function* () {
      for (const turn of [1, 2, 3]) yield* askIn(`turn-${turn} ${words(650)}`)
      const events = yield* askIn(`turn-4 ${words(650)}`, { preferences: { max_total_tokens: 1_000 } })
      assert.deepInclude(single(events, "error"), { code: "budget_exceeded" })
      const asked = yield* (yield* ScriptedProvider).asked.all
      assert.isFalse(asked.some(isSummary))
    }).pipe(Effect.provide(layer({ script: () => [say("noted")], config: small })))
  )

  it.effect("counts a step once, whenever its process dies and the next one continues the plan", () => {
    const { peers } = peer()
    const ample = { budgetOf: () => ({ tokens: 100_000, tool_calls: 100 }) }
    const finishes = (batch: ReadonlyArray<PlanCommit>) =>
      batch.some(({ events }) => events.some(({ event }) => event === "task.finished"))
    /** Before the call is stored, and before and behind the commit with its end. */
    const deaths: ReadonlyArray<Partial<Parameters<typeof mortal>[0]>> = [
      { peers: { ...peers, discover: () => Effect.never } },
      { dies: (batch) => (finishes(batch) ? "before" : undefined) },
      { dies: (batch) => (finishes(batch) ? "behind" : undefined) }
    ]
    return Effect.gen(function* () {
      for (const death of deaths) {
        const first = yield* mortal({ script: [[...askBob, spends]], peers, config: ample, ...death })
        const before = yield* spentOn("1970-01-01")
        const skills = [{ id: "ask", idempotent: true }]
        const { plan_id } = yield* askAndKill(first, { agents: [{ ...bob, skills }] })
        const second = yield* mortal({ script: () => [say("ok"), spends], peers, config: ample })
        const { tool_calls } = single(yield* replayed(second, plan_id), "final")
        const after = yield* spentOn("1970-01-01")
        assert.deepStrictEqual([tool_calls, after.tool_calls - before.tool_calls], [1, 1])
        assert.strictEqual(after.tokens - before.tokens, 2_000)
      }
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("lets no process make a call that another one has found beyond it", () => {
    // The calls beyond it wait for their turn to be refused.
    const config = { budgetOf: () => ({ tokens: 100_000, tool_calls: 1 }), toolConcurrency: 1 }
    const asks = ["1", "2", "3"].map((input) => callTool("bob_ask", { input }))
    return Effect.gen(function* () {
      const slow = peer(Effect.never)
      const first = yield* mortal({ script: [[...asks, spends]], peers: slow.peers, config })
      const { plan_id } = yield* askAndKill(first, { agents: [bob] })
      const { calls, peers } = peer()
      const second = yield* mortal({ script: () => [say("ok"), spends], peers, config })
      const events = yield* replayed(second, plan_id)
      assert.deepStrictEqual(
        calls.map(({ resumes }) => resumes?.taskId),
        ["remote-1"]
      )
      const states = all(events, "task.finished").map(({ state }) => state)
      assert.deepStrictEqual(states, ["completed", "rejected", "rejected"])
      assert.deepInclude(single(events, "final"), { tool_calls: 1, stop_reason: "max_tool_calls" })
      assert.strictEqual((yield* spentOn("1970-01-01")).tool_calls, 1)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is not looked up for a caller without one", () => {
    let reads = 0
    return Effect.gen(function* () {
      yield* ask
      assert.strictEqual(reads, 0)
      assert.deepInclude(yield* spentOn("1970-01-01"), { tokens: 1_000, tool_calls: 0 })
      yield* pass("1 second")
    }).pipe(
      Effect.provide(
        layer({
          script: [[say("ok"), spends]],
          disturb: (store) => ({ spent: (...given) => Effect.suspend(() => (reads++, store.spent(...given))) })
        })
      ),
      Effect.scoped
    )
  })
})
