import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { AccountStore, wantedFor } from "@bowline/runtime/unstable/store/AccountStore"
import { Duration, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"

/** What callers have lent in tables. */
export const layer = Layer.effect(
  AccountStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    return {
      keepToken: (owner, { now, sealed, until }, isWanted) => {
        const ends = fromMillis(until)
        const kept = isWanted
          ? sql`
insert into caller_tokens as t (owner, sealed, expires_at) values (${owner}, ${sealed}, ${ends}::timestamptz)
on conflict (owner) do update set
  sealed = case when excluded.expires_at > t.expires_at then excluded.sealed else t.sealed end,
  expires_at = greatest(excluded.expires_at, t.expires_at)
returning owner`
          : sql`
update caller_tokens t set
  sealed = case when ${ends}::timestamptz > t.expires_at then ${sealed} else t.sealed end,
  expires_at = greatest(${ends}::timestamptz, t.expires_at)
where owner = ${owner} returning owner`
        const forgotten = fromMillis(now - Duration.toMillis(wantedFor))
        return withDeadline(
          isWanted
            ? Effect.andThen(sql`delete from caller_tokens where expires_at <= ${forgotten}::timestamptz`, kept)
            : kept
        ).pipe(Effect.map((rows) => rows.length > 0))
      },
      token: (owner, now) =>
        withDeadline(sql<{ readonly sealed: string }>`
select sealed from caller_tokens where owner = ${owner} and expires_at > ${fromMillis(now)}::timestamptz`).pipe(
          Effect.map(([row]) => Option.map(Option.fromNullishOr(row), ({ sealed }) => sealed))
        )
    }
  })
)
