import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/**
 * What the next process needs to resume a plan. `request` and the encrypted `request_secrets` are kept until the plan is over; a
 * plan of an earlier version has none. `handed_over` means that the next take-over does not count as a death.
 */
const changes = [
  `alter table plans
    add column request json,
    add column request_secrets text,
    add column deaths int not null default 0,
    add column handed_over boolean not null default false`
]

export const recovery = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const statement of changes) yield* sql.unsafe(statement)
})
