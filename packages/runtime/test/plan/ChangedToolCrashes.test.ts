import { anonymous } from "@bowline/domain/caller/CallerName"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, pass, post, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import * as Weather from "../planner/Weather.ts"
import { askAndKill, type Mortal, mortal, replayed, stays } from "./Mortal.ts"

const said = (description: string) => Weather.toolNamed("sky", description)

/** Makes the call until it was made once. */
const script: Script = (asked) =>
  results(asked).some((result) => result.includes("clear")) ? [say("done")] : [callTool("weather_sky", { input: "" })]

const waiting = (process: Mortal) =>
  Effect.map(process.plans.approvals(anonymous, { limit: 10 }), ({ items }) => items[0] ?? assert.fail())

const approve = Effect.fnUntraced(function* (process: Mortal) {
  const { plan_id, task_id, why } = yield* waiting(process)
  assert.strictEqual(why, "description_changed")
  yield* process.plans.decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision: "approve" })
  return task_id
})

const ask = Effect.fnUntraced(function* (process: Mortal) {
  const { plan_id } = yield* process.on(post({ question: "?", ...stays, ...Weather.weather() }))
  return yield* replayed(process, plan_id)
})

/** A plan of a dead process whose call waits for an approval: its tool was known, and has changed. */
const orphan = Effect.fnUntraced(function* (dies?: (commit: ReadonlyArray<PlanCommit>) => "behind" | undefined) {
  const first = Weather.server(said("a"))
  const process = yield* mortal({ script, mcp: first.mcp, ...(dies && { dies }) })
  assert.deepStrictEqual(all(yield* ask(process), "approval.requested"), [])
  first.change(said("b"))
  return process
})

const tells = (batch: ReadonlyArray<PlanCommit>) =>
  batch.some(({ events }) => events.some(({ event }) => event === "approval.resolved")) ? "behind" : undefined

describe("a call of a changed tool whose process dies while it waits for an approval", () => {
  for (const when of ["before the plan is taken over", "behind that"] as const) {
    it.effect(`is made where the tool is still the approved one, which is known from then on (${when})`, () =>
      Effect.gen(function* () {
        const first = yield* orphan()
        const { plan_id } = yield* askAndKill(first, Weather.weather())
        const behind = Weather.server(said("b"))
        const second = yield* mortal({ script, mcp: behind.mcp })
        if (when === "behind that") yield* pass("40 seconds", "1 second")
        yield* approve(second)
        assert.strictEqual(single(yield* replayed(second, plan_id), "task.finished").state, "completed")
        assert.deepStrictEqual(behind.state.calls, ["sky: b"])
        assert.deepStrictEqual(all(yield* ask(second), "approval.requested"), [])
      }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
    )

    it.effect(`is not made where the tool has changed once more, which asks again (${when})`, () =>
      Effect.gen(function* () {
        const first = yield* orphan()
        const { plan_id } = yield* askAndKill(first, Weather.weather())
        const behind = Weather.server(said("c"))
        const second = yield* mortal({ script, mcp: behind.mcp })
        if (when === "behind that") yield* pass("40 seconds", "1 second")
        const task_id = yield* approve(second)
        yield* pass("40 seconds", "1 second")
        assert.deepStrictEqual(behind.state.calls, [])
        assert.notStrictEqual(yield* approve(second), task_id)
        const [refused, made] = all(yield* replayed(second, plan_id), "task.finished")
        assert.deepInclude(refused, { task_id, state: "rejected" })
        assert.match(refused?.error?.message ?? "", /has changed since the approval was requested/)
        assert.strictEqual(made?.state, "completed")
        assert.deepStrictEqual(behind.state.calls, ["sky: c"])
      }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
    )
  }

  it.effect("is not made where the tool has changed since its process has told the approval", () =>
    Effect.gen(function* () {
      const first = yield* orphan(tells)
      const { plan_id } = yield* first.on(post({ question: "?", ...stays, ...Weather.weather() }))
      yield* pass("1 second")
      const task_id = yield* approve(first)
      yield* pass("1 second")
      const behind = Weather.server(said("c"))
      const second = yield* mortal({ script, mcp: behind.mcp })
      yield* pass("40 seconds", "1 second")
      yield* approve(second)
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(all(events, "task.finished")[0], { task_id, state: "rejected" })
      assert.lengthOf(all(events, "approval.resolved"), 2)
      assert.deepStrictEqual(behind.state.calls, ["sky: c"])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
