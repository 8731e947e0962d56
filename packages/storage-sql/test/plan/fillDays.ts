import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const sessionOf = (n: string) => `'session_' || md5('session' || (${n}) / 10)::uuid`
const planOf = (n: string) => `'plan_' || md5('plan' || ${n})::uuid`
const ownerOf = (n: string) => `'caller_' || (${n}) / 10 % 20`

/** The newest one begins now, the oldest one that many days ago. */
const createdAt = (n: string, plans: number, days: number) =>
  `now() - (${plans - 1} - ${n}) * (interval '${days} days' / ${plans})`

/**
 * Fills the tables with plans as a busy gateway leaves them: spread evenly over days, ten in a session, of 20 callers and 3 models, with two calls
 * each. Some 2 % have failed, 3 % were aborted, and the newest 40 are not over.
 */
export const fillDays = Effect.fnUntraced(function* (plans: number, days: number) {
  const sql = yield* SqlClient.SqlClient
  const open = plans - 40
  for (const statement of [
    `insert into sessions (id, owner, external_id, last_seq, created_at, last_active_at, expires_at)
     select ${sessionOf("n * 10")}, ${ownerOf("n * 10")}, 'chat ' || n, 20, c, c + interval '1 minute', c + interval '30 days'
     from generate_series(0, ${Math.ceil(plans / 10) - 1}) n, lateral (select ${createdAt("n * 10", plans, days)} as c) t`,
    `insert into plans (id, session_id, owner, replica, state, stage, model, question, question_hash, preferences, metadata, usage,
       cost_usd, steps, tool_calls, request, gist, final, error, error_code, created_at, first_token_at, deadline_at, finished_at)
     select ${planOf("n")}, ${sessionOf("n")}, ${ownerOf("n")}, 'replica_' || n % 2, s.state,
       case when s.state = 'queued' then 'queue' when s.state = 'running' then (array['tool', 'provider', 'approval'])[1 + n % 3] end,
       (array['openai/quick', 'openai/large', 'anthropic/large'])[1 + n % 3],
       'What is the state of the order ' || n || '?', md5(n::text), '{"timeout_ms":1800000}',
       case when n % 4 = 0 then json_build_object('tenant', 'tenant ' || n % 1000) else '{}'::json end,
       '{"input_tokens":1200,"output_tokens":240,"cached_input_tokens":0,"reasoning_tokens":0}',
       case when n % 3 < 2 then 0.001 * (1 + n % 7) end, 2, 2, '{"question":"What is the state of the order?"}',
       json_build_object('seq', 12, 'isEnded', true, 'events', json_build_array(repeat('what it has come to, ', 40))),
       case when s.state = 'completed' then '{"stop_reason":"stop","text":"It is on its way."}'::json end,
       case s.state when 'failed' then json_build_object('code', s.code, 'message', 'It failed', 'retryable', true, 'stage', 'provider')
         when 'aborted' then ('{"code":"aborted","message":"It ended","retryable":false,"stage":"tool","reason":"'
           || (array['deadline', 'disconnect', 'cancelled'])[1 + n % 3] || '"}')::json end,
       case s.state when 'failed' then s.code when 'aborted' then 'aborted' end,
       c, c + (300 + n % 900) * interval '1 millisecond', c + interval '30 minutes',
       case when s.state in ('completed', 'failed', 'aborted') then c + (2000 + n % 7001) * interval '1 millisecond' end
     from generate_series(0, ${plans - 1}) n, lateral (select ${createdAt("n", plans, days)} as c) t, lateral (
       select case when n >= ${open} then case when n % 4 = 0 then 'queued' else 'running' end when n % 50 = 7 then 'failed'
         when n % 33 = 5 then 'aborted' else 'completed' end as state,
         (array['provider_auth', 'provider_rate_limit', 'loop_detected', 'internal'])[1 + n % 4] as code) s`,
    `insert into tasks (plan_id, id, tool, kind, agent, endpoint, skill, input, state, error, started_at, finished_at)
     select p.id, md5(p.id || t)::uuid::text, 'agent_' || (n + t) % 25 || '_search', 'peer', 'agent_' || (n + t) % 25,
       'http://agent-' || (n + t) % 25 || '.test/', 'search', '{"query":"order"}', s.state,
       case s.state when 'failed' then '{"code":"peer_failed","message":"It broke"}'::json end,
       p.created_at + t * interval '700 milliseconds', p.created_at + t * interval '700 milliseconds'
         + (50 + (n + t) % 25 * 40 + n % 300) * interval '1 millisecond'
     from plans p, generate_series(1, 2) t, lateral (select p.ordinal::int as n) o,
       lateral (select case when (n + t) % 25 = 3 and n % 2 = 0 or n % 211 = 0 then 'failed' else 'completed' end as state) s
     order by p.created_at`,
    "vacuum"
  ]) {
    yield* sql.unsafe(statement)
  }
})
