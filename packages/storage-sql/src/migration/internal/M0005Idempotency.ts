import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The transaction takes a key before it inserts the plan, so the foreign key is checked at the end of the transaction. */
const changes = [
  `create table idempotency (
    owner text not null,
    key text collate "C" not null,
    body text collate "C" not null,
    plan_id text collate "C" not null unique references plans on delete cascade deferrable initially deferred,
    expires_at timestamptz(3) not null,
    primary key (owner, key)
  )`,
  `create index idempotency_expiry on idempotency (expires_at)`
]

export const idempotency = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of changes) yield* sql.unsafe(statement)
})
