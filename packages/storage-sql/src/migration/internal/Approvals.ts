import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Without a `decision` the call waits, as long as its plan is not over. */
const changes = [
  `create table approvals (
    plan_id text collate "C" not null references plans on delete cascade,
    task_id text collate "C" not null,
    ordinal bigint not null generated always as identity,
    tool text not null,
    input json not null,
    why text not null,
    decision text,
    note text,
    decided_by text,
    primary key (plan_id, task_id)
  )`
]

export const approvals = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of changes) yield* sql.unsafe(statement)
})
