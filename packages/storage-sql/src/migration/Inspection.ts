import { PgClient } from "@effect/sql-pg"
import { Clock, Effect, type Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient } from "effect/sql"
import { translateErrors } from "../internal/StorageErrors.ts"
import * as Migrations from "./Migrations.ts"

interface Facts {
  readonly version: string
  readonly isReadOnly: boolean
  /** Whether the user may create tables, which migrations do. */
  readonly mayCreate: boolean
  readonly now: number
  readonly connections: number
  readonly maxConnections: number
}

/**
 * What a Postgres server is like, over one connection: `Facts`, by how many milliseconds its clock is ahead, and its migrations. It
 * changes nothing. Fails as the stores do.
 */
export const inspect = Effect.fnUntraced(
  function* (url: Redacted.Redacted) {
    const sql = yield* PgClient.makeClient({ url, applicationName: "bowline doctor" })
    const asked = yield* Clock.currentTimeMillis
    const [facts] = yield* sql<Facts>`
select split_part(current_setting('server_version'), ' ', 1) as version,
  current_setting('transaction_read_only') = 'on' as "isReadOnly",
  coalesce(has_schema_privilege(current_schema(), 'create'), false) as "mayCreate",
  (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
  (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as connections,
  current_setting('max_connections')::int as "maxConnections"`
    const answered = yield* Clock.currentTimeMillis
    const migrations = yield* Effect.provideService(Migrations.compare, SqlClient.SqlClient, sql)
    return { facts, migrations, aheadMs: (facts?.now ?? answered) - (asked + answered) / 2 }
  },
  Effect.provideServiceEffect(Reactivity.Reactivity, Reactivity.make),
  translateErrors
)
