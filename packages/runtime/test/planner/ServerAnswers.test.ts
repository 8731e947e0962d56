import { anonymous } from "@bowline/domain/caller/CallerName"
import type { NewEntry } from "@bowline/domain/plan/Inbox"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { InvalidRequest } from "@bowline/domain/plan/Refusal"
import { PeerError, Unreachable } from "@bowline/domain/peer/PeerError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Logger, type Schema } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Inbox } from "../../src/plan/Inbox.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { McpClient, type McpAnswer, type McpConnection, type McpQuestion } from "../../src/remote/McpClient.ts"
import type { PlanCommit } from "../../src/store/PlanStore.ts"
import { inPlace, SchemaChecks } from "../../src/tool/SchemaChecks.ts"
import { names } from "../plan/Bob.ts"
import { type Mortal, mortal, replayed } from "../plan/Mortal.ts"
import * as Weather from "./Weather.ts"

const me = { caller: anonymous, isAdmin: false }
const checks = Layer.succeed(SchemaChecks, inPlace)
const preferences = { on_disconnect: "continue", on_input_required: "wait" }
const body = { question: "?", ...Weather.weather(), preferences }
const script = [[callTool("weather_sky", { input: "Oslo" })], [say("ok")]]

const form = {
  type: "object",
  properties: { days: { type: "integer", minimum: 1 } },
  required: ["days"]
} satisfies Record<string, Schema.Json>

/** How the server asks: it forgets the call meanwhile, or it waits at an open connection. */
type Way = "forgets" | "holds"

/** A server whose tool asks a few questions, wherever it is asked from. */
const asking = (way: Way, questions: ReadonlyArray<Omit<McpQuestion, "mark">>) => {
  const got: Array<McpAnswer> = []
  const connected: Array<boolean | undefined> = []
  const seen = { begun: 0, left: 0, isAway: false, expired: 0 }
  const call: McpConnection["call"] = ({ answer, isHandedOver, resumes }) =>
    Effect.gen(function* () {
      if (resumes === undefined) seen.begun++
      for (let at = Number(resumes ?? 0); at < questions.length; at++) {
        const asked = { ...(questions[at] ?? assert.fail()), ...(way === "forgets" && { mark: `${at}` }) }
        const given = yield* answer?.(asked) ?? Effect.undefined
        if (given === undefined) return { state: "input-required", text: "", structured: undefined } as const
        if (given === "expired") {
          seen.expired++
          return { state: "timed-out", text: "", structured: undefined } as const
        }
        got.push(given)
        yield* Effect.sleep("1 second")
      }
      return { state: "completed", text: "clear", structured: undefined } as const
    }).pipe(Effect.onInterrupt(() => Effect.sync(() => isHandedOver?.() !== true && seen.left++)))
  const connection: McpConnection = {
    tools: Effect.suspend(() =>
      seen.isAway
        ? Effect.fail(new PeerError({ reason: new Unreachable({ message: "Nobody answers" }) }))
        : Effect.succeed([Weather.toolNamed("sky")])
    ),
    hasChanged: Effect.succeed(false),
    call
  }
  const mcp = Layer.succeed(McpClient, {
    connect: (_server, _route, answers) =>
      Effect.as(
        Effect.sync(() => connected.push(answers)),
        connection
      ),
    servers: Effect.succeed([])
  })
  return { got, connected, seen, mcp }
}

const days = { message: "For how many days?", schema: form }
const page = { message: "Sign in", schema: null, url: "https://weather.test/sign-in" }

const answerOf = (task_id: TaskId, rest: object): NewEntry => ({ type: "answer", task_id, ...rest })

const tell = Effect.fnUntraced(function* (plan: PlanId, entry: NewEntry) {
  return yield* (yield* Inbox).accept(me, plan, entry)
})

const waiting = Effect.flatMap(Inbox, (inbox) =>
  Effect.map(inbox.waiting(anonymous, { kind: "answer" }, { limit: 10 }), ({ items }) => items)
)

const ask = Effect.fnUntraced(function* (given: object = body) {
  const { frames, plan_id } = yield* post(given)
  const reader = yield* Effect.forkChild(readAll(frames))
  yield* pass("1 second")
  const [wait] = yield* waiting
  return { plan_id, reader, wait }
})

const within = (mcp: Layer.Layer<McpClient>) => layer({ script, mcp }).pipe(Layer.provide(checks))

describe.each(["forgets", "holds"] as const)("an MCP server that asks, and %s the call meanwhile", (way) => {
  const many = asking(way, [days, page])
  it.effect("waits for the answer, which its form checks, in the same call, and may ask again", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask()
      const { agent, data, message, task_id, tool, url } = wait ?? assert.fail()
      assert.deepStrictEqual([tool, agent, message, url], ["weather_sky", "weather", days.message, null])
      assert.deepStrictEqual(data, form)
      const refused = (rest: object) =>
        Effect.map(Effect.flip(tell(plan_id, answerOf(task_id, rest))), (error) =>
          error instanceof InvalidRequest ? error.issues.map(({ path }) => path[0]) : []
        )
      assert.deepStrictEqual(yield* refused({ action: "accept", data: { days: 0 } }), ["data"])
      assert.deepStrictEqual(yield* refused({ text: "two" }), ["text", "data"])
      assert.lengthOf(yield* waiting, 1)
      yield* pass("20 minutes", "1 minute")
      yield* tell(plan_id, answerOf(task_id, { action: "accept", data: { days: 2 } }))
      yield* pass("2 seconds")
      const [second] = yield* waiting
      assert.deepInclude(second, { message: page.message, url: page.url, data: null })
      assert.deepStrictEqual(yield* refused({ action: "accept", data: {} }), ["data"])
      yield* tell(plan_id, answerOf(task_id, { round: 2, action: "decline" }))
      yield* pass("2 seconds")
      const events = yield* Fiber.join(reader)
      assert.deepStrictEqual(
        all(events, "waiting").map(({ data, kind, round, url }) => [kind, round, data, url]),
        [
          ["answer", 1, form, undefined],
          ["answer", 2, undefined, page.url]
        ]
      )
      assert.deepInclude(single(events, "task.finished"), { task_id, state: "completed" })
      assert.deepStrictEqual(many.got, [{ action: "accept", content: { days: 2 } }, { action: "decline" }])
      assert.deepStrictEqual([many.connected, many.seen.begun], [[true], 1])
    }).pipe(Effect.provide(within(many.mcp)), Effect.scoped)
  )

  const silent = asking(way, [days])
  it.effect("is told that nobody answers in time, and so is the model", () =>
    Effect.gen(function* () {
      const { reader } = yield* ask({ ...body, preferences: { ...preferences, wait_timeout_ms: 60_000 } })
      yield* pass("2 minutes", "1 second")
      assert.deepInclude(single(yield* Fiber.join(reader), "task.finished"), {
        state: "timed-out",
        error: { code: "wait_expired", message: "Nobody answered in time" }
      })
      assert.strictEqual(silent.seen.expired, 1)
    }).pipe(Effect.provide(within(silent.mcp)), Effect.scoped)
  )

  const restless = asking(
    way,
    Array.from({ length: 20 }, () => page)
  )
  it.effect("ends the call with its eleventh question", () =>
    Effect.gen(function* () {
      const { plan_id, reader, wait } = yield* ask()
      for (let round = 1; round <= 10; round++) {
        yield* tell(plan_id, answerOf(wait?.task_id ?? assert.fail(), { round, action: "accept" }))
        yield* pass("2 seconds")
      }
      const events = yield* Fiber.join(reader)
      assert.lengthOf(all(events, "waiting"), 10)
      assert.deepInclude(single(events, "task.finished"), { state: "input-required" })
    }).pipe(Effect.provide(within(restless.mcp)), Effect.scoped)
  )

  const alone = asking(way, [days])
  it.effect("is not told that anybody answers where the request does not say wait", () =>
    Effect.gen(function* () {
      const { reader } = yield* ask({ ...body, preferences: { on_disconnect: "continue" } })
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "task.finished"), { state: "input-required" })
      assert.deepStrictEqual([all(events, "waiting"), alone.connected], [[], [false]])
    }).pipe(Effect.provide(within(alone.mcp)), Effect.scoped)
  )

  const left = asking(way, [days])
  it.effect("sees its call end with the plan", () =>
    Effect.gen(function* () {
      const { plan_id, reader } = yield* ask()
      const cancelling = yield* Effect.forkChild(Effect.flatMap(Plans, (plans) => plans.cancel(anonymous, plan_id)))
      yield* pass("1 second")
      yield* Fiber.join(cancelling)
      assert.deepInclude(single(yield* Fiber.join(reader), "error"), { reason: "cancelled" })
      assert.deepStrictEqual([left.seen.left, yield* waiting], [1, []])
    }).pipe(Effect.provide(within(left.mcp)), Effect.scoped)
  )
})

it.effect.each([
  { message: "?", schema: null, url: "javascript:alert(1)" },
  { message: "?", schema: null },
  { message: "?", schema: { type: "object", properties: { a: { $ref: "https://elsewhere.test/" } } } }
])("a question that nobody can be asked ends the call: %j", (question) => {
  const { mcp } = asking("forgets", [question])
  return Effect.gen(function* () {
    const { reader } = yield* ask()
    const events = yield* Fiber.join(reader)
    assert.deepInclude(single(events, "task.finished"), { state: "input-required" })
    assert.deepStrictEqual(all(events, "waiting"), [])
  }).pipe(Effect.provide(within(mcp)), Effect.scoped)
})

const waitsOf = (process: Mortal) =>
  Effect.map(process.inbox.waiting(anonymous, {}, { limit: 10 }), ({ items }) => items)

const answerAll = Effect.fnUntraced(function* (process: Mortal, plan_id: PlanId) {
  const [wait] = yield* waitsOf(process)
  if (wait === undefined) return
  const rest = wait.url === null ? { data: { days: 2 } } : { action: "accept" }
  yield* process.inbox.accept(me, plan_id, answerOf(wait.task_id, rest))
})

const writes = ['"event":"waiting"', '"round":2', '"TaskFinished"']
const deaths = writes.flatMap((write) => [[write, "before"] as const, [write, "behind"] as const])

describe("a call whose server forgets it while it asks", () => {
  it.effect.each(deaths)(
    "goes on with the answer where its process dies of the write of %s, %s it, or is unknown",
    ([write, when]) =>
      Effect.gen(function* () {
        const remote = asking("forgets", [days, page])
        const holds = (batch: ReadonlyArray<PlanCommit>) => JSON.stringify(batch).includes(write)
        const first = yield* mortal({ script, mcp: remote.mcp, dies: (batch) => (holds(batch) ? when : undefined) })
        const second = yield* mortal({ script: () => [say("ok")], mcp: remote.mcp })
        const { plan_id } = yield* first.on(post(body))
        for (let n = 0; n < 2; n++) {
          yield* pass("2 seconds")
          yield* answerAll(first, plan_id)
        }
        yield* pass("40 seconds", "1 second")
        for (let n = 0; n < 2; n++) {
          yield* answerAll(second, plan_id)
          yield* pass("3 seconds")
        }
        const events = yield* replayed(second, plan_id)
        // Between a question and the write of it, or an answer and what the server says to it, the process knows what nobody else knows.
        const isKnown = write !== '"TaskFinished"' && when === "behind"
        assert.deepStrictEqual(names(events).slice(-2), [
          isKnown || (write === '"TaskFinished"' && when === "behind") ? "final" : "error",
          "done"
        ])
        if (isKnown) {
          assert.deepStrictEqual(remote.got, [{ action: "accept", content: { days: 2 } }, { action: "accept" }])
          assert.deepInclude(single(events, "task.finished"), { state: "completed" })
        }
        assert.strictEqual(remote.seen.begun, 1)
        const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
        assert.deepStrictEqual(
          items.map(({ state }) => state),
          remote.got.map(() => "taken")
        )
      }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )

  it.effect("ends where its server is away by then, and the answer is named as untaken", () =>
    Effect.gen(function* () {
      const remote = asking("forgets", [days])
      const first = yield* mortal({ script, mcp: remote.mcp })
      const second = yield* mortal({ script: () => [say("ok")], mcp: remote.mcp })
      const { plan_id } = yield* first.on(post(body))
      yield* pass("1 second")
      first.kill()
      remote.seen.isAway = true
      yield* answerAll(second, plan_id)
      yield* pass("40 seconds", "1 second")
      const events = yield* replayed(second, plan_id)
      assert.deepNestedInclude(single(events, "task.finished"), { state: "failed", "error.code": "unreachable" })
      const { items } = yield* second.inbox.list(me, plan_id, { limit: 10 })
      assert.deepStrictEqual(
        single(events, "final").untaken,
        items.map(({ entry_id }) => entry_id)
      )
      assert.lengthOf(items, 1)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )

  it.effect("is handed over without the grace when its process shuts down", () =>
    Effect.gen(function* () {
      const remote = asking("forgets", [days])
      const config = { shutdownGrace: Duration.hours(1), parkAfter: undefined }
      const first = yield* mortal({ script, mcp: remote.mcp, config })
      const second = yield* mortal({ script: () => [say("ok")], mcp: remote.mcp })
      const { plan_id } = yield* first.on(post(body))
      yield* pass("1 second")
      const drained = yield* Effect.forkChild(first.plans.drain)
      yield* pass("3 seconds", "1 second")
      assert.isDefined(drained.pollUnsafe())
      yield* answerAll(second, plan_id)
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.deepStrictEqual(remote.seen, { ...remote.seen, begun: 1, left: 0 })
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )

  it.effect("is parked while it waits", () =>
    Effect.gen(function* () {
      const remote = asking("forgets", [days])
      const process = yield* mortal({ script, mcp: remote.mcp })
      const { plan_id } = yield* process.on(post(body))
      yield* pass("10 seconds")
      assert.deepInclude(yield* process.plans.get(anonymous, plan_id), { state: "waiting" })
      assert.strictEqual(remote.seen.left, 0)
      yield* answerAll(process, plan_id)
      yield* pass("10 seconds")
      const events = yield* replayed(process, plan_id)
      assert.deepInclude(single(events, "task.finished"), { state: "completed" })
      assert.deepStrictEqual([remote.got.length, remote.seen.begun], [1, 1])
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, checks)))
  )
})

describe("a call whose server holds it while it asks", () => {
  it.effect("is not parked, which the log has once, and is unknown when its process dies", () => {
    const logged: Array<unknown> = []
    const logger = Logger.layer([Logger.map(Logger.formatStructured, (line) => logged.push(line.message))])
    return Effect.gen(function* () {
      const remote = asking("holds", [days])
      const first = yield* mortal({ script, mcp: remote.mcp })
      const second = yield* mortal({ script: () => [say("ok")], mcp: remote.mcp })
      const { plan_id } = yield* first.on(post(body))
      yield* pass("1 minute", "1 second")
      assert.deepInclude(yield* first.plans.get(anonymous, plan_id), { state: "running", stage: "client" })
      assert.lengthOf(
        logged.filter((message) => message === "plan_not_parked"),
        1
      )
      first.kill()
      yield* pass("40 seconds", "1 second")
      const events = yield* replayed(second, plan_id)
      assert.deepInclude(single(events, "task.finished"), { state: "interrupted" })
      assert.deepInclude(single(events, "error"), { code: "interrupted" })
      assert.deepStrictEqual([remote.seen.begun, yield* waitsOf(second)], [1, []])
    }).pipe(Effect.scoped, Effect.provide(Layer.mergeAll(MemoryStore.layer, checks, logger)))
  })
})
