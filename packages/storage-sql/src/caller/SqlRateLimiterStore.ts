import { Duration, Effect, Layer } from "effect"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { SqlClient } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"

/** How long a request may wait for its count. */
const patience = Duration.seconds(1)

const unavailable = (cause: unknown) =>
  new RateLimiter.RateLimiterError({
    reason: new RateLimiter.RateLimitStoreError({ message: "The count of requests cannot be read", cause })
  })

interface Row {
  readonly count: number
  readonly ttl: number
}

/**
 * Fixed windows that all replicas share, on the clock of the database. The library has no store on SQL. The gateway uses nothing but fixed windows: token
 * buckets and adaptive limits stay in the memory of the process.
 */
export const layer = Layer.effect(
  RateLimiter.RateLimiterStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    const inMemory = yield* RateLimiter.RateLimiterStore
    return {
      ...inMemory,
      // One statement counts and tells, also when it refuses: then only `refused` changes.
      fixedWindow: ({ key, limit, refillRate, tokens }) => {
        const refill = Duration.toMillis(refillRate) * tokens
        return withDeadline(
          sql<Row>`
insert into rate_limits as r (key, count, expires_at) values (${key}, ${tokens}, now() + ${refill}::float8 * interval '1 millisecond')
on conflict (key) do update set (count, expires_at, refused) = (
  select case when refuses then r.count else held + excluded.count end,
    case when refuses then r.expires_at else greatest(r.expires_at, now()) + (excluded.expires_at - now()) end,
    refuses
  from (select case when r.expires_at <= now() then 0 else r.count end as held) h,
    lateral (select coalesce(held + excluded.count > ${limit ?? null}::bigint, false) as refuses) f
)
returning (case when refused then count + ${tokens}::bigint else count end)::float8 as count,
  (extract(epoch from expires_at - now()) * 1000)::float8 as ttl`,
          patience
        ).pipe(
          Effect.mapError(unavailable),
          Effect.flatMap(([row]) =>
            row === undefined ? Effect.die("A count has no row") : Effect.succeed([row.count, row.ttl] as const)
          )
        )
      }
    }
  })
).pipe(Layer.provide(RateLimiter.layerStoreMemory))
