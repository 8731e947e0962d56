import { CredentialStore, type WindowScope } from "@bowline/runtime/unstable/store/CredentialStore"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Duration, Effect } from "effect"
import assert from "node:assert/strict"
import * as Given from "../Given.ts"
import { LeaseTime, type StoreCase } from "../StoreCase.ts"

const model = "scripted/model"
const ladder = [10_000, 60_000] as const

/** A provider that nothing is known of, and its credentials. */
const newProvider = Effect.map(UuidGenerator, (uuid) => {
  const name = `provider ${uuid()}`
  return { name, one: `${name}-1`, two: `${name}-2` }
})

const advance = Effect.fnUntraced(function* (duration: Duration.Input) {
  yield* (yield* LeaseTime).advance(Duration.fromInputUnsafe(duration))
})

/** What is known of a scope, as far as it binds a choice for the model. */
const rowOf = Effect.fnUntraced(function* (scope: WindowScope) {
  const { new_session_id } = yield* Given.newPlan()
  const { rows } = yield* (yield* CredentialStore).read(scope.provider, model, new_session_id)
  return rows.find(({ credential, model }) => credential === scope.credential && model === scope.model)
})

/** Whether a window of about this length runs: the database's clock goes on meanwhile. */
const runs = Effect.fnUntraced(function* (scope: WindowScope, reason: string, durationMs: number) {
  const window = (yield* rowOf(scope))?.window
  assert(window !== null && window !== undefined)
  assert.equal(window.reason, reason)
  assert(window.leftMs <= durationMs && window.leftMs > durationMs - 5_000, `${window.leftMs} of ${durationMs}`)
})

export const credentialCases: ReadonlyArray<StoreCase> = [
  {
    title: "knows nothing of a credential that was never asked with",
    test: Effect.gen(function* () {
      const { name } = yield* newProvider
      const { session_id } = yield* Given.create()
      const found = yield* (yield* CredentialStore).read(name, model, session_id)
      assert.deepEqual(found, { rows: [], sticky: null })
    })
  },
  {
    title: "opens one window for many failures at once, which no later one extends or shortens",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scope = { provider: name, credential: one, model, key: null }
      const openings = Array.from({ length: 8 }, () => store.open(scope, "rate_limited", ladder))
      const opened = yield* Effect.all(openings, { concurrency: "unbounded" })
      assert.equal(opened.filter((isOpened) => isOpened).length, 1)
      const row = yield* rowOf(scope)
      assert.equal(row?.failures, 1)
      yield* runs(scope, "rate_limited", 10_000)
      yield* store.open(scope, "idle_timeout", [3_600_000])
      yield* store.open(scope, "idle_timeout", [1])
      assert.equal((yield* rowOf(scope))?.window?.until, row.window?.until)
      yield* runs(scope, "rate_limited", 10_000)
    })
  },
  {
    title: "makes each window longer than the one before, up to the longest, until a success",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one, two } = yield* newProvider
      const scope = { provider: name, credential: one, model, key: null }
      for (const duration of [10_000, 60_000, 60_000]) {
        yield* store.open(scope, "rate_limited", ladder)
        yield* runs(scope, "rate_limited", duration)
        yield* advance(duration)
        assert.equal((yield* rowOf(scope))?.window, null)
      }
      yield* store.succeed({ provider: name, credential: two, key: null }, model)
      yield* store.succeed({ provider: name, credential: one, key: null }, "scripted/other")
      assert.equal((yield* rowOf(scope))?.failures, 3)
      yield* store.succeed({ provider: name, credential: one, key: null }, model)
      assert.equal((yield* rowOf(scope))?.failures, 0)
      yield* store.open(scope, "rate_limited", ladder)
      yield* store.succeed({ provider: name, credential: one, key: null }, model)
      yield* runs(scope, "rate_limited", 10_000)
    })
  },
  {
    title: "counts the windows of a whole credential by their reason",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scope = { provider: name, credential: one, model: null, key: null }
      yield* store.open(scope, "auth", ladder)
      yield* advance("10 seconds")
      yield* store.open(scope, "auth", ladder)
      yield* runs(scope, "auth", 60_000)
      yield* advance("1 minute")
      yield* store.open(scope, "billing", [20_000, 30_000])
      yield* runs(scope, "billing", 20_000)
      yield* store.succeed({ provider: name, credential: one, key: null }, model)
      assert.equal((yield* rowOf(scope))?.failures, 0)
    })
  },
  {
    title: "tells for a model only what can bind it, and operators everything",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scopes = [
        { provider: name, credential: one, model, key: null },
        { provider: name, credential: one, model: null, key: null },
        { provider: name, credential: null, model, key: null },
        { provider: name, credential: one, model: "scripted/other", key: null },
        { provider: `${name}-1`, credential: null, model, key: null }
      ]
      for (const scope of scopes) yield* store.open(scope, "auth", ladder)
      const { new_session_id } = yield* Given.newPlan()
      const { rows } = yield* store.read(name, model, new_session_id)
      assert.equal(rows.length, 3)
      for (const scope of scopes.slice(0, 3)) yield* runs(scope, "auth", 10_000)
      assert.equal(yield* rowOf({ provider: name, credential: one, model: "scripted/other", key: null }), undefined)
      const all = (yield* store.list).filter(({ provider }) => provider.startsWith(name))
      assert.equal(all.length, 5)
    })
  },
  {
    title: "keeps each session to what was chosen for it last, and knows the order of use",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one, two } = yield* newProvider
      const [a, b] = [yield* Given.create(), yield* Given.create()]
      yield* store.choose(name, one, a.session_id)
      yield* advance("1 second")
      yield* store.choose(name, two, b.session_id)
      const used = Effect.map(
        Effect.all([one, two].map((credential) => rowOf({ provider: name, credential, model: null, key: null }))),
        (rows) => rows.map((row) => row?.lastUsed ?? 0)
      )
      const [first = 0, second = 0] = yield* used
      assert(first > 0 && first < second)
      yield* advance("1 second")
      yield* store.succeed({ provider: name, credential: one, key: null }, model)
      const [third = 0, fourth = 0] = yield* used
      assert(third > fourth)
      assert.equal((yield* store.read(name, model, a.session_id)).sticky, one)
      assert.equal((yield* store.read(name, model, b.session_id)).sticky, two)
      yield* store.choose(name, two, a.session_id)
      assert.equal((yield* store.read(name, model, a.session_id)).sticky, two)
      const other = yield* newProvider
      yield* store.succeed({ provider: other.name, credential: other.one, key: null }, model)
      assert.equal((yield* store.read(other.name, model, a.session_id)).sticky, null)
    })
  },
  {
    title: "ends all windows of a credential that is cleared, and of its provider, and of no other credential",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one, two } = yield* newProvider
      const kept = { provider: name, credential: two, model, key: null }
      const cleared = [
        { provider: name, credential: one, model, key: null },
        { provider: name, credential: one, model: null, key: null },
        { provider: name, credential: null, model, key: null }
      ]
      for (const scope of [...cleared, kept]) yield* store.open(scope, "rate_limited", ladder)
      yield* store.clear(name, one)
      for (const scope of cleared) {
        const row = yield* rowOf(scope)
        assert.deepEqual([row?.window, row?.failures], [null, 0])
        yield* store.open(scope, "rate_limited", ladder)
        yield* runs(scope, "rate_limited", 10_000)
      }
      yield* runs(kept, "rate_limited", 10_000)
    })
  },
  {
    title: "tells since when a window is open, and how long ago the last success was",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scope = { provider: name, credential: one, model: null, key: "first" }
      assert.equal((yield* rowOf(scope))?.succeededMs ?? null, null)
      yield* store.succeed(scope, model)
      yield* advance("5 minutes")
      yield* store.open(scope, "auth", ladder)
      yield* advance("3 seconds")
      const { succeededMs = null, window } = (yield* rowOf(scope)) ?? {}
      assert(succeededMs !== null && succeededMs >= 303_000 && succeededMs < 313_000, `${succeededMs}`)
      assert(window?.since !== undefined && window.since !== null)
      assert(Math.abs(window.until - window.since - 10_000) < 10, `${window.since} to ${window.until}`)
    })
  },
  {
    title:
      "gives another key a row of its own in the place of the former one, whose window and counts it does not have",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      for (const scoped of [null, model]) {
        const [first, second] = ["first", "second"].map((key) => ({
          provider: name,
          credential: one,
          model: scoped,
          key
        }))
        assert(first !== undefined && second !== undefined)
        yield* store.open(first, "auth", ladder)
        yield* advance("10 seconds")
        yield* store.open(first, "auth", ladder)
        yield* runs(first, "auth", 60_000)
        assert.equal(yield* store.open(second, "auth", ladder), true)
        yield* runs(second, "auth", 10_000)
        const row = yield* rowOf(second)
        assert.deepEqual([row?.key, row?.failures, row?.succeededMs], ["second", 1, null])
        assert.equal(yield* store.open(second, "auth", ladder), false)
      }
    })
  },
  {
    title: "ends the window of a key when another one succeeds in its place, and of no other model",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scope = { provider: name, credential: one, model: null, key: "first" }
      yield* store.open(scope, "auth", ladder)
      yield* store.succeed(scope, model)
      yield* runs(scope, "auth", 10_000)
      yield* store.succeed({ ...scope, key: "second" }, model)
      const row = yield* rowOf(scope)
      assert.deepEqual([row?.key, row?.window, row?.failures], ["second", null, 0])
    })
  },
  {
    title: "keeps what is known of a credential whose key nobody knows, whatever key it is",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one } = yield* newProvider
      const scope = { provider: name, credential: one, model: null, key: null }
      yield* store.open(scope, "auth", ladder)
      assert.equal(yield* store.open({ ...scope, key: "first" }, "auth", ladder), false)
      yield* store.succeed({ ...scope, key: "first" }, model)
      yield* runs(scope, "auth", 10_000)
    })
  },
  {
    title: "deletes what had no window and no use for 7 days, and nothing that had",
    test: Effect.gen(function* () {
      const store = yield* CredentialStore
      const { name, one, two } = yield* newProvider
      const day = 24 * 60 * 60_000
      const scope = { provider: name, credential: one, key: null }
      const sweep = Effect.gen(function* () {
        yield* (yield* SessionStore).sweep(fromMillis(yield* Clock.currentTimeMillis))
        const rows = (yield* store.list).filter(({ provider }) => provider === name)
        return rows.map(({ credential, model }) => `${credential?.slice(name.length)} ${model}`).sort()
      })
      yield* store.succeed({ provider: name, credential: two, key: null }, model)
      yield* store.open({ ...scope, model: null }, "auth", [1_000])
      yield* store.clear(name, one)
      yield* store.open({ ...scope, model: "of a second" }, "rate_limited", [1_000])
      yield* store.open({ ...scope, model: "of a day" }, "rate_limited", [day])
      yield* advance(6 * day)
      assert.deepEqual(yield* sweep, ["-1 null", "-1 of a day", "-1 of a second", "-2 null"])
      yield* store.succeed({ provider: name, credential: two, key: null }, model)
      yield* advance(1.5 * day)
      assert.deepEqual(yield* sweep, ["-1 of a day", "-2 null"])
      yield* advance(day)
      assert.deepEqual(yield* sweep, ["-2 null"])
    })
  }
]
