import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall, wait } from "@bowline/testing/http/Move"
import { callTool, error, say, usage } from "@bowline/testing/provider/Turn"
import { all, pass, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Stream } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { overrides } from "../../src/provider/ModelTable.ts"
import { askBob, bob, names } from "./Bob.ts"
import { hi, mortal, peer, replayed, stays } from "./Mortal.ts"

const config = { shutdownGrace: Duration.seconds(5) }

/** Asks, reads, and shuts the process down a second later. */
const askAndDrain = Effect.fnUntraced(function* (process: Effect.Success<ReturnType<typeof mortal>>, body: object) {
  const { frames, plan_id } = yield* process.on(post({ question: "?", session_id: "s", ...stays, ...body }))
  const reader = yield* Effect.forkChild(Effect.map(Stream.runCollect(frames), seen))
  yield* pass("1 second")
  const drained = yield* Effect.forkChild(process.plans.drain)
  yield* pass("6 seconds", "1 second")
  assert.isDefined(drained.pollUnsafe())
  return { plan_id, read: yield* Fiber.join(reader) }
})

describe("a plan that runs at a shutdown", () => {
  it.effect("is handed over to the next process, which resumes it at once; its readers are asked to reconnect", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: () => [say("half"), usage({ input_tokens: 5 }), stall], config })
      const second = yield* mortal({ script: () => [say("whole")] })
      const { plan_id, read } = yield* askAndDrain(first, {})
      assert.deepStrictEqual(names(read), ["session", "plan", "step", "text.delta", "usage", "reconnect"])
      const events = yield* replayed(second, plan_id, "1 second")
      assert.deepStrictEqual(events.slice(0, 5), read.slice(0, 5))
      assert.deepInclude(single(events, "final"), { text: "whole" })
      assert.strictEqual(single(events, "final").usage.input_tokens, 5)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("goes on with the cost and the retries that it has had", () =>
    Effect.gen(function* () {
      const price = { input: 1, output: 1 }
      const priced = { ...config, models: () => overrides([["scripted/model", { price }]]) }
      const used = usage({ input_tokens: 5, output_tokens: 0 })
      let asked = 0
      const first = yield* mortal({
        script: () => (asked++ === 0 ? [error(500)] : [say("half"), used, stall]),
        config: priced
      })
      const second = yield* mortal({ script: () => [say("whole"), used], config: priced })
      const { plan_id } = yield* askAndDrain(first, {})
      yield* replayed(second, plan_id, "1 second")
      const plan = yield* second.plans.get(anonymous, plan_id)
      // The second one asks the step again.
      assert.deepInclude(plan, { state: "completed", retries: 2, cost_usd: 0.000_01 })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("keeps its tasks at peers running", () => {
    const stuck = peer(Effect.never)
    const ready = peer()
    return Effect.gen(function* () {
      const first = yield* mortal({ script: [askBob], peers: stuck.peers, config })
      const second = yield* mortal({ script: [[say("ok")]], peers: ready.peers })
      const { plan_id } = yield* askAndDrain(first, { agents: [bob] })
      assert.deepStrictEqual([stuck.left, stuck.cancelled], [[true], []])
      assert.strictEqual(single(yield* replayed(second, plan_id, "1 second"), "final").text, "ok")
      assert.strictEqual(ready.calls[0]?.resumes?.taskId, "remote-1")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is handed over without the grace as soon as it only waits for an approval, and waits on elsewhere", () => {
    const busy = peer(Effect.delay(Effect.succeed(hi), "20 seconds"))
    const ready = peer()
    const agents = [{ ...bob, skills: [{ id: "pay", approval: "always" }, { id: "ask" }] }]
    const asksBoth = [callTool("bob_pay", { input: "7" }), callTool("bob_ask", { input: "hi" })]
    return Effect.gen(function* () {
      const first = yield* mortal({
        script: [asksBoth],
        peers: busy.peers,
        config: { shutdownGrace: Duration.hours(1) }
      })
      const second = yield* mortal({ script: [[say("ok")]], peers: ready.peers })
      const { plan_id } = yield* first.on(post({ question: "?", ...stays, agents }))
      yield* pass("1 second")
      const drained = yield* Effect.forkChild(first.plans.drain)
      yield* pass("18 seconds", "1 second")
      assert.isUndefined(drained.pollUnsafe())
      yield* pass("3 seconds", "1 second")
      assert.isDefined(drained.pollUnsafe())
      const { items } = yield* second.plans.approvals(anonymous, { limit: 10 })
      const { task_id } = items[0] ?? assert.fail("No approval waits")
      yield* second.plans.decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision: "approve" })
      assert.strictEqual(single(yield* replayed(second, plan_id, "10 seconds"), "final").text, "ok")
      assert.lengthOf(ready.calls, 1)
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("is handed over without the grace while it waits for its session, and waits on elsewhere", () =>
    Effect.gen(function* () {
      const config = { shutdownGrace: Duration.hours(1) }
      const first = yield* mortal({ script: () => [say("here")], config })
      const second = yield* mortal({ script: () => [wait("30 seconds"), say("there")] })
      const ahead = yield* second.on(post({ question: "1", session_id: "s", ...stays }))
      const { plan_id, read } = yield* askAndDrain(first, { question: "2" })
      assert.deepStrictEqual(names(read), ["session", "queued", "reconnect"])
      // The replica that drains is still alive.
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { state: "queued" })
      const events = yield* replayed(second, plan_id, "2 minutes")
      assert.deepInclude(single(events, "final"), { text: "there" })
      assert.deepInclude(yield* second.plans.get(anonymous, ahead.plan_id), { state: "completed" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is taken over at once while it waits for its session, so that it ends in its time", () =>
    Effect.gen(function* () {
      const script = () => [wait("30 seconds"), say("there")]
      const first = yield* mortal({ script, config: { shutdownGrace: Duration.hours(1) } })
      const second = yield* mortal({ script })
      yield* second.on(post({ question: "1", session_id: "s", ...stays }))
      // It keeps the first process from its end.
      yield* first.on(post({ question: "1", session_id: "t", ...stays }))
      const preferences = { ...stays.preferences, timeout_ms: 1_200 }
      const { plan_id } = yield* first.on(post({ question: "2", session_id: "s", preferences }))
      yield* pass("1 second")
      yield* Effect.forkChild(first.plans.drain)
      yield* pass("1 second")
      assert.deepInclude(yield* second.plans.get(anonymous, plan_id), { state: "aborted" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("has the grace for its session where nobody can resume it", () =>
    Effect.gen(function* () {
      const script = () => [wait("30 seconds"), say("whole")]
      const process = yield* mortal({ script, config: { shutdownGrace: Duration.hours(1), resume: false } })
      yield* process.on(post({ question: "1", session_id: "s", ...stays }))
      const { plan_id } = yield* process.on(post({ question: "2", session_id: "s", ...stays }))
      yield* pass("1 second")
      yield* Effect.forkChild(process.plans.drain)
      yield* pass("2 minutes", "10 seconds")
      assert.deepInclude(yield* process.plans.get(anonymous, plan_id), { state: "completed" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("has the grace for its approval where nobody can resume it", () =>
    Effect.gen(function* () {
      const agents = [{ ...bob, skills: [{ id: "ask", approval: "always" }] }]
      const process = yield* mortal({
        script: [askBob, [say("ok")]],
        peers: peer().peers,
        config: { shutdownGrace: Duration.hours(1), resume: false }
      })
      const { plan_id } = yield* process.on(post({ question: "?", ...stays, agents }))
      yield* pass("1 second")
      yield* Effect.forkChild(process.plans.drain)
      yield* pass("1 minute", "10 seconds")
      assert.deepInclude(yield* process.plans.get(anonymous, plan_id), { state: "running", stage: "approval" })
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is aborted where nobody can resume it, and its tasks at peers are cancelled", () => {
    const unknown = peer(Effect.never, null)
    const token = { ...bob, auth: { type: "bearer", token: "secret" } }
    return Effect.gen(function* () {
      const cases = [
        { script: [askBob], peers: unknown.peers, agents: [bob] },
        { script: [[stall]], agents: [token] },
        { script: [[stall]], resume: false }
      ]
      for (const { agents = [], resume = true, ...given } of cases) {
        const process = yield* mortal({ ...given, config: { ...config, resume } })
        const { read } = yield* askAndDrain(process, { agents })
        assert.strictEqual(single(read, "error").reason, "shutdown")
      }
      assert.deepStrictEqual(unknown.left, [false])
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  })

  it.effect("does not delay the shutdown where nothing can be stored any more, and asks its readers to reconnect", () =>
    Effect.gen(function* () {
      const process = yield* mortal({ script: () => [say("half"), stall], config })
      const { frames } = yield* process.on(post({ question: "?", ...stays }))
      const reader = yield* Effect.forkChild(Effect.map(Stream.runCollect(frames), seen))
      yield* pass("1 second")
      process.kill()
      const drained = yield* Effect.forkChild(process.plans.drain)
      yield* pass("26 seconds", "1 second")
      assert.isDefined(drained.pollUnsafe())
      assert.strictEqual(names(yield* Fiber.join(reader)).at(-1), "reconnect")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is resumed after any number of shutdowns, which do not count as deaths", () =>
    Effect.gen(function* () {
      const script = () => [say("half"), stall]
      let process = yield* mortal({ script, config })
      const { plan_id } = yield* process.on(post({ question: "?", ...stays }))
      for (const next of [script, script, script, () => [say("whole")]]) {
        yield* pass("1 second")
        const before = process
        process = yield* mortal({ script: next, config })
        yield* Effect.forkChild(before.plans.drain)
        yield* pass("6 seconds", "1 second")
      }
      const events = yield* replayed(process, plan_id, "1 second")
      assert.lengthOf(all(events, "retry"), 4)
      assert.strictEqual(single(events, "final").text, "whole")
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )

  it.effect("is queued again if it only waited for its session, behind the one that has it", () =>
    Effect.gen(function* () {
      const first = yield* mortal({ script: () => [wait("1 hour")], config })
      const second = yield* mortal({ script: () => [wait("2 seconds"), say("whole")] })
      const ahead = yield* first.on(post({ question: "1", session_id: "s", ...stays }))
      const { plan_id } = yield* askAndDrain(first, { question: "2" })
      const events = yield* replayed(second, plan_id, "10 seconds")
      assert.deepInclude(single(events, "final"), { text: "whole" })
      assert.lengthOf(all(events, "retry"), 0)
      assert.isAtLeast(all(events, "queued").length, 2)
      const [one, two] = yield* Effect.forEach([ahead.plan_id, plan_id], (id) => second.plans.get(anonymous, id))
      assert.isBelow(Date.parse(one?.finished_at ?? ""), Date.parse(two?.finished_at ?? ""))
    }).pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
  )
})
