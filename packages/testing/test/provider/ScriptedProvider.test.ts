import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Move from "../../src/http/Move.ts"
import { providerCases, shown } from "../../src/provider/ProviderCases.ts"
import { ScriptedProvider } from "../../src/provider/ScriptedProvider.ts"
import * as Turn from "../../src/provider/Turn.ts"

const request = (fields?: Partial<ProviderRequest>): ProviderRequest => ({
  model: "m",
  system: "s",
  messages: [{ role: "user", parts: [{ type: "text", text: "What now?" }] }],
  tools: [],
  toolChoice: "auto",
  ...fields
})

const attempt = Effect.fnUntraced(function* (asked: ProviderRequest) {
  const { stream } = yield* Provider
  const parts: Array<ProviderPart> = []
  const exit = yield* Effect.result(
    Stream.runForEach(stream(asked), (part) => Effect.sync(() => void parts.push(part)))
  )
  return { parts, failure: exit._tag === "Failure" ? exit.failure.reason : undefined }
})

describe("ScriptedProvider", () => {
  for (const { title, turn, parts, failure } of providerCases) {
    it.effect(title, () =>
      Effect.gen(function* () {
        const seen = yield* attempt(request())
        assert.deepStrictEqual(shown(seen.parts), parts)
        assert.strictEqual(seen.failure?._tag, failure)
      }).pipe(Effect.provide(ScriptedProvider.layer([turn])))
    )
  }

  it.effect("waits in virtual time, and sees who disconnects meanwhile", () =>
    Effect.gen(function* () {
      const { asked } = yield* ScriptedProvider
      const done = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("1 hour")
      assert.isUndefined((yield* Fiber.join(done)).failure)
      const stalled = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("10 hours")
      assert.strictEqual(yield* asked.open, 1)
      yield* Fiber.interrupt(stalled)
      const requests = yield* asked.all
      assert.deepStrictEqual(yield* Effect.forEach(requests, ({ ended }) => ended), ["finished", "interrupted"])
    }).pipe(
      Effect.provide(
        ScriptedProvider.layer([
          [Move.wait("1 hour"), Turn.say("late")],
          [Turn.say("a"), Move.stall]
        ])
      )
    )
  )

  it.effect("does not wait for a provider that has finished, and stalls", () =>
    Effect.gen(function* () {
      const done = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("1 second")
      assert.deepInclude((yield* Fiber.join(done)).parts.at(-1), { _tag: "Finished" })
    }).pipe(Effect.provide(ScriptedProvider.layer([[Turn.say("a"), Turn.finish("stop"), Move.stall]])))
  )

  it.effect("refuses a request too many, and names it", () =>
    Effect.gen(function* () {
      yield* attempt(request())
      const { failure } = yield* attempt(request())
      assert.deepInclude(failure, {
        _tag: "bad_request",
        message: "The script has no turn for request 2: What now?"
      })
    }).pipe(Effect.provide(ScriptedProvider.layer([[Turn.say("a")]])))
  )
})
