import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** A plan of an earlier version has an empty question: the messages of its session have it. */
export const questions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`alter table plans add column question text not null default ''`
})
