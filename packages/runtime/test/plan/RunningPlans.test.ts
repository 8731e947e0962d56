import { anonymous } from "@bowline/domain/caller/CallerName"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { wait } from "@bowline/testing/http/Move"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, single, pass, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Exit, Fiber } from "effect"
import { Plans } from "../../src/plan/Plans.ts"
import { askBob, bob } from "./Bob.ts"

const away = Effect.fail(new StorageError({ reason: new Unavailable({ cause: "down" }) }))

const reading = Effect.fnUntraced(function* (body: object) {
  const { frames, plan_id } = yield* post(body)
  return { plan_id, reader: yield* Effect.forkChild(readAll(frames)) }
})

describe("RunningPlans", () => {
  it.effect("keeps the other plans running when a commit dies or never answers", () => {
    let commits = 0
    return Effect.gen(function* () {
      const dead = yield* reading({ question: "dead" })
      yield* pass("1 second")
      const { reader } = yield* reading({ question: "alive" })
      yield* pass("30 seconds", "1 second")
      assert.strictEqual(single(yield* Fiber.join(reader), "final").text, "fine")
      assert.strictEqual(single(yield* Fiber.join(dead.reader), "error").code, "storage")
    }).pipe(
      Effect.provide(
        layer({
          // The commit that dies has not yet the end.
          script: () => [wait("100 millis"), say("fine")],
          disturb: ({ commit }) => ({
            commit: (batch) =>
              Effect.suspend(() => {
                commits++
                if (commits === 1) return Effect.die("a bug")
                return commits === 3 ? Effect.andThen(Effect.sleep("10 seconds"), away) : commit(batch)
              })
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("cuts off no reader that reads, however much a peer says at once", () =>
    Effect.gen(function* () {
      const { frames } = yield* post({ question: "?", agents: [bob] })
      const events = yield* readAll(frames)
      assert.notInclude(events, "reconnect")
      assert.strictEqual(all(events, "task.progress").length, 100)
      assert.strictEqual(single(events, "final").text, "ok")
    }).pipe(
      Effect.provide(
        layer({
          script: [askBob, [say("ok")]],
          peers: {
            call: (_, onEvent) =>
              Effect.as(
                Effect.forEach(
                  Array.from({ length: 100 }, (_, index) => `${index} ${"m".repeat(60_000)}`),
                  (message) => onEvent({ _tag: "Progress", state: "working", message }),
                  { discard: true }
                ),
                { state: "completed" as const, content: "hi", verified: "unknown" as const }
              )
          }
        })
      ),
      Effect.scoped
    )
  )

  it.effect("lets a caller disconnect while the database is silent, and ends the plan when it answers", () => {
    const answer = Deferred.makeUnsafe<void>()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const caller = yield* Effect.forkChild(Effect.scoped(post({ question: "?" })))
      yield* pass("1 second")
      const leaving = yield* Effect.forkChild(Fiber.interrupt(caller))
      yield* pass("100 millis")
      assert.isDefined(leaving.pollUnsafe())
      yield* Deferred.succeed(answer, undefined)
      yield* pass("1 second")
      const { items } = yield* plans.list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ error }) => error?.reason),
        ["disconnect"]
      )
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("1 hour")],
          disturb: ({ create }) => ({
            create: (plan, maxQueue) => Effect.andThen(Deferred.await(answer), create(plan, maxQueue))
          })
        })
      )
    )
  })

  it.effect("ends at shutdown what was admitted before, and waits for it", () => {
    const answer = Deferred.makeUnsafe<void>()
    return Effect.gen(function* () {
      const plans = yield* Plans
      const asking = yield* Effect.forkChild(Effect.flatMap(post({ question: "?" }), ({ frames }) => readAll(frames)))
      yield* pass("1 second")
      const drained = yield* Effect.forkChild(plans.drain)
      yield* pass("10 seconds", "1 second")
      assert.isUndefined(drained.pollUnsafe())
      yield* Deferred.succeed(answer, undefined)
      yield* pass("1 second")
      assert.isDefined(drained.pollUnsafe())
      assert.strictEqual(single(yield* Fiber.join(asking), "error").reason, "shutdown")
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("1 hour")],
          config: { shutdownGrace: Duration.seconds(2) },
          disturb: ({ create }) => ({
            create: (plan, maxQueue) => Effect.andThen(Deferred.await(answer), create(plan, maxQueue))
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("ends older plans as soon as the database is back, and refuses nothing that is stored", () => {
    let failures = 0
    return Effect.gen(function* () {
      const older = yield* reading({ question: "1", session_id: "s" })
      yield* pass("1 second")
      failures = 2
      const interrupt = { question: "2", session_id: "s", preferences: { on_busy: "interrupt" } }
      const asking = yield* Effect.forkChild(post(interrupt))
      yield* pass("2 seconds")
      assert.strictEqual(failures, 0)
      assert.strictEqual(single(yield* Fiber.join(older.reader), "error").reason, "superseded")
      const newer = yield* Effect.forkChild(readAll((yield* Fiber.join(asking)).frames))
      yield* pass("1 minute", "1 second")
      assert.strictEqual(single(yield* Fiber.join(newer), "final").text, "fine")
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("5 seconds"), say("fine")],
          disturb: ({ list }) => ({
            list: (...given) => Effect.suspend(() => (failures > 0 && failures-- > 0 ? away : list(...given)))
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("lets the newest of several that interrupt one another answer", () =>
    Effect.gen(function* () {
      yield* Effect.flatMap(post({ question: "0", session_id: "s" }), ({ frames }) => readAll(frames))
      const ask = (question: string, on_busy: string) =>
        reading({ question, session_id: "s", preferences: { on_busy } })
      const [one, two, three] = [yield* ask("1", "interrupt"), yield* ask("2", "interrupt"), yield* ask("3", "queue")]
      yield* pass("1 minute", "1 second")
      assert.strictEqual(single(yield* Fiber.join(one.reader), "error").reason, "superseded")
      assert.strictEqual(single(yield* Fiber.join(two.reader), "final").text, "answer")
      assert.strictEqual(single(yield* Fiber.join(three.reader), "final").text, "answer")
    }).pipe(
      Effect.provide(
        layer({
          script: ({ messages }) => (messages.length === 1 ? [say("first")] : [wait("5 seconds"), say("answer")])
        })
      ),
      Effect.scoped
    )
  )

  it.effect("ends an older plan that is stored and does not run yet", () => {
    const slow = Deferred.makeUnsafe<void>()
    return Effect.gen(function* () {
      const asking = yield* Effect.forkChild(post({ question: "slow", session_id: "s" }))
      yield* pass("1 second")
      const newer = yield* reading({ question: "new", session_id: "s", preferences: { on_busy: "interrupt" } })
      yield* Deferred.succeed(slow, undefined)
      yield* pass("10 seconds")
      const older = yield* readAll((yield* Fiber.join(asking)).frames)
      assert.strictEqual(single(older, "error").reason, "superseded")
      assert.strictEqual(single(yield* Fiber.join(newer.reader), "final").text, "answer")
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("2 seconds"), say("answer")],
          disturb: ({ create }) => ({
            create: (plan, maxQueue) =>
              Effect.tap(create(plan, maxQueue), plan.request.question === "slow" ? Deferred.await(slow) : Effect.void)
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("never has more plans than it may, however many come at once", () =>
    Effect.gen(function* () {
      const asked = yield* Effect.forEach(Array.from({ length: 20 }), () =>
        Effect.forkChild(Effect.exit(post({ question: "?" })))
      )
      const exits = yield* Effect.forEach(asked, Fiber.join)
      assert.strictEqual(exits.filter(Exit.isSuccess).length, 5)
    }).pipe(Effect.provide(layer({ script: () => [wait("1 hour")], config: { maxPlans: 5 } })), Effect.scoped)
  )

  it.effect("runs as many plans as it may, also while it looks for plans of other replicas", () => {
    let isLooking = false
    return Effect.gen(function* () {
      yield* pass("4 seconds", "1 second")
      assert.isTrue(isLooking)
      yield* post({ question: "?" })
      assert.strictEqual((yield* Effect.flip(post({ question: "?" })))._tag, "NotAccepting")
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("1 hour")],
          config: { maxPlans: 1 },
          disturb: ({ abandoned }) => {
            let looks = 0
            return {
              abandoned: (...given) =>
                Effect.suspend(() => {
                  isLooking = ++looks > 1
                  return isLooking ? Effect.never : abandoned(...given)
                })
            }
          }
        })
      ),
      Effect.scoped
    )
  })

  it.effect("counts plans that may have been stored as plans, until the database says or their deadlines pass", () => {
    let isAway = true
    return Effect.gen(function* () {
      const ask = post({ question: "?", preferences: { timeout_ms: 60_000 } })
      const refusals = Effect.map(Effect.replicateEffect(Effect.flip(ask), 3), (errors) =>
        errors.map(({ _tag }) => _tag)
      )
      const expected = ["StorageError", "StorageError", "NotAccepting"]
      assert.deepStrictEqual(yield* refusals, expected)
      yield* pass("59 seconds", "1 second")
      assert.strictEqual((yield* Effect.flip(ask))._tag, "NotAccepting")
      yield* pass("2 seconds", "1 second")
      assert.deepStrictEqual(yield* refusals, expected)
      isAway = false
      yield* pass("1 second")
      yield* ask
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("1 hour")],
          config: { maxPlans: 2 },
          disturb: ({ create, get }) => ({
            create: (...given) => Effect.suspend(() => (isAway ? away : create(...given))),
            get: (...given) => Effect.suspend(() => (isAway ? away : get(...given)))
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("reports a database that is away under the stage that needed it", () => {
    let isAway: boolean | undefined
    return Effect.gen(function* () {
      const { plan_id } = yield* post({ question: "?", agents: [bob] })
      yield* pass("80 seconds", "1 second")
      isAway = false
      yield* pass("20 seconds", "1 second")
      const { error } = yield* (yield* Plans).get(anonymous, plan_id)
      assert.deepInclude(error, { code: "storage", stage: "tool", retryable: true })
    }).pipe(
      Effect.provide(
        layer({
          script: [[callTool("bob_ask", { input: "x" })]],
          disturb: ({ commit }) => ({
            commit: (batch) =>
              Effect.suspend(() => {
                if (batch.some(({ changes }) => changes.some(({ _tag }) => _tag === "TaskStarted"))) isAway ??= true
                return isAway ? away : commit(batch)
              })
          })
        })
      ),
      Effect.scoped
    )
  })

  it.effect("stores how a plan ended, though the database refuses what was said before", () =>
    Effect.gen(function* () {
      const { reader } = yield* reading({ question: "?", preferences: { timeout_ms: 5_000 } })
      yield* pass("10 seconds")
      const events = yield* Fiber.join(reader)
      assert.deepInclude(single(events, "error"), { code: "storage" })
    }).pipe(
      Effect.provide(
        layer({
          script: () => [wait("1 second"), say("poison"), wait("1 hour")],
          disturb: ({ commit }) => ({
            commit: (batch) =>
              JSON.stringify(batch).includes("poison")
                ? Effect.fail(new StorageError({ reason: new Rejected({ cause: "no" }) }))
                : commit(batch)
          })
        })
      ),
      Effect.scoped
    )
  )
})
