import { SessionId } from "@bowline/domain/session/Session"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { stall } from "@bowline/testing/http/Move"
import { callTool, error, errorChunk, say, think, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { Asker } from "../../src/asking/Asker.ts"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import { type Listener, silent } from "../../src/asking/Listener.ts"
import { PlansConfig } from "../../src/config/PlansConfig.ts"
import { type BlockedRecord, Looks } from "../../src/record/BlockedRecord.ts"

const model = "scripted/model"
const subject = {
  session: SessionId.make(`session_${"a".repeat(36)}`),
  models: [model],
  endsAt: 600_000,
  stage: "provider" as const
}
const question = { system: "", messages: [], tools: [], toolChoice: "auto" as const }

const provide = (script: Parameters<typeof ScriptedProvider.layer>[0]) =>
  Effect.provide(
    Asker.layer.pipe(
      Layer.provide(CredentialPool.layerProvider),
      Layer.provideMerge(ScriptedProvider.layer(script)),
      Layer.provide(MemoryStore.layer),
      Layer.provide(PlansConfig.layer({ model }))
    )
  )

/** Writes down what a listener learns. */
const listening = (shorten: Listener["shorten"] = silent.shorten) => {
  const learned: Array<ReadonlyArray<unknown>> = []
  const listener: Listener = {
    ...silent,
    reported: ({ attempt, usage }) => void learned.push(["used", attempt, usage.input_tokens]),
    ended: () => void learned.push(["ended"]),
    heard: (attempt, parts) =>
      Effect.sync(() => {
        for (const part of parts) if (part._tag === "TextDelta") learned.push(["said", attempt, part.delta])
      }),
    failed: ({ _tag }) => void learned.push(["failed", _tag]),
    retrying: ({ attempt, delayMs, next }) =>
      Effect.sync(() => void learned.push(["retrying", attempt, delayMs > 0, next.model])),
    shorten: Effect.tap(shorten, (isShorter) => Effect.sync(() => void learned.push(["shortened", isShorter])))
  }
  return { learned, listener }
}

describe("Asker", () => {
  it.effect("says that no provider of the models is configured, which no retry helps", () =>
    Effect.gen(function* () {
      const asker = yield* Asker
      const error = yield* Effect.flip(asker.begin({ ...subject, models: ["gpt", "other/gpt"] }, silent))
      assert.deepInclude(error.reason, { _tag: "model_unavailable", isRetryable: false })
      assert.include(error.message, "No provider of gpt, other/gpt is configured")
    }).pipe(provide([]))
  )

  it.effect("says of a refused key that it is refused, and records it, as long as no other one is free", () =>
    Effect.gen(function* () {
      const asker = yield* Asker
      const recorded: Array<BlockedRecord> = []
      const looking = { ...subject, looks: new Looks((record) => void recorded.push(record)) }
      const asking = yield* asker.begin(looking, silent)
      const first = yield* Effect.flip(asking.ask(() => Effect.succeed(question)))
      assert.deepInclude(first, { code: "provider_auth" })
      yield* TestClock.adjust("1 minute")
      const next = yield* Effect.flip(asker.begin(looking, silent))
      assert.deepInclude(next, { code: "provider_auth", isRetryable: false })
      assert.strictEqual(
        next.message,
        `No credential is free for ${model}: scripted-1 is blocked for auth since 1970-01-01T00:00:00.000Z, until 1970-01-01T00:10:00.000Z. ` +
          "To end this at once: bowline credentials clear scripted-1"
      )
      assert.deepInclude(next.reason, { retryAfterMs: 540_000 })
      // The look behind the attempt, whose own key was the only one, is not worth a record.
      const binding = { credential: "scripted-1", reason: "auth", since: 0, until: 600_000, leftMs: 540_000 }
      assert.deepStrictEqual(recorded, [{ type: "blocked", model, look: 2, binding }])
      yield* TestClock.adjust("9 minutes")
      assert.strictEqual((yield* asker.begin(looking, silent)).target().credential.id, "scripted-1")
    }).pipe(provide([[error(401)]]))
  )

  it.effect("blocks neither key nor model for a request that is refused without a code behind a success", () =>
    Effect.gen(function* () {
      const asker = yield* Asker
      const recorded: Array<string | undefined> = []
      const listener: Listener = { ...silent, recorded: ({ failure }) => void recorded.push(failure?._tag) }
      const ask = Effect.flatMap(asker.begin(subject, listener), ({ ask }) => ask(() => Effect.succeed(question)))
      yield* ask
      for (const code of ["provider_bad_request", "provider_model_unavailable", "provider_bad_request"]) {
        assert.deepInclude(yield* Effect.flip(ask), { code, isRetryable: false })
      }
      assert.strictEqual((yield* ask).text, "again")
      yield* TestClock.adjust("11 minutes")
      assert.deepInclude(yield* Effect.flip(ask), { code: "provider_auth" })
      assert.deepInclude(yield* Effect.flip(ask), { code: "provider_auth" })
      // As they were judged: what its key did before is not on record.
      assert.deepStrictEqual(recorded, [
        undefined,
        "bad_request",
        "model_unavailable",
        "bad_request",
        undefined,
        "auth"
      ])
    }).pipe(
      provide([
        [say("one")],
        [error(403, { message: "Request blocked" })],
        [error(403, { message: "Not for this model" })],
        [error(400, { message: "The tool 'stripe_list_billing_meters' is defined twice" })],
        [say("again")],
        [error(403, { message: "Request blocked" })]
      ])
    )
  )

  it.effect("gives one whole answer out of several attempts, and lets its listener know what each of them does", () =>
    Effect.gen(function* () {
      const { learned, listener } = listening()
      const asking = yield* (yield* Asker).begin(subject, listener)
      const asked = yield* Effect.forkChild(asking.ask(() => Effect.succeed(question)))
      yield* TestClock.adjust("1 minute")
      const { calls, finish, parts, text, usage } = yield* Fiber.join(asked)
      assert.deepStrictEqual([finish, text, usage?.input_tokens], ["tool_calls", "It is ", 7])
      assert.deepStrictEqual(
        [parts.map(({ type }) => type), calls.map(({ at, name }) => [at, name])],
        [["reasoning", "text"], [[2, "look"]]]
      )
      assert.deepStrictEqual(learned, [
        ["used", 1, 5],
        ["ended"],
        ["failed", "server_error"],
        ["retrying", 1, true, model],
        ["said", 2, "It is "],
        ["used", 2, 7],
        ["ended"]
      ])
    }).pipe(
      provide([
        [usage({ input_tokens: 5 }), errorChunk({ message: "boom", code: 500 })],
        [think("hm"), say("It is "), callTool("look", {}), usage({ input_tokens: 7 })]
      ])
    )
  )

  it.effect("numbers its attempts on behind those of another process, and shares the retries among its answers", () =>
    Effect.gen(function* () {
      const { learned, listener } = listening()
      const asking = yield* (yield* Asker).begin(subject, listener, 2)
      const ask = asking.ask(() => Effect.succeed(question))
      const asked = yield* Effect.forkChild(Effect.result(Effect.andThen(ask, ask)))
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* Fiber.join(asked), { _tag: "Failure" })
      const numbers = learned.flatMap(([what, attempt]) => (what === "said" || what === "retrying" ? [attempt] : []))
      assert.deepStrictEqual(numbers, [3, 4, 5, 6])
    }).pipe(provide([[error(500)], [say("one")], [error(500)], [error(500)], [error(500)]]))
  )

  it.effect("gives a fallback model all its retries, however many the first model has used up", () =>
    Effect.gen(function* () {
      const { learned, listener } = listening()
      const models = [model, "scripted/other"]
      const asking = yield* (yield* Asker).begin({ ...subject, models }, listener)
      const asked = yield* Effect.forkChild(Effect.result(asking.ask(() => Effect.succeed(question))))
      yield* TestClock.adjust("5 minutes")
      assert.deepInclude(yield* Fiber.join(asked), { _tag: "Failure" })
      const waits = learned.flatMap(([what, , waits, next]) => (what === "retrying" ? [[next, waits]] : []))
      const retries = (next: string) => Array.from({ length: 3 }, () => [next, true])
      assert.deepStrictEqual(waits, [...retries(model), ["scripted/other", false], ...retries("scripted/other")])
    }).pipe(provide(() => [error(500)]))
  )

  it.effect("gives a fallback model its one retry after silence, though the first model has used up its own", () =>
    Effect.gen(function* () {
      const { learned, listener } = listening()
      const models = [model, "scripted/other"]
      const asking = yield* (yield* Asker).begin({ ...subject, models, endsAt: Infinity }, listener)
      const asked = yield* Effect.forkChild(Effect.result(asking.ask(() => Effect.succeed(question))))
      yield* TestClock.adjust("1 hour")
      assert.deepInclude(yield* Fiber.join(asked), { _tag: "Failure" })
      const targets = learned.flatMap(([what, , , next]) => (what === "retrying" ? [next] : []))
      assert.deepStrictEqual(targets, [model, "scripted/other", "scripted/other"])
    }).pipe(provide(() => [stall]))
  )

  it.effect("asks a question that was refused as too long once more, if it can be made shorter", () =>
    Effect.gen(function* () {
      const { learned, listener } = listening(Effect.succeed(true))
      const asking = yield* (yield* Asker).begin(subject, listener)
      const failure = yield* Effect.flip(asking.ask(() => Effect.succeed(question)))
      assert.deepInclude(failure, { code: "context_overflow" })
      assert.deepStrictEqual(learned, [
        ["ended"],
        ["failed", "context_overflow"],
        ["shortened", true],
        ["retrying", 1, false, model],
        ["ended"],
        ["failed", "context_overflow"]
      ])
    }).pipe(provide(() => [error(400, { code: "context_length_exceeded" })]))
  )
})
