import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * `reverted_count` counts the reverted messages among the `last_seq` that were ever written. `covered_priors` is the `seq` of the last
 * entry of `prior_summaries` that the summary includes. `deleted_plans` lists plans whose events are still to be purged. Messages
 * have no foreign key to plans: it would make the deletion of a plan search all messages, and they are deleted with the session.
 */
const changes = [
  `alter table sessions
    add column reverted_count int not null default 0,
    add column covered_priors int not null default 0`,
  `create index sessions_expiry on sessions (expires_at)`,
  `create table prior_summaries (
    session_id text collate "C" not null references sessions on delete cascade,
    seq int not null,
    summary text not null,
    primary key (session_id, seq)
  )`,
  `alter table tasks add column reverted boolean not null default false`,
  `alter table messages drop constraint messages_plan_id_fkey`,
  `create table deleted_plans (id text collate "C" primary key)`
]

export const sessions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of changes) yield* sql.unsafe(statement)
})
