import { CallerName } from "@bowline/domain/caller/CallerName"
import { StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { KeyId } from "@bowline/domain/unstable/caller/IssuedKey"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { fromEnvironment, GatewayConfig } from "../../src/config/GatewayConfig.ts"
import { KnownCallers, newKey, storedDigest } from "../../src/http/KnownCallers.ts"

/** KnownCallers over a store that counts how often it is asked, and that may be away. */
const make = Effect.gen(function* () {
  const stores = yield* Layer.build(MemoryStore.layer)
  const store = Context.get(stores, KeyStore)
  const asked = { times: 0, isAway: false }
  const away = new StorageError({ reason: new Unavailable({ cause: "away" }) })
  const counted = KeyStore.of({
    ...store,
    find: (...given) =>
      Effect.suspend(() => {
        asked.times++
        return asked.isAway ? Effect.fail(away) : store.find(...given)
      })
  })
  const config = yield* fromEnvironment({ BOWLINE_API_KEYS: "root=key-of-root", OPENAI_API_KEY: "x" }, false)
  const callers = yield* Layer.build(KnownCallers.layer).pipe(
    Effect.provideContext(
      Context.make(KeyStore, counted).pipe(
        Context.add(Notices, Context.get(stores, Notices)),
        Context.add(GatewayConfig, config)
      )
    )
  )
  const key = newKey()
  const id = KeyId.make(`key_${"0".repeat(36)}`)
  const [name, root] = [CallerName.make("eve"), CallerName.make("root")]
  const facts = { admin: false, note: null, created_by: root, created_at: fromMillis(0) }
  yield* store.add({ ...facts, key_id: id, name, digest: storedDigest(key), expires_at: fromMillis(60_000) })
  const find = (wanted = key) =>
    Effect.map(Context.get(callers, KnownCallers).find(wanted), (found) => Option.getOrUndefined(found)?.name)
  return { asked, find, key, notices: Context.get(stores, Notices), revoke: store.revoke(id) }
})

it.effect("a key is looked up again after half a second, so that one whose end nobody has heard of is refused", () =>
  Effect.gen(function* () {
    const { asked, find, revoke } = yield* make
    assert.strictEqual(yield* find(), "eve")
    yield* revoke
    yield* TestClock.adjust("499 millis")
    assert.deepStrictEqual([yield* find(), asked.times], ["eve", 1])
    yield* TestClock.adjust("1 millis")
    assert.deepStrictEqual([yield* find(), asked.times], [undefined, 2])
  })
)

it.effect("a key is looked up again at once when somebody says that keys have changed", () =>
  Effect.gen(function* () {
    const { find, notices, revoke } = yield* make
    assert.strictEqual(yield* find(), "eve")
    yield* Effect.andThen(revoke, notices.publish([{ _tag: "KeysChanged" }]))
    assert.strictEqual(yield* find(), undefined)
  })
)

it.effect("a key is refused as soon as its time is over, and a wrong one is never kept", () =>
  Effect.gen(function* () {
    const { asked, find } = yield* make
    const wrong = newKey()
    assert.deepStrictEqual([yield* find(wrong), yield* find(wrong), asked.times], [undefined, undefined, 2])
    assert.strictEqual(yield* find(Redacted.make("bw_short")), undefined)
    assert.strictEqual(asked.times, 2)
    yield* TestClock.adjust("59900 millis")
    assert.strictEqual(yield* find(), "eve")
    yield* TestClock.adjust("100 millis")
    assert.deepStrictEqual([yield* find(), asked.times], [undefined, 3])
  })
)

it.effect("while the store is away a key is good for half a second, and one of the configuration for ever", () =>
  Effect.gen(function* () {
    const { asked, find } = yield* make
    assert.strictEqual(yield* find(), "eve")
    asked.isAway = true
    assert.strictEqual(yield* find(), "eve")
    yield* TestClock.adjust("500 millis")
    assert.isTrue(Exit.isFailure(yield* Effect.exit(find())))
    assert.strictEqual(yield* find(Redacted.make("key-of-root")), "root")
    asked.isAway = false
    assert.strictEqual(yield* find(), "eve")
  })
)
