import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Generates the id of the gateway, once for all replicas. The ordinal of tasks is the order in which they started. */
const changes = [
  `create table gateway (
    id text primary key,
    is_only boolean not null unique default true check (is_only)
  )`,
  `insert into gateway (id) values (gen_random_uuid()::text)`,
  `alter table plans add column route json`,
  `alter table tasks
    add column endpoint text,
    add column ordinal bigint not null generated always as identity`
]

export const peers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of changes) yield* sql.unsafe(statement)
})
