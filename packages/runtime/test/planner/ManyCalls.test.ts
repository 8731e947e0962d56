import { anonymous } from "@bowline/domain/caller/CallerName"
import { question, results, type Asked } from "@bowline/testing/unstable/provider/Script"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Config, Effect, Exit, Layer, Random, Schema, Scope, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import type { PeerClient } from "../../src/remote/PeerClient.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as LocalTools from "../../src/tool/LocalTools.ts"
import { bob, names } from "../plan/Bob.ts"
import { draw, type DrawnStep, expect, type ExpectedCall, lasts, limits, requestLimit } from "./ManyCalls.ts"

/** By then every step has ended, with all its calls. */
const longEnough = 200_000

const skills = [
  { id: "hasty", timeout_ms: limits.bob_hasty },
  { id: "calm", timeout_ms: limits.bob_calm },
  { id: "patient" }
]

const toolkit = Toolkit.make(
  Tool.make("knot", {
    parameters: Schema.Struct({ input: Schema.String }),
    success: Schema.String,
    failure: Schema.String,
    failureMode: "return"
  })
)

/** A peer and a tool of the app that behave as drawn. They know which calls run, and when each was interrupted. */
const toolsOf = ({ calls }: DrawnStep) => {
  const running = new Set<number>()
  const interrupted = new Map<number, number>()
  const act = Effect.fnUntraced(
    function* (at: number) {
      const drawn = calls[at] ?? assert.fail(`call ${at}`)
      const { behaviour } = drawn
      if (behaviour === "never") return yield* Effect.never
      const wait = Effect.sleep(lasts(drawn))
      yield* behaviour === "stubborn" ? Effect.uninterruptible(wait) : wait
      return { state: behaviour === "stubborn" ? "completed" : behaviour, content: `said by ${at}.` } as const
    },
    (acting, at) =>
      Effect.acquireUseRelease(
        Effect.sync(() => running.add(at)),
        () => acting,
        () => Effect.sync(() => running.delete(at))
      ),
    (acting, at) =>
      Effect.onInterrupt(acting, () => Effect.map(Clock.currentTimeMillis, (now) => void interrupted.set(at, now)))
  )
  const call: PeerClient["Service"]["call"] = ({ input }) =>
    Effect.map(act(Number(input["input"])), (result) => ({ ...result, verified: "unknown" }))
  const knot = ({ input }: { readonly input: string }) =>
    Effect.flatMap(act(Number(input)), ({ content, state }) =>
      state === "failed" ? Effect.fail(content) : Effect.succeed(content)
    )
  const local = Layer.provide(LocalTools.layer(toolkit), toolkit.toLayer({ knot }))
  return { running, interrupted, peers: { call }, local }
}

const scriptOf =
  ({ calls }: DrawnStep) =>
  (asked: Asked) =>
    question(asked) === "?" && results(asked).length === 0
      ? calls.map(({ tool }, at) => callTool(tool, { input: String(at) }))
      : [say("done")]

/** Runs the plan to its end, whatever that is, and until its last call has let go. */
const run = Effect.fnUntraced(function* ({ end, endsAt }: DrawnStep) {
  const plans = yield* Plans
  const connection = yield* Scope.make()
  const { plan_id, session_id } = yield* Scope.provide(
    post({
      question: "?",
      session_id: "s",
      agents: [{ ...bob, skills }],
      preferences: { tool_timeout_ms: requestLimit, timeout_ms: end === "deadline" ? endsAt : longEnough }
    }),
    connection
  )
  yield* Effect.repeat(Effect.yieldNow, { times: 2_000 })
  if (end === "cancelled" || end === "disconnect") {
    yield* TestClock.setTime(endsAt)
    if (end === "cancelled") yield* plans.cancel(anonymous, plan_id)
    else yield* Scope.close(connection, Exit.void)
  }
  yield* TestClock.setTime(longEnough - 1)
  yield* pass(1, 1)
  const plan = yield* plans.get(anonymous, plan_id)
  const events = yield* Stream.runCollect(plans.events(anonymous, plan_id))
  const history = (yield* (yield* SessionStore).history(session_id)).flatMap(({ parts }) => parts)
  return { plan, events, history }
})

type Run = Effect.Success<ReturnType<typeof run>>

/** The stream tells of each call what became of it, and when. */
const checkTasks = ({ events }: Run, ids: ReadonlyArray<string>, expected: ReadonlyArray<ExpectedCall>) => {
  const finished = all(events, "task.finished")
  const made = expected.flatMap(({ endedAt, startedAt, state }, at) =>
    startedAt === undefined || endedAt === undefined ? [] : [{ id: ids[at], state, took: endedAt - startedAt }]
  )
  const started = all(events, "task.started").map(({ task_id }) => task_id)
  const told = started
    .toSorted((one, other) => ids.indexOf(one) - ids.indexOf(other))
    .map((id) => {
      const [end, ...others] = finished.filter(({ task_id }) => task_id === id)
      assert.isEmpty(others)
      return { id, state: end?.state, took: end?.duration_ms }
    })
  assert.deepStrictEqual<unknown>(told, made)
  assert.lengthOf(finished, made.length)
}

/** The history has one result for each call, in whatever order they came. */
const checkHistory = ({ history }: Run, ids: ReadonlyArray<string>, expected: ReadonlyArray<ExpectedCall>) => {
  const stored = history.flatMap((part) => (part.type === "tool_result" ? [part] : []))
  assert.lengthOf(stored, ids.length)
  assert.deepStrictEqual(
    ids.map((id) => stored.find(({ task_id }) => task_id === id)?.state),
    expected.map(({ state }) => state)
  )
  for (const [at, { startedAt }] of expected.entries()) {
    const content = stored.find(({ task_id }) => task_id === ids[at])?.content
    assert.strictEqual(content === "The plan ended before the call was made.", startedAt === undefined)
  }
}

/** The plan has the one end that was drawn, and blames what was open then. */
const checkOutcome = (
  { events, plan }: Run,
  { calls, end, endsAt }: DrawnStep,
  ids: ReadonlyArray<string>,
  expected: ReadonlyArray<ExpectedCall>
) => {
  assert.strictEqual(plan.tool_calls, calls.length)
  if (expected.every(({ state }) => state !== "interrupted")) {
    assert.deepInclude(single(events, "final"), { text: "done", steps: 2, tool_calls: calls.length })
    return
  }
  const failure = single(events, "error")
  assert.deepStrictEqual<unknown>([failure.code, failure.reason, failure.stage], ["aborted", end, "tool"])
  const open = expected
    .flatMap(({ startedAt, state }, at) =>
      state === "interrupted" && startedAt !== undefined ? [{ at, startedAt, id: ids[at] }] : []
    )
    .toSorted((one, other) => one.startedAt - other.startedAt || one.at - other.at)
  const tools = open.map(({ at, id, startedAt }) => ({
    tool: calls[at]?.tool,
    task_id: id,
    elapsed_ms: endsAt - startedAt
  }))
  assert.deepStrictEqual<unknown>(failure.data, { ...tools.at(-1), tools })
}

/** The model got the results in the order of its calls, if it was asked again. */
const checkPrompt = Effect.fnUntraced(function* (expected: ReadonlyArray<ExpectedCall>) {
  const { asked } = yield* ScriptedProvider
  const [, second] = yield* asked.all
  if (second === undefined) return
  const order = results(second).flatMap((text) => Array.from(text.matchAll(/said by (\d+)\./g), ([, at]) => Number(at)))
  assert.deepStrictEqual(
    order,
    expected.flatMap(({ state }, at) => (state === "timed-out" ? [] : [at]))
  )
})

/** Nothing of the plan is left: no call, no lease, no fiber that a shutdown would wait for. */
const checkFree = Effect.gen(function* () {
  const events = yield* readAll((yield* post({ question: "And now?", session_id: "s" })).frames)
  assert.notInclude(names(events), "queued")
  assert.strictEqual(single(events, "final").text, "done")
  yield* (yield* Plans).drain
})

const check = Effect.fnUntraced(function* (step: DrawnStep, places: number) {
  const { interrupted, local, peers, running } = toolsOf(step)
  yield* Effect.gen(function* () {
    const ran = yield* run(step)
    const expected = expect(step, places)
    const ids = ran.history.flatMap((part) => (part.type === "tool_call" ? [part.task_id] : []))
    assert.lengthOf(ids, step.calls.length)
    checkTasks(ran, ids, expected)
    checkHistory(ran, ids, expected)
    checkOutcome(ran, step, ids, expected)
    yield* checkPrompt(expected)
    assert.isEmpty([...running])
    for (const [at, { endedAt, startedAt, state }] of expected.entries()) {
      const isCut = startedAt !== undefined && (state === "interrupted" || state === "timed-out")
      if (step.calls[at]?.behaviour !== "stubborn") assert.strictEqual(interrupted.get(at), isCut ? endedAt : undefined)
    }
    yield* checkFree
  }).pipe(
    Effect.provide(Layer.provide(layer({ script: scriptOf(step), peers, config: { toolConcurrency: places } }), local)),
    Effect.scoped
  )
})

describe("100 calls of one step", () => {
  it.effect(
    "come to the ends that they would on paper, whenever the plan ends, and leave nothing behind",
    () =>
      Effect.gen(function* () {
        const count = yield* Config.Int("BOWLINE_STEPS").pipe(Config.withDefault(6))
        const first = yield* Config.Int("BOWLINE_STEP_SEED").pipe(Config.withDefault(1))
        for (let seed = first; seed < first + count; seed++) {
          const step = yield* Random.withSeed(draw, `step ${seed}`)
          for (const places of [8, 100]) {
            const named = `BOWLINE_STEPS=1 BOWLINE_STEP_SEED=${seed}, ${places} at once`
            yield* check(step, places).pipe(
              Effect.provide(TestClock.layer()),
              Effect.catchDefect((cause) => Effect.die(new Error(named, { cause })))
            )
          }
        }
      }),
    1_800_000
  )
})
