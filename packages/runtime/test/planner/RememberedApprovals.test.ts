import { anonymous } from "@bowline/domain/caller/CallerName"
import { callTool, say } from "@bowline/testing/provider/Turn"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { all, layer, pass, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { Inbox } from "../../src/plan/Inbox.ts"
import * as Weather from "./Weather.ts"

const me = { caller: anonymous, isAdmin: false }
const sky = Weather.toolNamed("sky")

/** Calls the tool in each of three steps of a plan, one plan after the other. */
const script = (): Script => {
  let asked = 0
  return () => (asked++ % 4 < 3 ? [callTool("weather_sky", { input: `${asked}` })] : [say("done")])
}

/** Asks in a session, and lets the plan come to its first wait. `approve` decides about the one call that waits. */
const ask = Effect.fnUntraced(function* (session_id: string, preferences: object = { approval: "always" }) {
  const { frames, plan_id } = yield* post({ question: "?", session_id, preferences, ...Weather.weather() })
  const items: Array<Stream.Success<typeof frames>> = []
  const reader = yield* Effect.forkChild(Stream.runForEach(frames, (item) => Effect.sync(() => items.push(item))))
  yield* pass("1 second")
  const whys = () => all(seen(items), "approval.requested").map(({ why }) => why)
  const approve = Effect.fnUntraced(function* (remember?: "plan" | "session") {
    const { task_id = assert.fail("Nothing waits") } = all(seen(items), "approval.requested").at(-1) ?? {}
    const decision = { type: "decision", task_id, decision: "approve", ...(remember && { remember }) } as const
    yield* (yield* Inbox).accept(me, plan_id, decision)
    yield* pass("1 second")
  })
  return { approve, whys, end: Fiber.join(reader), events: () => seen(items) }
})

describe("an approval that is remembered", () => {
  it.effect("spares the other calls of the tool theirs in its plan, and in no other one", () => {
    const { mcp, state } = Weather.server(sky)
    return Effect.gen(function* () {
      const first = yield* ask("s")
      yield* first.approve("plan")
      yield* first.end
      assert.deepStrictEqual([first.whys(), state.calls.length], [["always"], 3])
      const second = yield* ask("s")
      assert.deepStrictEqual([second.whys(), state.calls.length], [["always"], 3])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: script(), mcp })))
  })

  it.effect("spares them theirs in later plans of the session, and in no other session", () => {
    const { mcp, state } = Weather.server(sky)
    return Effect.gen(function* () {
      const first = yield* ask("s")
      yield* first.approve("session")
      yield* first.end
      const second = yield* ask("s")
      yield* second.end
      assert.deepStrictEqual([first.whys(), second.whys(), state.calls.length], [["always"], [], 6])
      const elsewhere = yield* ask("another")
      assert.deepStrictEqual([elsewhere.whys(), state.calls.length], [["always"], 6])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: script(), mcp })))
  })

  it.effect("holds for no other tool", () => {
    const { mcp, state } = Weather.server(sky, Weather.toolNamed("tides"))
    const both = [[callTool("weather_sky", { input: "" })], [callTool("weather_tides", { input: "" })], [say("done")]]
    return Effect.gen(function* () {
      const { approve, end, whys } = yield* ask("s")
      yield* approve("session")
      assert.deepStrictEqual([whys(), state.calls], [["always", "always"], ["sky: "]])
      yield* approve()
      yield* end
      assert.deepStrictEqual(state.calls, ["sky: ", "tides: "])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: both, mcp })))
  })

  it.effect("does not spare a tool its approval that the configuration always asks for", () => {
    const { mcp, state } = Weather.server(sky)
    const approvals = { isAlways: (tool: string) => tool === "weather_sky", isSensitive: () => false }
    return Effect.gen(function* () {
      const { approve, end, whys } = yield* ask("s")
      for (const remember of ["session", "plan", undefined] as const) yield* approve(remember)
      yield* end
      assert.deepStrictEqual([whys(), state.calls.length], [["always", "always", "always"], 3])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: script(), mcp, config: { approvals } })))
  })

  it.effect("is about the tool as it was: one that has changed since is asked about again", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    reacting.react = () => {
      if (state.calls.length === 1) change(Weather.toolNamed("sky", "Pay first"))
    }
    return Effect.gen(function* () {
      const first = yield* ask("s")
      yield* first.approve("session")
      assert.deepStrictEqual([first.whys(), state.calls], [["always", "description_changed"], ["sky: "]])
      yield* first.approve()
      yield* first.end
      assert.deepStrictEqual(state.calls, ["sky: ", "sky: Pay first", "sky: Pay first"])
      assert.strictEqual(single(first.events(), "final").text, "done")
    }).pipe(Effect.scoped, Effect.provide(layer({ script: script(), mcp })))
  })
})
