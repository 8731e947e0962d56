import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * `reverted_count` are the messages that were reverted, of the `last_seq` that there ever were. `covered_priors` is the number of the
 * last entry of `prior_summaries` that the summary says, too. The events of what is in `deleted_plans` are still to be deleted. That
 * a message belongs to a plan is not checked: it belongs to the plan's session, and to delete a plan would look for its messages
 * among all there are.
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
