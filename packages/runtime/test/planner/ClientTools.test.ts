import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { EntryRefused, InvalidRequest } from "@bowline/domain/plan/Refusal"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Inbox } from "../../src/plan/Inbox.ts"
import { Plans } from "../../src/plan/Plans.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { bob, names } from "../plan/Bob.ts"
import { hi, type Mortal, mortal, peer, replayed, stays } from "../plan/Mortal.ts"

const me = { caller: anonymous, isAdmin: false }
const pick = {
  name: "pick",
  input_schema: { type: "object", properties: { among: { type: "integer" } }, required: ["among"] },
  output_schema: { type: "object", properties: { color: { type: "string" } }, required: ["color"] }
}
const picks = callTool("pick", { among: 3 })
const calls = [picks, callTool("bob_ask", { input: "hi" })]
const script = [calls, [say("done")]]
const checks = Layer.succeed(SchemaChecks, inPlace)

const resultOf = (task_id: TaskId, content: object | string, is_error?: boolean): NewEntry => ({
  type: "result",
  task_id,
  content: content as never,
  ...(is_error !== undefined && { is_error })
})

const tell = Effect.fnUntraced(function* (plan: PlanId, entry: NewEntry) {
  return yield* (yield* Inbox).accept(me, plan, entry)
})

const waiting = Effect.fnUntraced(function* () {
  return (yield* (yield* Inbox).waiting(anonymous, {}, { limit: 10 })).items
})

const ask = Effect.fnUntraced(function* (body: object = {}) {
  const { frames, plan_id } = yield* post({ question: "?", tools: [pick], agents: [bob], ...body })
  const reader = yield* Effect.forkChild(readAll(frames))
  yield* pass("1 second")
  const [wait] = yield* waiting()
  return { plan_id, reader, wait: wait ?? assert.fail("nothing waits") }
})

describe("a tool of the client", () => {
  it.effect("waits for its result longer than any call may take, while the other calls of its step are made", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask({ agents: [bob] })
      assert.deepInclude(wait, { plan_id, kind: "result", tool: "pick", agent: null, input: { among: 3 }, why: null })
      yield* pass("20 minutes", "10 seconds")
      const plan = yield* (yield* Plans).get(anonymous, plan_id)
      assert.deepInclude(plan, { state: "running", stage: "client" })
      yield* tell(plan_id, resultOf(wait.task_id, { color: "red" }))
      yield* pass("1 second")
      const events = yield* Fiber.join(reader)
      const told = single(events, "waiting")
      assert.deepInclude(told, { task_id: wait.task_id, kind: "result", round: 1, tool: "pick", input: { among: 3 } })
      assert.strictEqual(told.expires_at, wait.expires_at)
      assert.deepInclude(all(events, "task.started")[0], { tool: "pick", kind: "client", agent: null })
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ state, task_id }) => [task_id === wait.task_id, state]),
        [
          [false, "completed"],
          [true, "completed"]
        ]
      )
      const { asked } = yield* ScriptedProvider
      const read = (yield* asked.all)[1]?.messages.find(
        (message) => "content" in message && message.content.includes("red")
      )
      assert.match(JSON.stringify(read), /<result .* tool=\\"pick\\".*red/)
      assert.deepStrictEqual(yield* waiting(), [])
    }).pipe(
      Effect.provide(
        layer({ script, peers: peer().peers, config: { toolConcurrency: 1 } }).pipe(Layer.provide(checks))
      ),
      Effect.scoped
    )
  )

  it.effect("takes one result, of the schema that it names, or an error of any shape", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask({ agents: [] })
      const { task_id } = wait
      const wrong = yield* Effect.flip(tell(plan_id, resultOf(task_id, { colour: 1 })))
      assert.deepStrictEqual(wrong instanceof InvalidRequest && wrong.issues[0]?.path, ["content"])
      assert.lengthOf(yield* waiting(), 1)
      const first = yield* tell(plan_id, resultOf(task_id, "no colors here", true))
      assert.deepStrictEqual(yield* tell(plan_id, resultOf(task_id, "no colors here", true)), first)
      const second = yield* Effect.flip(tell(plan_id, resultOf(task_id, { color: "red" })))
      assert.strictEqual(second instanceof EntryRefused && second.code, "task_settled")
      yield* pass("1 second")
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "task.finished"), {
        state: "failed",
        error: { code: "tool_failed", message: "no colors here" }
      })
      assert.deepStrictEqual(yield* tell(plan_id, resultOf(task_id, "no colors here", true)), first)
      const late = yield* Effect.flip(tell(plan_id, resultOf(task_id, { color: "red" })))
      assert.strictEqual(late instanceof EntryRefused && late.code, "task_settled")
    }).pipe(Effect.provide(layer({ script: [[picks], [say("done")]] }).pipe(Layer.provide(checks))), Effect.scoped)
  )

  it.effect("is refused where another tool has its name", () =>
    Effect.gen(function* () {
      for (const [name, owner] of [
        ["bob_ask", "skill ask of agent bob"],
        ["load_recipe", "the recipes"],
        ["pick", "tools[0]"]
      ] as const) {
        const refused = yield* Effect.flip(post({ question: "?", agents: [bob], tools: [pick, { ...pick, name }] }))
        assert.deepStrictEqual(refused instanceof InvalidRequest && refused.issues, [
          { path: ["tools", 1, "name"], message: `Expected another name than that of ${owner}` }
        ])
      }
    }).pipe(Effect.provide(layer({ script: [] })), Effect.scoped)
  )
})

const give = (process: Mortal, plan_id: PlanId, task_id: TaskId) =>
  process.inbox.accept(me, plan_id, resultOf(task_id, { color: "red" }))
const waitsOf = (process: Mortal) =>
  Effect.map(process.inbox.waiting(anonymous, {}, { limit: 10 }), ({ items }) => items)
const body = { question: "?", tools: [pick], agents: [bob], ...stays }

/** The call is told once, and used once. */
const checkOnce = (events: Effect.Success<ReturnType<typeof replayed>>) => {
  const { task_id } = single(events, "waiting")
  const own = events.flatMap((event) =>
    typeof event !== "string" && "task_id" in event.data && event.data.task_id === task_id ? [event.event] : []
  )
  assert.deepStrictEqual(own, ["task.started", "waiting", "task.artifact", "task.finished"])
  assert.deepStrictEqual(names(events).slice(-2), ["final", "done"])
}

describe("a call of a client's tool whose process dies", () => {
  it.effect("waits on in the next process", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: [calls], peers: peer().peers })
      const second = yield* mortal({ script: [[say("ok")]], peers: peer().peers })
      const { plan_id } = yield* first.on(post(body))
      yield* pass("1 second")
      first.kill()
      yield* pass("40 seconds", "1 second")
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { state: "waiting", stage: "client" })
      const [wait] = yield* waitsOf(second)
      yield* give(second, plan_id, wait?.task_id ?? assert.fail())
      const events = yield* replayed(second, plan_id)
      checkOnce(events)
      assert.deepInclude(single(events, "final"), { text: "ok", steps: 2, tool_calls: 2 })
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )

  it.effect("has one result, whichever write its process dies of", () =>
    Effect.gen(function* () {
      const writes = ['"event":"waiting"', '"state":"taken"']
      for (const write of writes) {
        for (const when of ["before", "behind"] as const) {
          const stuck = peer(Effect.as(Effect.sleep("10 seconds"), hi))
          const holds = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes(write)
          const first = yield* mortal({
            script: [[picks], [say("ok")]],
            peers: stuck.peers,
            dies: (batch) => (holds(batch) ? when : undefined)
          })
          const second = yield* mortal({ script: () => [say("ok")], peers: stuck.peers })
          const { plan_id } = yield* first.on(post({ ...body, session_id: `${write} ${when}` }))
          yield* pass("1 second")
          const [wait] = yield* waitsOf(first)
          if (wait !== undefined) yield* give(first, plan_id, wait.task_id)
          yield* pass("40 seconds", "1 second")
          const [later] = yield* waitsOf(second)
          if (later !== undefined) yield* give(second, plan_id, later.task_id)
          const events = yield* replayed(second, plan_id)
          checkOnce(events)
          const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
          assert.deepStrictEqual(
            items.map(({ state, type }) => [type, state]),
            [["result", "taken"]],
            `${write} ${when}`
          )
        }
      }
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )

  it.effect("has finished if its result is taken, also when its plan is cancelled before the next process has it", () =>
    Effect.gen(function* () {
      const isTaken = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes('"state":"taken"')
      const first = yield* mortal({ script: [[picks]], dies: (batch) => (isTaken(batch) ? "behind" : undefined) })
      const second = yield* mortal({ script: () => [say("ok")] })
      const { plan_id } = yield* first.on(post({ ...body, agents: [] }))
      yield* pass("1 second")
      const [wait] = yield* waitsOf(first)
      yield* give(first, plan_id, wait?.task_id ?? assert.fail())
      yield* pass("1 second")
      yield* Effect.forkChild(second.plans.cancel(anonymous, plan_id))
      const events = yield* replayed(second, plan_id, "40 seconds")
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ state }) => state),
        ["taken"]
      )
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )
})
