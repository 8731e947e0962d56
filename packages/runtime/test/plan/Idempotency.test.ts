import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { wait } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { layer, pass, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Schema, Scope, Stream } from "effect"
import { createHash } from "node:crypto"
import { canonicalJson } from "../../src/store/CanonicalJson.ts"
import { idempotency } from "../../src/store/Idempotency.ts"
import { Plans } from "../../src/plan/Plans.ts"
import { PlanStreams } from "../../src/plan/PlanStreams.ts"
import { Sessions } from "../../src/plan/Sessions.ts"

const decode = Schema.decodeUnknownEffect(PlanRequest)

const send = Effect.fnUntraced(function* (body: object, key: string = "a key") {
  const request = yield* Effect.orDie(decode(body))
  return yield* (yield* PlanStreams).start({ caller: anonymous, request, idempotency: idempotency(key, body) })
})

const question = { question: "?" }
const slow = () => [say("one"), wait("2 seconds"), say("two")]
const plansOf = Effect.flatMap(Plans, (plans) => plans.list(anonymous, {}, { limit: 10 }))

describe("an idempotency key", () => {
  it("is stored so that nobody without it can guess it or a body from what is stored", () => {
    const body = { question: "?", agents: [{ auth: { type: "bearer", token: "1234" } }] }
    // A key that is longer than a block of the hash is hashed by HMAC itself.
    for (const key of ["k".repeat(20), "k".repeat(200)]) {
      const { key: name, body: digest } = idempotency(key, body)
      const plain = [key, canonicalJson(body)].map((text) => createHash("sha256").update(text).digest("hex"))
      assert.strictEqual(new Set([name, digest, ...plain]).size, 4)
      assert.deepStrictEqual(idempotency(key, { agents: body.agents, question: "?" }), idempotency(key, body))
      assert.notStrictEqual(idempotency(`${key} `, body).body, idempotency(key, body).body)
    }
  })

  it.effect("joins a plan that is stored, and that its process does not run yet", () =>
    Effect.gen(function* () {
      const first = yield* Effect.forkChild(Effect.flatMap(send(question), ({ frames }) => Stream.runCollect(frames)))
      yield* pass("50 millis", "10 millis")
      const second = yield* Effect.forkChild(Effect.flatMap(send(question), ({ frames }) => Stream.runCollect(frames)))
      yield* pass("40 millis", "10 millis")
      assert.isUndefined(second.pollUnsafe())
      // No poll and no notice: the second one reads what the first one reads.
      yield* pass("2100 millis", "10 millis")
      assert.isDefined(second.pollUnsafe())
      assert.deepStrictEqual(yield* Fiber.join(second), yield* Fiber.join(first))
      assert.lengthOf((yield* plansOf).items, 1)
    }).pipe(
      Effect.provide(
        layer({
          script: slow,
          disturb: ({ create }) => ({
            create: (plan, maxQueue) => Effect.tap(create(plan, maxQueue), Effect.sleep("100 millis"))
          })
        })
      ),
      Effect.scoped
    )
  )

  it.effect(
    "keeps the plan running for a caller who has joined it when the first one disconnects, and ends it with the last one",
    () =>
      Effect.gen(function* () {
        const [first, second] = [yield* Scope.make(), yield* Scope.make()]
        const { plan_id } = yield* Scope.provide(send(question), first)
        yield* pass("1 second")
        assert.strictEqual((yield* Scope.provide(send(question), second)).plan_id, plan_id)
        yield* Scope.close(first, Exit.void)
        yield* pass("500 millis")
        const plans = yield* Plans
        assert.strictEqual((yield* plans.get(anonymous, plan_id)).state, "running")
        yield* Scope.close(second, Exit.void)
        yield* pass("100 millis")
        assert.strictEqual((yield* plans.get(anonymous, plan_id)).error?.reason, "disconnect")
      }).pipe(Effect.provide(layer({ script: slow })))
  )

  it.effect("joins its plan while the gateway drains, and stays free where the gateway refuses a plan", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      const { plan_id } = yield* send(question)
      yield* Effect.forkChild(plans.drain)
      yield* pass("100 millis")
      const joined = yield* send(question)
      assert.strictEqual(joined.plan_id, plan_id)
      for (const body of [question, { question: "another" }]) {
        assert.strictEqual((yield* Effect.flip(send(body, "new")))._tag, "NotAccepting")
      }
      const reader = yield* Effect.forkChild(readAll(joined.frames))
      yield* pass("3 seconds")
      assert.strictEqual(single(yield* Fiber.join(reader), "final").text, "onetwo")
    }).pipe(Effect.provide(layer({ script: slow })), Effect.scoped)
  )

  it.effect("joins the plan that was stored though the answer was lost, and that ends when nobody comes back", () =>
    Effect.gen(function* () {
      const plans = yield* Plans
      for (const key of ["comes back", "does not"]) {
        assert.strictEqual((yield* Effect.flip(send(question, key)))._tag, "StorageError")
      }
      yield* pass("1 second")
      const { frames } = yield* send(question, "comes back")
      const reader = yield* Effect.forkChild(readAll(frames))
      yield* pass("62 seconds", "1 second")
      assert.strictEqual(single(yield* Fiber.join(reader), "final").text, "onetwo")
      const { items } = yield* plans.list(anonymous, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ error }) => error?.reason),
        ["disconnect", undefined]
      )
    }).pipe(
      Effect.provide(
        layer({
          script: () => [say("one"), wait("61500 millis"), say("two")],
          disturb: ({ create }) => ({
            create: (plan, maxQueue) =>
              Effect.andThen(
                create(plan, maxQueue),
                Effect.fail(new StorageError({ reason: new Unavailable({ cause: "gone" }) }))
              )
          })
        })
      ),
      Effect.scoped
    )
  )

  it.effect("is free again when the database was away, after 24 hours, and when its session is deleted", () => {
    let away = true
    return Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(send(question)))._tag, "StorageError")
      away = false
      const ended = Effect.fnUntraced(function* (body: object) {
        const { frames, ...ids } = yield* send(body)
        const reader = yield* Effect.forkChild(readAll(frames))
        yield* pass("3 seconds")
        yield* Fiber.join(reader)
        return ids
      })
      const first = yield* ended({ question: "another" })
      yield* pass("23 hours", "1 hour")
      assert.strictEqual((yield* Effect.flip(send(question)))._tag, "IdempotencyConflict")
      yield* pass("1 hour", "1 hour")
      const second = yield* ended(question)
      assert.notStrictEqual(second.plan_id, first.plan_id)
      yield* (yield* Sessions).delete(anonymous, second.session_id)
      assert.notStrictEqual((yield* ended({ question: "a third" })).plan_id, second.plan_id)
    }).pipe(
      Effect.provide(
        layer({
          script: slow,
          // What is done again and again within a lease would be done for a day.
          config: { leaseTtl: Duration.hours(1) },
          disturb: ({ create }) => ({
            create: (plan, maxQueue) =>
              Effect.suspend(() =>
                away
                  ? Effect.fail(new StorageError({ reason: new Unavailable({ cause: "down" }) }))
                  : create(plan, maxQueue)
              )
          })
        })
      ),
      Effect.scoped
    )
  })
})
