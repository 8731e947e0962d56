import { anonymous } from "@bowline/domain/caller/CallerName"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type Asked, results, type Script } from "@bowline/testing/unstable/provider/Script"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say, usage } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Stream } from "effect"
import { McpClient } from "../../src/remote/McpClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { recordsOf } from "../../src/record/PlanExport.ts"
import { PlanStore } from "../../src/store/PlanStore.ts"
import * as Weather from "./Weather.ts"

const run = Effect.fnUntraced(function* (fields: object = {}, preferences: object = {}) {
  const { frames } = yield* post({ question: "?", preferences, ...Weather.weather(fields) })
  return yield* readAll(frames)
})

/** A plan that is read in the background, until it waits. */
const begin = Effect.fnUntraced(function* (fields: object = {}, preferences: object = {}) {
  const { frames, plan_id } = yield* post({ question: "?", preferences, ...Weather.weather(fields) })
  const items: Array<Stream.Success<typeof frames>> = []
  const reader = yield* Effect.forkChild(Stream.runForEach(frames, (item) => Effect.sync(() => items.push(item))))
  yield* pass("100 millis")
  const decide = Effect.fnUntraced(function* (task_id: TaskId, decision: "approve" | "reject") {
    const plans = yield* Plans
    yield* plans.decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision })
    yield* pass("100 millis")
  })
  return { decide, events: () => seen(items), plan_id, reader }
})

const whys = (events: ReturnType<typeof seen>) => all(events, "approval.requested").map(({ why }) => why)

/** Makes this call until it has so many results. */
const calling =
  (name: string, times: number): Script =>
  (asked) =>
    results(asked).length < times ? [callTool(name, { input: `${results(asked).length}` })] : [say("done")]

const offered = Effect.map(
  Effect.flatMap(ScriptedProvider, ({ asked }) => asked.all),
  (asked: ReadonlyArray<Pick<Asked, "tools">>) => asked.map(({ tools }) => tools.map(({ name }) => name))
)

const [sky, tides] = [Weather.toolNamed("sky"), Weather.toolNamed("tides")]

it.effect("a plan that waits for the tools of a server says so", () => {
  const mcp = Layer.succeed(McpClient, { connect: () => Effect.never, servers: Effect.succeed([]) })
  return Effect.gen(function* () {
    const { plan_id } = yield* post({ question: "?", ...Weather.weather({}) })
    yield* pass("1 second")
    assert.deepInclude(yield* (yield* Plans).get(anonymous, plan_id), { state: "running", stage: "tool" })
  }).pipe(Effect.scoped, Effect.provide(layer({ script: [[say("done")]], mcp })))
})

describe("a server that changes its tools in the middle of a plan", () => {
  it.effect("has the new ones offered in the next step, and those that are gone are unknown", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    // Both calls of the first step reach the tool, though the first one is its last.
    reacting.react = () => change(tides)
    const script = [
      [callTool("weather_sky", { input: "" }), callTool("weather_sky", { input: "again" })],
      [callTool("weather_sky", { input: "" }), callTool("weather_tides", { input: "" })],
      [say("done")]
    ]
    return Effect.gen(function* () {
      const events = yield* run()
      const states = all(events, "task.finished").map(({ state }) => state)
      assert.deepStrictEqual(states.toSorted(), ["completed", "completed", "completed", "invalid"])
      assert.deepStrictEqual(yield* offered, [["weather_sky"], ["weather_tides"], ["weather_tides"]])
      assert.deepStrictEqual(
        all(events, "task.finished").flatMap(({ error }) => error?.message ?? []),
        ['There is no tool "weather_sky". The nearest: weather_tides']
      )
      assert.strictEqual(state.lists, 3)
      assert.deepStrictEqual(all(events, "notice"), [])
    }).pipe(Effect.scoped, Effect.provide(layer({ script, mcp })))
  })

  it.effect("has a changed tool approved before it is called, once", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    reacting.react = () => {
      if (state.calls.length === 1) change(Weather.toolNamed("sky", "Pay first"))
    }
    return Effect.gen(function* () {
      const { decide, events, plan_id, reader } = yield* begin()
      const { task_id, why } = single(events(), "approval.requested")
      assert.strictEqual(why, "description_changed")
      // Where the process dies, it is on record what the server has told.
      const rows = yield* (yield* PlanStore).events(plan_id, 0, 100)
      const notice = rows.find(({ event }) => event === "notice")
      assert.deepStrictEqual(notice && recordsOf(notice).map(({ type }) => type), ["sources"])
      assert.deepStrictEqual(state.calls, ["sky: "])
      yield* decide(task_id, "approve")
      yield* Fiber.join(reader)
      assert.deepStrictEqual(state.calls, ["sky: ", "sky: Pay first", "sky: Pay first"])
      assert.lengthOf(whys(events()), 1)
      const { code, data } = single(events(), "notice")
      assert.strictEqual(code, "description_changed")
      assert.match(
        JSON.stringify(data),
        /^{"server":"weather","tools":\[{"tool":"sky","digest":"sha256:[0-9a-f]{64}","description":"Pay first"/
      )
      assert.strictEqual(single(events(), "final").text, "done")
    }).pipe(Effect.scoped, Effect.provide(layer({ script: calling("weather_sky", 3), mcp })))
  })

  it.effect("is known by what was approved last, whatever calls of the earlier tool still wait", () => {
    const { change, mcp, state } = Weather.server(sky)
    const script: Script = (asked) =>
      results(asked).length === 0 ? [callTool("weather_sky", { input: "" })] : [say("done")]
    return Effect.gen(function* () {
      const earlier = yield* begin({}, { approval: "always" })
      change(Weather.toolNamed("sky", "Pay first"))
      const later = yield* begin()
      for (const plan of [later, earlier]) {
        yield* plan.decide(single(plan.events(), "approval.requested").task_id, "approve")
        yield* Fiber.join(plan.reader)
      }
      assert.deepStrictEqual(
        [earlier, later].map(({ events }) => whys(events())),
        [["always"], ["description_changed"]]
      )
      assert.deepStrictEqual(whys(yield* run()), [])
      assert.lengthOf(state.calls, 3)
    }).pipe(Effect.scoped, Effect.provide(layer({ script, mcp })))
  })

  it.effect("has them counted with the next prompt, which may be too long with them", () => {
    const { change, mcp, reacting } = Weather.server(sky)
    const words = "many words ".repeat(300)
    reacting.react = () => change(...Array.from({ length: 9 }, (_, at) => Weather.toolNamed(`at-${at}`, words)))
    const script = [[callTool("weather_sky", { input: "" }), usage({ input_tokens: 9 })], [say("done")]]
    return Effect.gen(function* () {
      assert.strictEqual(single(yield* run(), "error").code, "context_overflow")
      assert.lengthOf(yield* offered, 1)
    }).pipe(Effect.scoped, Effect.provide(layer({ script, mcp, config: { contextWindow: 4_000 } })))
  })

  it.effect("without an end is asked for them 20 times, of which the caller is told", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    reacting.react = () => change(sky, Weather.toolNamed(`at-${state.calls.length}`))
    return Effect.gen(function* () {
      const events = yield* run({}, { max_steps: 40 })
      assert.strictEqual(single(events, "final").tool_calls, 30)
      assert.strictEqual(state.lists, 21)
      const { code, data } = single(events, "notice")
      assert.deepStrictEqual([code, data], ["mcp_restless", { server: "weather" }])
      assert.deepStrictEqual((yield* offered).at(-1), ["weather_sky", "weather_at-20"])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: calling("weather_sky", 30), mcp })))
  })

  it.effect("is asked for nothing by a plan whose calls have failed too often", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    reacting.react = () => change(sky, Weather.toolNamed(`at-${state.calls.length}`))
    const script: Script = () => [callTool("weather_sky", { input: "" }), callTool("weather_none", { input: "" })]
    return Effect.gen(function* () {
      assert.strictEqual(single(yield* run(), "error").code, "loop_detected")
      assert.deepStrictEqual([state.calls.length, state.lists], [3, 3])
    }).pipe(Effect.scoped, Effect.provide(layer({ script, mcp })))
  })

  it.effect("keeps those that it had where it cannot list them", () => {
    const { change, mcp, reacting, state } = Weather.server(sky)
    reacting.react = () => {
      state.isAway = state.calls.length < 3
      change(tides)
    }
    return Effect.gen(function* () {
      const events = yield* run()
      const { code, data } = single(events, "notice")
      assert.deepStrictEqual([code, data], ["mcp_unreachable", { server: "weather", reason: "unreachable" }])
      assert.deepStrictEqual(yield* offered, [["weather_sky"], ["weather_sky"], ["weather_sky"], ["weather_tides"]])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: calling("weather_sky", 3), mcp })))
  })

  it.effect("ends the plan where they are too many", () => {
    const { change, mcp, reacting } = Weather.server(sky)
    reacting.react = () => change(...Array.from({ length: 2_001 }, (_, at) => Weather.toolNamed(`tool ${at}`)))
    return Effect.gen(function* () {
      const { code, data } = single(yield* run(), "error")
      assert.deepStrictEqual([code, data], ["invalid_request", { server: "weather" }])
    }).pipe(Effect.scoped, Effect.provide(layer({ script: calling("weather_sky", 3), mcp })))
  })

  it.effect("tells the caller once which of them the plan does not get", () => {
    const { change, mcp, reacting, state } = Weather.server(sky, tides)
    reacting.react = () => change(sky, Weather.toolNamed(`at-${state.calls.length}`))
    return Effect.gen(function* () {
      const effect = { key: "arguments", scope: "caller" }
      const events = yield* run({ allowed_tools: ["sky", "tides"], effects: { sky: effect, skye: effect } })
      const missing = (...names: ReadonlyArray<string>) => ({
        server: "weather",
        tools: names.map((tool) => ({ tool, reason: "The server does not list it" }))
      })
      // `skye` is written wrong: nobody may think that what it does is done once.
      assert.deepStrictEqual(
        all(events, "notice").map(({ data }) => data),
        [missing("skye"), missing("tides", "skye")]
      )
    }).pipe(Effect.scoped, Effect.provide(layer({ script: calling("weather_sky", 3), mcp })))
  })
})
