import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import {
  AccountStore,
  type GrantId,
  type LentId,
  type StoredGrant,
  wantedFor
} from "@bowline/runtime/unstable/store/AccountStore"
import { Duration, Effect, Layer, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { makeWithDeadline } from "../internal/Deadline.ts"

const endOf = (millis: number | null): string | null => (millis === null ? null : fromMillis(millis))

/** How many of each kind are read at once. */
const newsAtOnce = 100

/** What callers have lent in tables. */
export const layer = Layer.effect(
  AccountStore,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const withDeadline = yield* makeWithDeadline
    const millisOf = (column: string) => sql.literal(`(extract(epoch from ${column}) * 1000)::float8`)
    const textsOf = (texts: ReadonlyArray<string>) =>
      sql`array(select jsonb_array_elements_text(${JSON.stringify(texts)}::jsonb))`
    const isOf = ({ account, owner, sealed }: GrantId) =>
      sql`owner = ${owner} and account = ${account} and sealed = ${sealed}`
    const isDone = (statement: Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>) =>
      Effect.map(withDeadline(statement), (rows) => rows.length > 0)
    return {
      keepToken: (owner, { now, sealed, until }, isWanted) => {
        const ends = fromMillis(until)
        const kept = isWanted
          ? sql`
insert into caller_tokens as t (owner, sealed, expires_at, is_news) values (${owner}, ${sealed}, ${ends}::timestamptz, true)
on conflict (owner) do update set
  sealed = case when excluded.expires_at > t.expires_at then excluded.sealed else t.sealed end,
  is_news = t.is_news or excluded.expires_at > t.expires_at,
  expires_at = greatest(excluded.expires_at, t.expires_at)
returning owner`
          : sql`
update caller_tokens t set
  sealed = case when ${ends}::timestamptz > t.expires_at then ${sealed} else t.sealed end,
  is_news = t.is_news or ${ends}::timestamptz > t.expires_at,
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
        ),
      connect: ({ account, owner }, { expires_at, now, scopes, sealed }) =>
        withDeadline(sql`
insert into account_grants (owner, account, sealed, scopes, connected_at, expires_at, is_news)
values (${owner}, ${account}, ${sealed}, ${textsOf(scopes)}, ${fromMillis(now)}::timestamptz, ${endOf(expires_at)}::timestamptz, true)
on conflict (owner, account) do update set sealed = excluded.sealed, scopes = excluded.scopes,
  connected_at = excluded.connected_at, expires_at = excluded.expires_at, claimed_at = null, is_news = true`).pipe(
          Effect.asVoid
        ),
      grants: (owner, account) =>
        withDeadline(sql<StoredGrant>`
select account, sealed, scopes, ${millisOf("connected_at")} as connected_at, ${millisOf("expires_at")} as expires_at,
  ${millisOf("claimed_at")} as claimed_at
from account_grants where owner = ${owner} and (${account ?? null}::text is null or account = ${account ?? null})
order by account collate "C"`),
      news: withDeadline(sql<LentId>`
(select owner, null as account, sealed from caller_tokens where is_news limit ${newsAtOnce})
union all (select owner, account, sealed from account_grants where is_news limit ${newsAtOnce})`),
      heard: ({ account, owner, sealed }) =>
        Effect.asVoid(
          withDeadline(
            account === null
              ? sql`update caller_tokens set is_news = false where owner = ${owner} and sealed = ${sealed} and is_news`
              : sql`update account_grants set is_news = false where ${isOf({ account, owner, sealed })} and is_news`
          )
        ),
      claim: (id, now) =>
        isDone(sql`
update account_grants set claimed_at = ${fromMillis(now)}::timestamptz where ${isOf(id)} and claimed_at is null returning owner`),
      release: (id, renewed) =>
        isDone(
          renewed === undefined
            ? sql`update account_grants set claimed_at = null where ${isOf(id)} returning owner`
            : sql`
update account_grants set claimed_at = null, sealed = ${renewed.sealed}, scopes = ${textsOf(renewed.scopes)},
  expires_at = ${endOf(renewed.expires_at)}::timestamptz
where ${isOf(id)} returning owner`
        ),
      disconnect: (id) => isDone(sql`delete from account_grants where ${isOf(id)} returning owner`),
      useOnce: (digest, { now, until }) =>
        isDone(sql`
with expired as (delete from used_secrets where expires_at <= ${fromMillis(now)}::timestamptz)
insert into used_secrets (digest, expires_at) values (${digest}, ${fromMillis(until)}::timestamptz)
on conflict (digest) do nothing returning digest`)
    }
  })
)
