import { GatewayId } from "@bowline/runtime/unstable/config/GatewayId"
import { type CredentialRow, CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"

interface Row {
  readonly provider: string
  readonly credential: string
  readonly model: string
  readonly key_digest: string | null
  readonly failures: number
  readonly reason: string | null
  readonly since: number | null
  readonly until: number | null
  readonly left_ms: number | null
  readonly last_used: number | null
  readonly succeeded_ms: number | null
}

const columns = `c.provider, c.credential, c.model, c.key_digest, c.failures, c.reason,
  (extract(epoch from c.opened_at) * 1000)::float8 as since,
  (extract(epoch from c.until) * 1000)::float8 as until,
  (extract(epoch from c.until - now()) * 1000)::float8 as left_ms,
  (extract(epoch from c.last_used_at) * 1000000)::float8 as last_used,
  (extract(epoch from now() - c.succeeded_at) * 1000)::float8 as succeeded_ms`

const windowOf = ({ reason, since, until, left_ms }: Row): CredentialRow["window"] =>
  reason === null || until === null || left_ms === null || left_ms <= 0
    ? null
    : { reason, since, until, leftMs: Math.ceil(left_ms) }

const toCredentialRow = (row: Row): CredentialRow => ({
  provider: row.provider,
  credential: row.credential === "" ? null : row.credential,
  model: row.model === "" ? null : row.model,
  key: row.key_digest,
  window: windowOf(row),
  failures: row.failures,
  lastUsed: row.last_used,
  succeededMs: row.succeeded_ms
})

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline, salt: string): CredentialStore["Service"] => {
  // False only where both are known: the version before does not write them.
  const isSameKey = sql.literal("(c.key_digest = excluded.key_digest) is not false")

  const use = (provider: string, credential: string) => sql`
insert into credentials_state as c (provider, credential, model, last_used_at) values (${provider}, ${credential}, '', now())
on conflict (provider, credential, model) do update set last_used_at = greatest(c.last_used_at, now())`

  return {
    salt,
    // A session that prefers a credential has used it, so the credential has a row that can carry `sticky`.
    read: (provider, model, session) =>
      withDeadline(sql<Row & { readonly sticky: string | null }>`
select ${sql.literal(columns)},
  (select s.credential from session_credentials s where s.session_id = ${session} and s.provider = ${provider}) as sticky
from credentials_state c where c.provider = ${provider} and c.model in ('', ${model})`).pipe(
        Effect.map((rows) => ({ rows: rows.map(toCredentialRow), sticky: rows[0]?.sticky ?? null }))
      ),
    list: withDeadline(sql<Row>`
select ${sql.literal(columns)} from credentials_state c order by c.provider, c.credential, c.model`).pipe(
      Effect.map((rows) => rows.map(toCredentialRow))
    ),
    open: ({ provider, credential, model, key }, reason, durations) => {
      const [first] = durations
      const longest = durations.length - 1
      return withDeadline(sql`
insert into credentials_state as c (provider, credential, model, key_digest, reason, opened_at, until, failures)
values (${provider}, ${credential ?? ""}, ${model ?? ""}, ${key}, ${reason}, now(), now() + ${first} * interval '1 millisecond', 1)
on conflict (provider, credential, model) do update set (failures, key_digest, reason, opened_at, until, succeeded_at) = (
  select n, excluded.key_digest, excluded.reason, now(),
    now() + (${JSON.stringify(durations)}::json ->> least(n - 1, ${longest}::int))::float8 * interval '1 millisecond',
    case when ${isSameKey} then c.succeeded_at end
  from (
    select case when ${isSameKey} and (c.model <> '' or c.reason = excluded.reason) then c.failures + 1 else 1 end as n
  ) counted
)
where c.until is null or c.until <= now() or not (${isSameKey})
returning 1 as opened`).pipe(Effect.map((rows) => rows.length > 0))
    },
    choose: (provider, credential, session) =>
      withDeadline(sql`
with used as (${use(provider, credential)})
insert into session_credentials (session_id, provider, credential) values (${session}, ${provider}, ${credential})
on conflict (session_id, provider) do update set credential = excluded.credential`).pipe(Effect.asVoid),
    succeed: ({ provider, credential, key }, model) =>
      withDeadline(sql`
with forgotten as (
  update credentials_state set failures = 0
  where provider = ${provider} and credential = ${credential} and model = ${model} and failures > 0
)
insert into credentials_state as c (provider, credential, model, key_digest, last_used_at, succeeded_at)
values (${provider}, ${credential}, '', ${key}, now(), now())
on conflict (provider, credential, model) do update set failures = 0, key_digest = excluded.key_digest,
  until = case when ${isSameKey} then c.until end, last_used_at = greatest(c.last_used_at, now()), succeeded_at = now()`).pipe(
        Effect.asVoid
      ),
    clear: (provider, credential) =>
      withDeadline(sql`
update credentials_state set until = least(until, now()), reason = null, failures = 0
where provider = ${provider} and credential in (${credential}, '')`).pipe(Effect.asVoid)
  }
}

export const layer = Layer.effect(
  CredentialStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline, GatewayId]), (given) => make(...given))
)
