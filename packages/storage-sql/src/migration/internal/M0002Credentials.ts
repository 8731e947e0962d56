import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** A key column cannot be null: an empty `credential` stands for all credentials of the provider, an empty `model` for all models. */
const tables = [
  `create table credentials_state (
    provider text collate "C" not null,
    credential text collate "C" not null,
    model text collate "C" not null,
    reason text,
    until timestamptz,
    failures int not null default 0,
    last_used_at timestamptz,
    primary key (provider, credential, model)
  )`,
  `create table session_credentials (
    session_id text collate "C" not null references sessions on delete cascade,
    provider text collate "C" not null,
    credential text collate "C" not null,
    primary key (session_id, provider)
  )`
]

export const credentials = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of tables) yield* sql.unsafe(statement)
})
