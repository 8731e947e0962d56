import {
  Auth,
  FirstTokenTimeout,
  ModelUnavailable,
  type ProviderErrorReason,
  RateLimited,
  ServerError
} from "@bowline/domain/provider/ProviderError"
import { SessionId } from "@bowline/domain/session/Session"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { CredentialPool } from "../../src/asking/CredentialPool.ts"
import * as MemoryCredentialStore from "../../src/memory/MemoryCredentialStore.ts"
import * as NamedModels from "../../src/config/NamedModels.ts"
import { Provider } from "../../src/provider/Provider.ts"
import { Providers } from "../../src/provider/Providers.ts"
import { CredentialStore } from "../../src/store/CredentialStore.ts"

const message = "It failed"
const model = "scripted/a"
/** One letter names a session. */
const session = (name: string) => SessionId.make(`session_${name.repeat(36)}`)

const adapter = ScriptedProvider.layerProvider([])
const store = MemoryCredentialStore.layer

/** The adapter of a key. What it makes of the key here is no digest. */
const adapterOf = (key: string) =>
  Layer.effect(
    Provider,
    Effect.map(Provider, (provider) => ({ ...provider, keyDigest: (salt: string) => `${salt} ${key}` }))
  ).pipe(Layer.provide(adapter))

const replicaOf = (adapters: ReadonlyArray<Layer.Layer<Provider>>) =>
  Layer.fresh(CredentialPool.layer).pipe(Layer.provide(Providers.layer(adapters)))

/** A pool of this many credentials: one replica. */
const replica = (size: number) => replicaOf(Array.from({ length: size }, () => adapter))

/** A pool with these keys. */
const keyed = (...keys: ReadonlyArray<string>) => Layer.build(replicaOf(keys.map(adapterOf)))

const withCredentials = (size: number) => Effect.provide(Layer.provide(replica(size), store))

interface Wanted {
  readonly model?: string
  readonly avoid?: ReadonlyArray<string>
}

/** The id that is picked, or how long nothing is free. */
const pick = Effect.fnUntraced(function* (name: string, wanted: Wanted = {}) {
  const pool = yield* CredentialPool
  const picked = yield* pool.pick({
    provider: "scripted",
    model: wanted.model ?? model,
    session: session(name),
    avoid: new Set(wanted.avoid)
  })
  return picked._tag === "Picked" ? picked.credential.id : (picked.binding?.leftMs ?? 0)
})

const fail = Effect.fnUntraced(function* (credential: string, reason: ProviderErrorReason, on: string = model) {
  yield* (yield* CredentialPool).failed({ provider: "scripted", credential, model: on, reason, stage: "provider" })
})

const succeed = Effect.fnUntraced(function* (credential: string) {
  yield* (yield* CredentialPool).succeeded({ provider: "scripted", credential, model })
})

const stateOf = Effect.fnUntraced(function* (id: string) {
  const credential = (yield* (yield* CredentialPool).list).find((credential) => credential.id === id)
  return { state: credential?.state, windows: credential?.windows.map(({ model, reason }) => [model, reason]) }
})

const judge = Effect.fnUntraced(function* (credential: string, reason: ProviderErrorReason) {
  return yield* (yield* CredentialPool).judge({ provider: "scripted", credential, model }, reason)
})

const auth = new Auth({ message })
const unexplained = new Auth({ message, isUnexplained: true })
const rateLimited = new RateLimited({ message })

describe("CredentialPool", () => {
  it.effect("spreads new sessions over the credentials, by order and then by last use, and keeps each on its own", () =>
    Effect.gen(function* () {
      const names = ["a", "b", "c", "d"]
      const first = yield* Effect.forEach(names, (name) => pick(name), { concurrency: "unbounded" })
      assert.deepStrictEqual(first, ["scripted-1", "scripted-2", "scripted-3", "scripted-1"])
      yield* TestClock.adjust("1 minute")
      yield* succeed("scripted-2")
      assert.deepStrictEqual(yield* Effect.forEach(names, (name) => pick(name)), first)
      assert.deepStrictEqual(yield* Effect.forEach(["e", "f", "0"], (name) => pick(name)), [
        "scripted-3",
        "scripted-1",
        "scripted-2"
      ])
    }).pipe(withCredentials(3))
  )

  it.effect("leaves a credential alone for as long as its window runs, for that model or as a whole", () =>
    Effect.gen(function* () {
      yield* pick("a")
      yield* fail("scripted-1", rateLimited)
      assert.strictEqual(yield* pick("a", { model: "scripted/b" }), "scripted-1")
      assert.strictEqual(yield* pick("a"), "scripted-2")
      yield* fail("scripted-2", auth)
      assert.strictEqual(yield* pick("a"), 30_000)
      assert.strictEqual(yield* pick("b", { model: "scripted/b" }), "scripted-1")
      assert.deepStrictEqual(yield* stateOf("scripted-1"), { state: "cooldown", windows: [[model, "rate_limited"]] })
      assert.deepStrictEqual(yield* stateOf("scripted-2"), { state: "out", windows: [[null, "auth"]] })
      yield* TestClock.adjust("29999 millis")
      assert.strictEqual(yield* pick("a"), 1)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(yield* pick("a"), "scripted-1")
      assert.deepStrictEqual(yield* stateOf("scripted-1"), { state: "ok", windows: [] })
    }).pipe(withCredentials(2))
  )

  it.effect("lets no other failure extend or shorten a window, and makes the next one longer", () =>
    Effect.gen(function* () {
      for (const seconds of [30, 60, 300, 300]) {
        yield* fail("scripted-1", rateLimited)
        yield* fail("scripted-1", new FirstTokenTimeout({ message }))
        yield* fail("scripted-1", new RateLimited({ message, retryAfterMs: 3_600_000 }))
        yield* fail("scripted-1", new RateLimited({ message, retryAfterMs: 1 }))
        assert.strictEqual(yield* pick("a"), seconds * 1_000)
        yield* TestClock.adjust(seconds * 1_000)
      }
      assert.strictEqual(yield* pick("a"), "scripted-1")
    }).pipe(withCredentials(1))
  )

  it.effect("counts from the start after a success, which does not end a running window", () =>
    Effect.gen(function* () {
      yield* fail("scripted-1", rateLimited)
      yield* TestClock.adjust("30 seconds")
      yield* fail("scripted-1", rateLimited)
      yield* succeed("scripted-1")
      assert.strictEqual(yield* pick("a"), 60_000)
      yield* TestClock.adjust("1 minute")
      yield* fail("scripted-1", rateLimited)
      assert.strictEqual(yield* pick("a"), 30_000)
    }).pipe(withCredentials(1))
  )

  it.effect(
    "blames no credential for what is not its fault, and skips a missing model on all of them until one is cleared",
    () =>
      Effect.gen(function* () {
        yield* fail("scripted-1", new ServerError({ message }))
        assert.strictEqual(yield* pick("a"), "scripted-1")
        yield* fail("scripted-1", new ModelUnavailable({ message }))
        assert.strictEqual(yield* pick("a"), 300_000)
        const missing = { state: "ok" as const, windows: [[model, "model_unavailable"]] }
        assert.deepStrictEqual(yield* stateOf("scripted-1"), missing)
        assert.deepStrictEqual(yield* stateOf("scripted-2"), missing)
        assert.strictEqual(yield* pick("a", { model: "scripted/b" }), "scripted-1")
        yield* (yield* CredentialPool).clear("scripted-2")
        assert.strictEqual(yield* pick("a"), "scripted-1")
      }).pipe(withCredentials(2))
  )

  it.effect("picks nothing that is to be avoided, and tells the soonest time when one is free", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* pick("a", { avoid: ["scripted-1"] }), "scripted-2")
      assert.strictEqual(yield* pick("a"), "scripted-1")
      assert.strictEqual(yield* pick("a", { avoid: ["scripted-1", "scripted-2"] }), 0)
      yield* fail("scripted-1", auth)
      yield* fail("scripted-2", new RateLimited({ message, retryAfterMs: 45_000 }))
      assert.strictEqual(yield* pick("a", { avoid: ["scripted-2"] }), 45_000)
      const pool = yield* CredentialPool
      assert.deepStrictEqual(
        yield* pool.pick({ provider: "other", model: "other/x", session: session("a"), avoid: new Set() }),
        { _tag: "Exhausted", binding: undefined, isTried: false }
      )
    }).pipe(withCredentials(2))
  )

  it.effect("resets what an operator clears, by the ids that are configured", () =>
    Effect.gen(function* () {
      const pool = yield* CredentialPool
      yield* fail("scripted-1", auth)
      yield* fail("scripted-1", rateLimited)
      assert.deepInclude(yield* pool.clear("scripted-1"), { id: "scripted-1", state: "ok", windows: [] })
      assert.strictEqual(yield* pick("a"), "scripted-1")
      yield* fail("scripted-1", auth)
      assert.strictEqual(yield* pick("a"), 600_000)
      assert.strictEqual((yield* Effect.flip(pool.clear("scripted-2")))._tag, "NotFound")
    }).pipe(withCredentials(1))
  )

  it.effect("sees at its next choice what another replica has met", () =>
    Effect.gen(function* () {
      const [here, there] = [yield* Layer.build(replica(2)), yield* Layer.build(replica(2))]
      assert.strictEqual(yield* Effect.provide(pick("a"), here), "scripted-1")
      yield* Effect.provide(fail("scripted-1", rateLimited), there)
      yield* Effect.provide(fail("scripted-1", auth), there)
      assert.strictEqual(yield* Effect.provide(pick("a"), here), "scripted-2")
      assert.strictEqual(yield* Effect.provide(pick("a"), there), "scripted-2")
      yield* TestClock.adjust("10 minutes")
      yield* Effect.provide(pick("b"), here)
      yield* Effect.provide(succeed("scripted-1"), here)
      yield* Effect.provide(fail("scripted-1", auth), there)
      yield* Effect.provide(fail("scripted-2", auth), there)
      assert.strictEqual(yield* Effect.provide(pick("b"), here), 600_000)
    }).pipe(Effect.provide(store))
  )

  it.effect(
    "begins without a window with another key under the same id, also on other replicas and after a restart",
    () =>
      Effect.gen(function* () {
        const [wrong, other] = [yield* keyed("wrong", "second"), yield* keyed("wrong", "second")]
        yield* Effect.provide(fail("scripted-1", auth), wrong)
        yield* Effect.provide(fail("scripted-2", rateLimited), wrong)
        for (const replica of [wrong, other, yield* keyed("wrong", "second")]) {
          assert.strictEqual(yield* Effect.provide(pick("a"), replica), 30_000)
        }
        for (const corrected of [yield* keyed("right", "second"), yield* keyed("right", "second")]) {
          assert.strictEqual(yield* Effect.provide(pick("b"), corrected), "scripted-1")
          const { state } = yield* Effect.provide(stateOf("scripted-1"), corrected)
          assert.strictEqual(state, "ok")
          assert.strictEqual((yield* Effect.provide(stateOf("scripted-2"), corrected)).state, "cooldown")
        }
        assert.strictEqual(yield* Effect.provide(pick("a"), other), 30_000)
      }).pipe(Effect.provide(store))
  )

  it.effect("does not count the failures and the successes of the key before", () =>
    Effect.gen(function* () {
      const former = yield* keyed("former")
      yield* Effect.provide(succeed("scripted-1"), former)
      yield* Effect.provide(fail("scripted-1", auth), former)
      yield* TestClock.adjust("10 seconds")
      const next = yield* keyed("next")
      const reason = yield* Effect.provide(judge("scripted-1", unexplained), next)
      assert.strictEqual(reason._tag, "auth")
      yield* Effect.provide(fail("scripted-1", auth), next)
      assert.strictEqual(yield* Effect.provide(pick("a"), next), 600_000)
      yield* TestClock.adjust("10 minutes")
      yield* Effect.provide(fail("scripted-1", auth), next)
      assert.strictEqual(yield* Effect.provide(pick("a"), next), 1_200_000)
    }).pipe(Effect.provide(store))
  )

  it.effect("skips no missing model any more once a key of its provider is another one", () =>
    Effect.gen(function* () {
      yield* Effect.provide(fail("scripted-1", new ModelUnavailable({ message })), yield* keyed("one", "two"))
      assert.strictEqual(yield* Effect.provide(pick("a"), yield* keyed("one", "two")), 300_000)
      assert.strictEqual(yield* Effect.provide(pick("a"), yield* keyed("one", "other")), "scripted-1")
    }).pipe(Effect.provide(store))
  )

  it.effect("stores a digest of a key, which is another one for each credential", () =>
    Effect.gen(function* () {
      const pool = yield* keyed("same", "same")
      for (const id of ["scripted-1", "scripted-2"]) yield* Effect.provide(fail(id, auth), pool)
      const rows = yield* (yield* CredentialStore).list
      assert.strictEqual(new Set(rows.map(({ key }) => key)).size, 2)
    }).pipe(Effect.provide(store))
  )

  it.effect(
    "blames the request for a refusal without a code, if the key was good less than 10 min ago on any replica",
    () =>
      Effect.gen(function* () {
        const [here, there] = [yield* keyed("one", "two"), yield* keyed("one", "two")]
        assert.strictEqual((yield* Effect.provide(judge("scripted-1", unexplained), here))._tag, "auth")
        yield* Effect.provide(succeed("scripted-1"), there)
        yield* TestClock.adjust("599 seconds")
        for (const replica of [here, there]) {
          assert.strictEqual((yield* Effect.provide(judge("scripted-1", unexplained), replica))._tag, "bad_request")
          assert.strictEqual((yield* Effect.provide(judge("scripted-2", unexplained), replica))._tag, "auth")
          assert.strictEqual((yield* Effect.provide(judge("scripted-1", auth), replica))._tag, "auth")
        }
        yield* TestClock.adjust("1 second")
        for (const replica of [here, there]) {
          assert.strictEqual((yield* Effect.provide(judge("scripted-1", unexplained), replica))._tag, "auth")
        }
      }).pipe(Effect.provide(store))
  )

  it.effect(
    "keeps the windows of models that nobody has configured in its own process, and leaves no row of them",
    () =>
      Effect.gen(function* () {
        const pool = yield* CredentialPool
        const rows = Effect.map((yield* CredentialStore).list, (all) => all.map(({ model }) => model))
        yield* fail("scripted-1", rateLimited, "scripted/any")
        for (let names = 0; names < 1_500; names++) {
          yield* fail("scripted-1", new ModelUnavailable({ message }), `scripted/any-${names}`)
        }
        yield* pool.succeeded({ provider: "scripted", credential: "scripted-1", model: "scripted/any-0" })
        assert.deepStrictEqual(yield* rows, [null])
        assert.isBelow((yield* stateOf("scripted-1")).windows?.length ?? 0, 1_001)
        assert.strictEqual(yield* pick("a", { model: "scripted/any-1499" }), 300_000)
        yield* fail("scripted-2", rateLimited, "scripted/any-x")
        assert.strictEqual(yield* pick("a", { model: "scripted/any-x" }), "scripted-1")
        yield* fail("scripted-1", rateLimited)
        assert.deepStrictEqual(yield* rows, [null, model])
        yield* fail("scripted-1", auth, "scripted/any")
        assert.strictEqual(yield* pick("b", { model: "scripted/other" }), "scripted-2")
        yield* pool.clear("scripted-1")
        assert.deepStrictEqual(yield* stateOf("scripted-1"), { state: "ok", windows: [] })
      }).pipe(
        Effect.provide(Layer.provideMerge(replica(2), store).pipe(Layer.provide(NamedModels.layer(new Set([model])))))
      )
  )
})
