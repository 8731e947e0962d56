import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Latch, Layer, Result } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { keyOf } from "../../src/planner/CallEffect.ts"
import { bob } from "../plan/Bob.ts"
import { bank, checks, counting, pay, schema } from "./CountingBank.ts"

const run = Effect.fnUntraced(function* (body: object = {}) {
  const { frames, plan_id } = yield* post({ question: "?", agents: [bank], ...body })
  return { plan_id, reader: yield* Effect.forkChild(readAll(frames)) }
})

/** What the model has read last of the tools. */
const lastResults = Effect.gen(function* () {
  const asked = yield* (yield* ScriptedProvider).asked.all
  return asked.at(-1)?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
})

const noCall = (): never => assert.fail("there was no call")

const finish = Effect.fnUntraced(function* (body: object = {}) {
  const { reader } = yield* run(body)
  yield* pass("10 seconds")
  const events = yield* Fiber.join(reader)
  const finished = all(events, "task.finished")
  return { finished, first: finished[0] ?? noCall() }
})

const decide = Effect.fnUntraced(function* (plan_id: PlanId, task_id: TaskId, decision: "approve" | "reject") {
  yield* (yield* Plans).decide({ caller: anonymous, isAdmin: false }, { plan_id, task_id }, { decision })
})

const turns = (count: number) => Array.from({ length: count }, () => [[pay("7")], [say("done")]]).flat()
const within = <A, E, R>(
  bank: ReturnType<typeof counting>,
  script: ReadonlyArray<ReadonlyArray<unknown>>,
  test: Effect.Effect<A, E, R>
) =>
  test.pipe(
    Effect.provide(layer({ script: script as never, peers: bank.peers }).pipe(Layer.provide(checks))),
    Effect.scoped
  )

/** Has an earlier plan time out in mid-call. */
const timeOut = Effect.gen(function* () {
  const { first: ended } = yield* finish({ preferences: { tool_timeout_ms: 1_000 } })
  assert.deepInclude(ended, { state: "timed-out" })
  return ended.task_id
})

const byArguments = { key: "arguments", scope: "caller" } as const

describe("a call that has an effect", () => {
  it.effect("is made once, and a later one of the same key is told what came of it", () => {
    const { paid, ...rest } = counting()
    const script = [[pay("7", "a")], [say("done")], [pay("7", "b")], [pay("8")], [say("done")]]
    return within(
      { paid, ...rest },
      script,
      Effect.gen(function* () {
        const first = yield* finish()
        const second = yield* finish()
        assert.deepStrictEqual(paid, ["7", "8"])
        assert.isUndefined(first.finished[0]?.repeat_of)
        assert.strictEqual(second.first.state, "completed")
        assert.strictEqual(second.first.repeat_of, first.first.task_id)
        assert.isUndefined(second.finished[1]?.repeat_of)
      })
    )
  })

  it.effect("waits for one that runs, in the same step or in another plan, and is not made if that completes", () => {
    const latch = Latch.makeUnsafe(false)
    const { paid, ...rest } = counting(latch)
    return within(
      { paid, ...rest },
      [[pay("7"), pay("7")], [pay("7")], [say("done")], [say("done")]],
      Effect.gen(function* () {
        const one = yield* run()
        yield* pass("1 second")
        const two = yield* run()
        yield* pass("5 seconds")
        yield* latch.open
        yield* pass("5 seconds")
        const events = [...(yield* Fiber.join(one.reader)), ...(yield* Fiber.join(two.reader))]
        assert.deepStrictEqual(paid, ["7"])
        const repeats = all(events, "task.finished").filter(({ repeat_of }) => repeat_of !== undefined)
        assert.lengthOf(repeats, 2)
      })
    )
  })

  it.effect("waits for one that runs no longer than its own time, and is not made", () => {
    const { paid, ...rest } = counting("hangs")
    return within(
      { paid, ...rest },
      [[pay("7")], [pay("7")], [say("done")]],
      Effect.gen(function* () {
        yield* run()
        yield* pass("1 second")
        const { first: ended } = yield* finish({ preferences: { tool_timeout_ms: 2_000 } })
        assert.deepInclude(ended, { state: "timed-out" })
        assert.deepStrictEqual(paid, ["7"])
      })
    )
  })

  it.effect("is made again where the one before did nothing", () => {
    const { paid, ...rest } = counting("fails", "refuses")
    return within(
      { paid, ...rest },
      turns(4),
      Effect.gen(function* () {
        for (const state of ["failed", "failed", "completed", "completed"]) {
          assert.strictEqual((yield* finish()).first.state, state)
        }
        assert.lengthOf(paid, 3)
      })
    )
  })

  it.effect("waits for a decision where nobody knows what the one before did: an approval makes it", () => {
    const { paid, ...rest } = counting("hangs")
    return within(
      { paid, ...rest },
      turns(3),
      Effect.gen(function* () {
        const before = yield* timeOut
        const { plan_id, reader } = yield* run()
        yield* pass("1 second")
        const [wait] = (yield* (yield* Plans).approvals(anonymous, { limit: 10 })).items
        assert.deepInclude(wait, { why: "maybe_done" })
        yield* decide(plan_id, wait?.task_id ?? assert.fail("nothing waits"), "approve")
        yield* pass("1 second")
        const events = yield* Fiber.join(reader)
        assert.deepInclude(single(events, "approval.requested").data, { task_id: before })
        assert.deepInclude(single(events, "task.finished"), { state: "completed" })
        assert.isUndefined(single(events, "task.finished").repeat_of)
        assert.strictEqual((yield* finish()).first.repeat_of, wait?.task_id)
        assert.lengthOf(paid, 2)
      })
    )
  })

  it.effect("is taken as done once its repetition is rejected", () => {
    const { paid, ...rest } = counting("hangs")
    return within(
      { paid, ...rest },
      turns(3),
      Effect.gen(function* () {
        const before = yield* timeOut
        const { plan_id, reader } = yield* run()
        yield* pass("1 second")
        const [wait] = (yield* (yield* Plans).approvals(anonymous, { limit: 10 })).items
        yield* decide(plan_id, wait?.task_id ?? assert.fail("nothing waits"), "reject")
        yield* pass("1 second")
        assert.deepInclude(single(yield* Fiber.join(reader), "task.finished"), { state: "rejected" })
        assert.strictEqual((yield* finish()).first.repeat_of, before)
        // The repetition tells what somebody has said, and not what nobody knew before.
        const [results] = yield* lastResults
        assert.match(results ?? "", /It was not done again: it was done at .*What it returned is not known\.$/)
        assert.notInclude(results ?? "", "is unknown")
        assert.lengthOf(paid, 1)
      })
    )
  })

  it.effect("is not made once somebody has said that it was done, though somebody else approves it then", () => {
    const { paid, ...rest } = counting("hangs")
    return within(
      { paid, ...rest },
      [[pay("7")], [say("done")], [pay("7")], [pay("7")], [say("done")], [say("done")]],
      Effect.gen(function* () {
        const before = yield* timeOut
        const [one, other] = [yield* run(), yield* run()]
        yield* pass("1 second")
        const asked = (yield* (yield* Plans).approvals(anonymous, { limit: 10 })).items
        const decideIn = (plan_id: PlanId, decision: "approve" | "reject") =>
          decide(plan_id, asked.find((wait) => wait.plan_id === plan_id)?.task_id ?? noCall(), decision)
        yield* decideIn(one.plan_id, "reject")
        yield* pass("1 second")
        yield* decideIn(other.plan_id, "approve")
        yield* pass("1 second")
        assert.deepInclude(single(yield* Fiber.join(other.reader), "task.finished"), {
          state: "completed",
          repeat_of: before
        })
        assert.lengthOf(paid, 1)
      })
    )
  })

  it.effect("is rejected where nobody may be asked", () => {
    const { paid, ...rest } = counting("hangs")
    return within(
      { paid, ...rest },
      turns(3),
      Effect.gen(function* () {
        yield* timeOut
        for (const _ of [1, 2]) {
          const { first: ended } = yield* finish({ preferences: { approval: "never" } })
          assert.deepInclude(ended, { state: "rejected" })
          assert.strictEqual(ended.error?.code, "effect_unknown")
        }
        assert.lengthOf(paid, 1)
      })
    )
  })

  it.effect("is not made where the peer of the one before says that it has completed", () => {
    const bank = counting("hangs")
    bank.answers.push("paid")
    return within(
      bank,
      turns(3),
      Effect.gen(function* () {
        const before = yield* timeOut
        const { finished, first } = yield* finish({ preferences: { approval: "never" } })
        assert.lengthOf(finished, 1)
        assert.deepInclude(first, { state: "completed", repeat_of: before })
        assert.strictEqual((yield* finish()).first.repeat_of, before)
        assert.deepStrictEqual(bank.asked, [`remote of ${before}, left alone`])
        assert.lengthOf(bank.paid, 1)
      })
    )
  })

  it.effect("leaves the task of the one before alone, which its peer asks something, for later calls, too", () => {
    const bank = counting("hangs")
    bank.answers.push("asks")
    return within(
      bank,
      [[pay("7")], [say("done")], [pay("7")], [pay("8")], [say("done")]],
      Effect.gen(function* () {
        yield* timeOut
        const { finished } = yield* finish({ session_id: "another", preferences: { approval: "never" } })
        assert.strictEqual(finished[0]?.error?.code, "effect_unknown")
        assert.strictEqual(finished[1]?.state, "completed")
        assert.deepStrictEqual(bank.continued, [undefined, undefined])
      })
    )
  })

  it.effect(
    "goes on with the task of the one before, which its peer asks something, and no call of another key does",
    () => {
      const bank = counting("asks")
      bank.answers.push("asks")
      return within(
        bank,
        [[pay("7")], [say("done")], [pay("8")], [pay("7")], [say("done")]],
        Effect.gen(function* () {
          yield* finish({ session_id: "s" })
          const { plan_id, reader } = yield* run({ session_id: "s" })
          yield* pass("2 seconds")
          const [asked] = (yield* (yield* Plans).approvals(anonymous, { limit: 10 })).items
          assert.deepStrictEqual(bank.continued, [undefined, undefined])
          yield* decide(plan_id, asked?.task_id ?? noCall(), "approve")
          yield* pass("2 seconds")
          const finished = all(yield* Fiber.join(reader), "task.finished")
          assert.deepStrictEqual(
            finished.map(({ state }) => state),
            ["completed", "completed"]
          )
          assert.deepStrictEqual(bank.paid, ["7", "8", "7"])
          assert.deepStrictEqual(bank.continued, [undefined, undefined, "remote"])
        })
      )
    }
  )

  it.effect("is made where the peer of the one before says that it has failed", () => {
    const bank = counting("hangs")
    bank.answers.push("failed")
    return within(
      bank,
      turns(2),
      Effect.gen(function* () {
        yield* timeOut
        const { first } = yield* finish({ preferences: { approval: "never" } })
        assert.strictEqual(first.state, "completed")
        assert.isUndefined(first.repeat_of)
        assert.lengthOf(bank.paid, 2)
      })
    )
  })

  it.effect("waits within its own time for the task of the one before, and stays in doubt where that goes on", () => {
    const bank = counting("hangs")
    bank.answers.push("works")
    return within(
      bank,
      turns(2),
      Effect.gen(function* () {
        yield* timeOut
        const { reader } = yield* run({ preferences: { approval: "never", tool_timeout_ms: 3_000 } })
        yield* pass("2900 millis")
        assert.isUndefined(reader.pollUnsafe())
        yield* pass("1 second")
        const ended = single(yield* Fiber.join(reader), "task.finished")
        assert.deepInclude(ended, { state: "rejected" })
        assert.strictEqual(ended.error?.code, "effect_unknown")
        assert.lengthOf(bank.paid, 1)
      })
    )
  })

  it.effect("has one idempotency key, whoever makes it again, and another one for another key", () => {
    const bank = counting("fails", "fails")
    return within(
      bank,
      [[pay("7")], [say("done")], [pay("7")], [pay("8")], [say("done")]],
      Effect.gen(function* () {
        yield* finish()
        yield* finish()
        const [first, second, other] = bank.keys
        assert.match(first ?? "", /^[0-9a-f]{64}$/)
        assert.strictEqual(second, first)
        assert.notStrictEqual(other, first)
      })
    )
  })

  it.effect("is what the operator says of the tool, whatever the tool says itself", () => {
    const bank = counting()
    const byNote = { key: ["/note"], scope: "session" } as const
    const config = { effectOf: (tool: string) => (tool === "bob_pay" ? byNote : undefined) }
    return Effect.gen(function* () {
      const { finished } = yield* finish()
      assert.deepStrictEqual(bank.paid, ["7", "7"])
      assert.strictEqual(finished[2]?.repeat_of, finished[0]?.task_id)
    }).pipe(
      Effect.provide(
        layer({
          script: [[pay("7", "a")], [pay("7", "b")], [pay("8", "a")], [say("done")]],
          peers: bank.peers,
          config
        }).pipe(Layer.provide(checks))
      ),
      Effect.scoped
    )
  })

  it.effect("is what the operator says of the tool, however long the name of its agent is", () => {
    const bank = counting()
    const name = "b".repeat(64)
    const config = { effectOf: (tool: string) => (tool.endsWith("_pay") ? byArguments : undefined) }
    const pays: Script = ({ messages, tools: [tool] }) =>
      messages.some(({ role }) => role === "tool") ? [say("done")] : [callTool(tool?.name ?? "", { order: "7" })]
    return Effect.gen(function* () {
      const agents = [{ ...bob, name, skills: [{ id: "pay", input_schema: schema }] }]
      yield* finish({ agents })
      yield* finish({ agents })
      assert.deepStrictEqual(bank.paid, ["7"])
    }).pipe(
      Effect.provide(layer({ script: pays, peers: bank.peers, config }).pipe(Layer.provide(checks))),
      Effect.scoped
    )
  })

  it.effect("leaves a task that its peer asks something to a call that is to do the same, and tells the model", () => {
    const bank = counting("asks")
    bank.answers.push("asks")
    const skills = [{ id: "pay", input_schema: schema }]
    const config = { effectOf: () => ({ key: ["/order"], scope: "caller" }) as const }
    const script = [[pay("7")], [say("done")]]
    return Effect.gen(function* () {
      yield* finish({ agents: [{ ...bob, skills }] })
      const [results] = yield* lastResults
      assert.match(results ?? "", /a call of bob_pay that is to do the same continues it\.$/)
    }).pipe(Effect.provide(layer({ script, peers: bank.peers, config }).pipe(Layer.provide(checks))), Effect.scoped)
  })

  it.effect("is invalid without a place of its key", () => {
    const { paid, ...rest } = counting()
    return within(
      { paid, ...rest },
      [[callTool("bob_pay", { note: "a" })], [say("done")]],
      Effect.gen(function* () {
        const { first: ended } = yield* finish()
        assert.deepInclude(ended, { state: "invalid" })
        assert.match(ended.error?.message ?? "", /\/order/)
        assert.lengthOf(paid, 0)
      })
    )
  })
})

describe("the key of an effect", () => {
  const [one, two] = [SessionId.make(`session_${"1".repeat(36)}`), SessionId.make(`session_${"2".repeat(36)}`)]
  const same = (scope: "session" | "caller", a: object, b: object, [x, y] = [one, one]) =>
    Result.getOrThrow(keyOf("pay", { key: "arguments", scope }, a as never, x)) ===
    Result.getOrThrow(keyOf("pay", { key: "arguments", scope }, b as never, y))

  it("is that of equal arguments, however they are written", () => {
    assert.isTrue(same("caller", { a: 1, b: { c: 2, d: 3 } }, { b: { d: 3, c: 2 }, a: 1.0 }))
    assert.isFalse(same("caller", { a: 1 }, { a: "1" }))
  })

  it("is another one in another session only where the session is its scope", () => {
    assert.isTrue(same("caller", {}, {}, [one, two]))
    assert.isFalse(same("session", {}, {}, [one, two]))
    assert.isFalse(
      Result.getOrThrow(keyOf("pay", { key: "arguments", scope: "session" }, {}, one)) ===
        Result.getOrThrow(keyOf("pay", { key: "arguments", scope: "caller" }, {}, one))
    )
  })

  it("reads places as JSON Pointers do", () => {
    const input = { "a/b": [{ "~": 1 }], none: null }
    const read = (place: string) => keyOf("pay", { key: [place], scope: "caller" }, input, one)
    assert.isTrue(Result.isSuccess(read("/a~1b/0/~0")))
    assert.isTrue(Result.isSuccess(read("/none")))
    assert.deepStrictEqual(read("/a~1b/1"), Result.fail("/a~1b/1"))
    assert.isTrue(Result.isFailure(read("/constructor")))
  })
})
