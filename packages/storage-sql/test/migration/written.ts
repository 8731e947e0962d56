/** What a gateway of the first version has written. */
export const written = [
  `insert into sessions (id, owner, last_seq, created_at, last_active_at, expires_at)
    values ('session_1', 'ann', 1, now(), now(), now())`,
  `insert into plans (id, session_id, owner, replica, model, question_hash, preferences, metadata, usage, created_at, deadline_at)
    values ('plan_1', 'session_1', 'ann', 'replica', 'm', 'h', '{}', '{}', '{}', now(), now())`,
  `insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
    values ('session_1', 1, 'msg_1', 'plan_1', 'user', '[]', now())`,
  `insert into tasks (plan_id, id, tool, kind, input, state, started_at)
    values ('plan_1', 'task_1', 'tool', 'peer', '{}', 'completed', now())`,
  `insert into events (plan_id, seq, count, event, payload) values ('plan_1', 1, 1, 'session', '{}')`,
  `insert into plans (id, session_id, owner, replica, model, question_hash, preferences, metadata, usage, state, error,
    created_at, deadline_at, finished_at)
    values ('plan_2', 'session_1', 'bob', 'replica', 'm', 'h', '{}', '{}', '{}', 'failed',
      '{"code":"internal","message":"\\u0000 \\"code\\":\\"no\\""}', '2026-01-01T00:00Z', '2026-01-03T00:00Z', '2026-01-02T00:00Z')`,
  `insert into events (plan_id, seq, count, event, payload)
    values ('plan_2', 1, 1, 'session', '{}'), ('plan_2', 2, 1, 'error', '{}'), ('plan_2', 3, 1, 'done', '{}')`
]
