import { assert, layer } from "@effect/vitest"
import { Context, Duration, Effect, Layer } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { onPostgres } from "../stores.ts"

/** Lets the time of the counts pass. */
class CountTime extends Context.Service<CountTime, { readonly pass: (millis: number) => Effect.Effect<unknown> }>()(
  "@bowline/storage-sql/test/CountTime"
) {}

const onMemory = Layer.merge(
  RateLimiter.layerStoreMemory,
  Layer.succeed(CountTime, { pass: (millis) => TestClock.adjust(millis) })
)

// It is the database's clock that counts: rather than to wait, what is stored of it is moved into the past.
const onServer = Layer.effect(
  CountTime,
  Effect.map(SqlClient.SqlClient, (sql) => ({
    pass: (millis) =>
      Effect.orDie(sql`update rate_limits set expires_at = expires_at - ${millis}::float8 * interval '1 millisecond'`)
  }))
).pipe(Layer.provideMerge(onPostgres))

const refillRate = Duration.minutes(1)
const minute = 60_000

/** Takes tokens at one a minute, and gives the count with the minutes until it ends. */
const take = (key: string, limit: number | undefined = 3, tokens = 1) =>
  Effect.gen(function* () {
    const store = yield* RateLimiter.RateLimiterStore
    const [count, ttl] = yield* store.fixedWindow({ key, tokens, refillRate, limit })
    return [count, Math.round(ttl / minute)]
  })

const cases: Readonly<
  Record<string, Effect.Effect<void, RateLimiter.RateLimiterError, RateLimiter.RateLimiterStore | CountTime>>
> = {
  "count up to the limit, and not beyond": Effect.gen(function* () {
    assert.deepStrictEqual(yield* Effect.all([take("a"), take("a"), take("a"), take("a"), take("a")]), [
      [1, 1],
      [2, 2],
      [3, 3],
      [4, 3],
      [4, 3]
    ])
    assert.deepStrictEqual(yield* take("b"), [1, 1])
  }),
  "refuse what is too much, and still take what fits": Effect.gen(function* () {
    assert.deepStrictEqual(yield* take("c", 3, 2), [2, 2])
    assert.deepStrictEqual(yield* take("c", 3, 2), [4, 2])
    assert.deepStrictEqual(yield* take("c", 3, 1), [3, 3])
  }),
  "start over when their time has passed, and not before": Effect.gen(function* () {
    yield* Effect.all([take("d"), take("d"), take("d")])
    const { pass } = yield* CountTime
    yield* pass(2 * minute)
    assert.deepStrictEqual(yield* take("d"), [4, 1])
    yield* pass(minute)
    assert.deepStrictEqual(yield* take("d"), [1, 1])
  }),
  "have no end without a limit": Effect.gen(function* () {
    const store = yield* RateLimiter.RateLimiterStore
    const all = yield* Effect.replicateEffect(
      store.fixedWindow({ key: "e", tokens: 1, refillRate, limit: undefined }),
      5
    )
    assert.strictEqual(all.at(-1)?.[0], 5)
  }),
  "take exactly as many as they may of requests that come at once": Effect.gen(function* () {
    const all = yield* Effect.all(
      Array.from({ length: 50 }, () => take("f", 20)),
      { concurrency: "unbounded" }
    )
    assert.lengthOf(
      all.filter(([count = 0]) => count <= 20),
      20
    )
  })
}

layer(onMemory)("counts of requests in memory", (it) => {
  for (const [title, test] of Object.entries(cases)) it.effect(title, () => test)
})

// The pool and the timeouts of the client are on the real clock.
layer(onServer, { excludeTestServices: true })("counts of requests in Postgres", (it) => {
  for (const [title, test] of Object.entries(cases)) it.effect(title, () => test)
})
