import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Fills the tables of any version with plans that are over, ten in a session, every tenth of them failed. */
export const fillPlans = Effect.fnUntraced(function* (count: number) {
  const sql = yield* SqlClient.SqlClient
  for (const statement of [
    `insert into sessions (id, owner, last_seq, created_at, last_active_at, expires_at)
     select 'session_' || n, 'ann', 20, now(), now(), now() + interval '30 days' from generate_series(1, ${Math.ceil(count / 10)}) n`,
    `insert into plans (id, session_id, owner, replica, state, stage, model, question_hash, preferences, metadata, usage, final, error,
       created_at, deadline_at, finished_at)
     select 'plan_' || md5(n::text), 'session_' || (1 + n / 10), 'ann', 'replica_gone', 'completed', null, 'openai/quick', md5(n::text),
       '{}', '{}', '{}', '{}', case when n % 10 = 0 then '{"code":"internal","message":"It failed"}'::json end, now(), now(), now()
     from generate_series(0, ${count - 1}) n`,
    `insert into tasks (plan_id, id, tool, kind, input, state, started_at)
     select id, 'task_' || id, 'search', 'mcp', '{}', 'completed', now() from plans`,
    `insert into events (plan_id, seq, count, event, payload) select id, s, 1, 'step', '{}' from plans, generate_series(1, 2) s`,
    "vacuum analyze"
  ]) {
    yield* sql.unsafe(statement)
  }
})
