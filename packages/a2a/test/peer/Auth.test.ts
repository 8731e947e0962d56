import { assert, describe, it } from "@effect/vitest"
import { CallerName } from "@bowline/domain/caller/CallerName"
import { CallerTokens, OnBehalfOf } from "@bowline/runtime/unstable/auth/CallerTokens"
import { EnvironmentSecrets } from "@bowline/runtime/config/EnvironmentSecrets"
import { json } from "@bowline/testing/http/Host"
import { Network } from "@bowline/testing/http/Network"
import { completes, works } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { Effect, Fiber, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as Base58 from "../../src/identity/Base58.ts"
import * as Ed25519 from "../../src/identity/Ed25519.ts"
import { GatewayIdentity } from "@bowline/runtime/auth/GatewayIdentity"
import * as BinduIdentity from "../../src/identity/BinduIdentity.ts"
import { memory, openTask, question, reasonOf, start } from "./call.ts"

const secrets = Layer.succeed(EnvironmentSecrets, {
  isAllowed: (name: string) => name !== "FORBIDDEN",
  get: (name: string) => Effect.succeed(name === "TOKEN" ? Option.some(Redacted.make("s3cret")) : Option.none())
})

it.effect("a token comes from the variable that is named, and is in no event", () =>
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

describe("did_signed", () => {
  const seed = Redacted.make(new Uint8Array(32).fill(7))
  const identity = BinduIdentity.fromSeed({ seed, author: "ops@example.com", name: "gateway" })
  const signing = memory.pipe(Layer.provide([secrets, Layer.succeed(GatewayIdentity, Option.some(identity))]))

  it.effect("signs the bytes of every request that it sends, at the time when it sends it", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(1_700_000_000_500)
      const peer = yield* serve({ acts: [works("1 second"), completes()] })
      const call = question(peer.url, { auth: { type: "did_signed" } }, { input: { input: "Où est le nœud? 🪢" } })
      const { fiber } = yield* start(call)
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      const requests = yield* peer.requests.all
      assert.isAbove(requests.length, 2)
      const { publicKey } = Ed25519.fromSeed(seed)
      for (const { body, headers } of requests) {
        assert.strictEqual(headers["x-did"], identity.did)
        assert.notProperty(headers, "authorization")
        const timestamp = Number(headers["x-did-timestamp"])
        const signature = Option.getOrThrow(Base58.decode(headers["x-did-signature"] ?? "", 64))
        assert.isTrue(
          Ed25519.isSignedBy(publicKey, BinduIdentity.pythonJson({ body, did: identity.did, timestamp }), signature)
        )
      }
      assert.strictEqual(requests[0]?.headers["x-did-timestamp"], "1700000000")
      assert.strictEqual(requests.at(-1)?.headers["x-did-timestamp"], "1700000001")
    }).pipe(Effect.provide(signing))
  )

  it.effect("sends a token besides, if its variable is named", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ token: "s3cret", acts: [completes()] })
      const { fiber } = yield* start(question(peer.url, { auth: { type: "did_signed", token_env_var: "TOKEN" } }))
      assert.strictEqual((yield* Fiber.join(fiber)).state, "completed")
      const auth = { type: "did_signed", token_env_var: "MISSING" } as const
      assert.include((yield* reasonOf(yield* start(question(peer.url, { auth })))).message, "MISSING is not set")
    }).pipe(Effect.provide(signing))
  )

  it.effect("names the variable that is missing on a gateway without an identity, and sends nothing", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [completes()] })
      const reason = yield* reasonOf(
        yield* start(question(peer.url, { dialect: "auto", auth: { type: "did_signed" } }))
      )
      assert.strictEqual(reason._tag, "auth")
      assert.include(reason.message, "BOWLINE_DID_SEED (identity.seed in the file)")
      assert.deepStrictEqual(yield* peer.requests.all, [])
    }).pipe(Effect.provide(memory))
  )
})

describe("oauth2_client_credentials", () => {
  const tokenEndpoint = Effect.gen(function* () {
    const network = yield* Network
    let count = 0
    return yield* network.serve(() =>
      Effect.sync(() => json(200, { access_token: `token-${++count}`, token_type: "bearer", expires_in: 3_600 }))
    )
  })
  const granted = (url: string, client_secret_env_var = "TOKEN") =>
    ({ type: "oauth2_client_credentials", token_url: `${url}/token`, client_id: "us", client_secret_env_var }) as const

  it.effect("asks with a token of the token endpoint's, and shows neither it nor the secret", () =>
    Effect.gen(function* () {
      const issuer = yield* tokenEndpoint
      const peer = yield* serve({ token: "token-1", acts: [completes("token-1 and s3cret")] })
      const { events, fiber } = yield* start(question(peer.url, { auth: granted(issuer.url) }))
      const { content, state } = yield* Fiber.join(fiber)
      assert.strictEqual(state, "completed")
      assert.notInclude(content + JSON.stringify(events), "token-1")
      for (const { body, headers } of yield* peer.requests.all) {
        assert.notInclude(body + JSON.stringify(headers), "s3cret")
      }
    }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
  )

  it.effect("renews a refused token once for all calls that were refused with it", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const issuer = yield* tokenEndpoint
      const result = { kind: "message", role: "agent", parts: [] }
      let refusals = 0
      const peer = yield* network.serve(({ headers }) =>
        headers["authorization"] === "Bearer token-2"
          ? Effect.succeed(json(200, { result }))
          : Effect.delay(Effect.succeed(json(401, {})), `${++refusals} seconds`)
      )
      const ask = start(question(peer.url, { auth: granted(issuer.url) }))
      const calls = yield* Effect.all([ask, ask, ask])
      // By the time of the second refusal the first call is over: there is a new token.
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(calls[0].fiber)).state, "completed")
      yield* TestClock.adjust("2 seconds")
      for (const { fiber } of calls) assert.strictEqual((yield* Fiber.join(fiber)).state, "completed")
      assert.deepStrictEqual([refusals, (yield* issuer.requests.all).length], [3, 2])
    }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
  )

  it.effect(
    "sends no message once its call is interrupted: neither when its first token comes, nor with a new one",
    () =>
      Effect.gen(function* () {
        const network = yield* Network
        const issuer = yield* network.serve(() =>
          Effect.delay(Effect.succeed(json(200, { access_token: "token", token_type: "bearer" })), "1 second")
        )
        const peer = yield* network.serve(() => Effect.delay(Effect.succeed(json(401, {})), "1 second"))
        for (const [before, sent] of [
          ["500 millis", 0],
          ["1500 millis", 1]
        ] as const) {
          const { fiber } = yield* start(question(peer.url, { auth: granted(issuer.url) }))
          yield* TestClock.adjust(before)
          yield* Fiber.interrupt(fiber)
          yield* TestClock.adjust("10 seconds")
          assert.lengthOf(yield* peer.requests.all, sent)
        }
      }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
  )

  it.effect("ends as auth when the new token is refused, too", () =>
    Effect.gen(function* () {
      const issuer = yield* tokenEndpoint
      const peer = yield* serve({ token: "never", acts: [completes()] })
      const reason = yield* reasonOf(yield* start(question(peer.url, { auth: granted(issuer.url) })))
      assert.deepInclude(reason, { _tag: "auth", status: 401 })
      assert.lengthOf(yield* issuer.requests.all, 2)
      assert.lengthOf(yield* peer.requests.all, 2)
    }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
  )

  it.effect("sends nothing, to nobody, without its secret", () =>
    Effect.gen(function* () {
      const issuer = yield* tokenEndpoint
      const peer = yield* serve({ acts: [completes()] })
      const auth = granted(issuer.url, "FORBIDDEN")
      const reason = yield* reasonOf(yield* start(question(peer.url, { dialect: "auto", auth })))
      assert.include(reason.message, "FORBIDDEN is not on the list")
      assert.deepStrictEqual([...(yield* issuer.requests.all), ...(yield* peer.requests.all)], [])
    }).pipe(Effect.provide(memory.pipe(Layer.provide(secrets))))
  )
})

describe("token_exchange", () => {
  let isThere = true
  const tokens = Layer.succeed(CallerTokens, {
    areKept: true,
    keep: () => Effect.succeed(true),
    newest: () =>
      Effect.sync(() => {
        const found = isThere ? Option.some(Redacted.make("of.the.caller")) : Option.none()
        isThere = true
        return found
      }),
    lookAgain: () => Effect.void,
    tell: () => Effect.void,
    tellLeft: Effect.void
  })

  it.effect("leaves a task alone that lacks a token for a moment, and asks for it when the call is resumed", () =>
    Effect.gen(function* () {
      const given = () => Effect.succeed(json(200, { access_token: "t", token_type: "Bearer", expires_in: 5 }))
      const { url } = yield* (yield* Network).serve(given)
      const auth = { type: "token_exchange", token_url: `${url}/token` } as const
      const peer = yield* serve({ acts: [works("60 seconds"), completes("paid")] })
      const before = yield* start(question(peer.url, { auth }))
      yield* TestClock.adjust("10 seconds")
      isThere = false
      yield* TestClock.adjust("30 seconds")
      assert.deepInclude(yield* reasonOf(before), { _tag: "account_required", account: null })
      const { fiber } = yield* start(question(peer.url, { auth }, { resumes: openTask(before) }))
      yield* TestClock.adjust("2 minutes")
      assert.deepInclude(yield* Fiber.join(fiber), { state: "completed", content: "paid" })
      const { cancels, sends } = yield* peer.seen
      assert.deepStrictEqual([sends.length, cancels.length], [1, 0])
    }).pipe(
      Effect.provideService(OnBehalfOf, CallerName.make("corp:alice")),
      Effect.provide(memory.pipe(Layer.provide(tokens)))
    )
  )
})
