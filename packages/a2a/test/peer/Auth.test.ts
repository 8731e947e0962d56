import { assert, it } from "@effect/vitest"
import { EnvironmentSecrets } from "@bowline/runtime/peer/EnvironmentSecrets"
import { completes } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { Effect, Fiber, Layer, Option, Redacted } from "effect"
import { memory, question, reasonOf, start } from "./call.ts"

const secrets = Layer.succeed(EnvironmentSecrets, {
  isAllowed: (name: string) => name !== "FORBIDDEN",
  get: (name: string) => Effect.succeed(name === "TOKEN" ? Option.some(Redacted.make("s3cret")) : Option.none())
})

it.effect("a token comes from the variable that is named, and is not seen in what is told", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ token: "s3cret", acts: [completes()] })
    const { events, fiber } = yield* start(question(peer.url, { auth: { type: "bearer_env", env_var: "TOKEN" } }))
    assert.strictEqual((yield* Fiber.join(fiber)).state, "completed")
    assert.notInclude(JSON.stringify(events), "s3cret")
  }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
)

it.effect.each([
  ["MISSING", "is not set"],
  ["FORBIDDEN", "is not on the list"]
] as const)("a variable that is %s is named in the error before anything is sent", ([env_var, why]) =>
  Effect.gen(function* () {
    const peer = yield* serve({ acts: [completes()] })
    const reason = yield* reasonOf(
      yield* start(question(peer.url, { dialect: "auto", auth: { type: "bearer_env", env_var } }))
    )
    assert.strictEqual(reason._tag, "auth")
    assert.include(reason.message, `${env_var} ${why}`)
    assert.deepStrictEqual(yield* peer.requests.all, [])
  }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
)

it.effect("a peer that refuses the token ends the call as auth", () =>
  Effect.gen(function* () {
    const peer = yield* serve({ token: "s3cret", acts: [completes()] })
    const reason = yield* reasonOf(yield* start(question(peer.url, { auth: { type: "bearer", token: "other" } })))
    assert.strictEqual(reason._tag, "auth")
    assert.notInclude(reason.message, "other")
  }).pipe(Effect.provide(memory))
)
