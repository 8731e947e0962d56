import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Committed, PlanCommit } from "@bowline/runtime/unstable/store/PlanStore"
import type { SessionId } from "@bowline/domain/session/Session"
import { Duration } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { adding, amounts } from "../../caller/internal/Charges.ts"
import { type BatchRows, batchRows } from "./BatchRows.ts"

type Sql = SqlClient.SqlClient

/** What is to be known of a plan's commit; a session that was released, if another replica is alive and may wait for it; or that webhooks have deliveries. */
type Written =
  | { readonly plan_id: PlanId; readonly committed: Committed; readonly released: null }
  | { readonly plan_id: null; readonly released: SessionId | null }

/**
 * A whole batch as one statement: one round trip, and a transaction by itself. What a batch has no rows for is left out.
 *
 *     guards ── input ── held ── fresh ──┬── events
 *     (one a plan)       (locks) (new)   ├── plans, charges
 *                                        ├── tasks
 *                                        ├── effects
 *                                        ├── waits, inbox
 *                                        ├── deliveries
 *                                        ├── compactions
 *                                        ├── ending ── released
 *                                        └── sessions ── messages
 *
 * - `held` locks the rows that the guards look at, sessions before plans and in the order of their ids, which is the order of
 *   whoever locks several: no deadlock. A fence that is about to grow waits for the lock, or the lock waits for it and then
 *   sees the new fence. The lateral joins keep the locks in the order of the rows.
 * - A queued plan is guarded by its own row. With the session's fence it is held: by the fence if it runs already; if not, by
 *   the lease, which must be its replica's, since another replica may have taken the queued plan over.
 * - Leases are locked behind sessions and in the order of those, as a renewal locks them.
 * - A compaction is guarded by what it follows as well, unless an earlier try of it has been stored.
 * - `fresh` leaves out what an earlier try of the same commit has stored: its answer was lost with the connection. It sees only
 *   what was committed before this statement began. The first try of a batch looks for that only where the answer depends on it: an event or a message that
 *   is stored twice is a unique violation, and then the batch is written `again`. Besides, a table of events that was empty when it was analysed
 *   is searched row by row until it is analysed again, and each batch would do so.
 * - Nor has `fresh` a commit that closes its plan while the plan's inbox has more than its process has read, or that parks a plan which somebody
 *   has asked to abort. Whoever accepts an entry or asks that locks the plan's row, too.
 * - `like` is true of every plan, and looks selective: the planner expects one row, and joins the tables by their indexes
 *   however small they were when it made the plan that it keeps.
 */
export const writeBatch = (
  sql: Sql,
  batch: ReadonlyArray<PlanCommit>,
  sessionTtl: Duration.Duration,
  isAgain: boolean
): Statement.Statement<Written> => {
  const rows = batchRows(batch)
  const {
    guards,
    events,
    plans,
    charges,
    messages,
    compactions,
    started,
    changed,
    waits,
    entries,
    ended,
    claims,
    effects,
    told
  } = rows
  const touchesSessions =
    compactions.length > 0 ||
    guards.some((guard) => guard.messages > 0 || guard.settled_at !== null || guard.until !== null)
  const isReleasing = guards.some(({ released }) => released)
  const when = (isNeeded: boolean, write: typeof insertEvents) => (isNeeded ? [write(sql, rows)] : [])
  const ctes = [
    input(sql, rows),
    held(sql, rows, isAgain),
    sql`fresh as (
  select * from held where not stored and not (closes and is_behind)
)`,
    ...when(events.length > 0, insertEvents),
    ...when(plans.length > 0, updatePlans),
    ...when(charges.length > 0, chargeDays),
    ...when(started.length > 0, insertTasks),
    ...when(changed.length > 0, updateTasks),
    ...when(claims.length > 0, claimEffects),
    ...when(effects.length > 0, endEffects),
    ...when(waits.length > 0, openWaits),
    ...when(ended.length > 0, endWaits),
    ...when(entries.length > 0, changeEntries),
    ...when(compactions.length > 0, compactMessages),
    ...when(touchesSessions, () => updateSessions(sql, rows, sessionTtl)),
    ...when(messages.length > 0, insertMessages),
    ...when(told.length > 0, tellWebhooks),
    ...when(isReleasing, releaseLeases)
  ]

  return sql`
with ${sql.join(", ", false)(ctes)}
select i.plan_id, 'refused' as committed, null as released from input i
where not exists (select from held h where h.plan_id = i.plan_id)
  -- An earlier try of this very commit has settled it. Another replica may have settled it at the same time: behind other events.
  and (i.settled_as is null or not coalesce((
    select p.state = i.settled_as and p.finished_at is not distinct from i.settled_at
      and (i.last_seq is null or i.last_seq = coalesce(
        (select max(e.seq) from events e where e.plan_id = p.id),
        (select s.last_seqs[array_upper(s.last_seqs, 1)] from sealed s
          where s.plan_id = p.id and s.ended_at = coalesce(p.finished_at, 'infinity'))))
    from plans p where p.id = i.plan_id), false))
union all
select h.plan_id, case when h.closes and not h.stored then 'unread' else 'behind' end, null from held h
where h.is_behind
${
  isReleasing
    ? sql`union all
select null, null, r.session_id from released r
where exists (select from replicas other where other.id <> r.replica and other.expires_at > now())`
    : sql``
}
${told.length > 0 ? sql`union all select null, null, null where exists (select from told_webhooks)` : sql``}`
}

const rowsOf = (sql: Sql, list: ReadonlyArray<object>) => sql`json_to_recordset(${JSON.stringify(list)}::json)`

const input = (sql: Sql, { guards }: BatchRows) => sql`input as materialized (
  select i.* from ${rowsOf(sql, guards)} as i(
    plan_id text, session_id text, replica text, queue_fence int, fence int,
    last_seq int, last_message text, messages int, through text, settled_as text, settled_at timestamptz, released boolean, until timestamptz,
    seen int, closes boolean)
  where i.plan_id like 'plan\\_%'
)`

const compactionsOf = (sql: Sql, { compactions }: BatchRows) => sql`(
    select * from ${rowsOf(sql, compactions)} as c(
      plan_id text, id text, summary text, through text, covered_seq int, prior_seq int))`

/** What `chargeDays` has to know of a plan. */
const charged = ", p.owner, p.preset, p.replica as runner"

const held = (sql: Sql, rows: BatchRows, isAgain: boolean) => sql`held as materialized (
  select i.*, p.*, ${sql.literal(isAgain ? "true" : "i.closes")} and coalesce(
    (select true from events e where e.plan_id = i.plan_id and e.seq = i.last_seq),
    (select true from messages m where m.id = i.last_message),
    false) as stored
  from (select * from input order by session_id, plan_id) i
  cross join lateral (
    select s.fence, s.covered_seq from sessions s where s.id = i.session_id for no key update
  ) s
  cross join lateral (
    select p.inbox_count <> i.seen or (i.until is not null and p.abort_requested is not null) as is_behind${sql.literal(rows.charges.length > 0 ? charged : "")} from plans p
    where p.id = i.plan_id and p.session_id = i.session_id
      and p.state in ('queued', 'running') and (i.fence is null or s.fence = i.fence)
      and case
        when p.state = 'running' then i.fence is not null
        when i.replica is null then p.replica = (
          select l.replica from leases l where l.session_id = i.session_id and l.fence = i.fence)
        else p.replica = i.replica and p.fence = i.queue_fence
      end
      ${
        rows.compactions.length > 0
          ? sql`and (
        i.through is null
        or exists (select from events e where e.plan_id = i.plan_id and e.seq = i.last_seq)
        or exists (
          select from messages m join ${compactionsOf(sql, rows)} c on m.id = c.through
          where c.plan_id = i.plan_id and c.covered_seq = s.covered_seq
            and m.session_id = i.session_id and m.seq > s.covered_seq and not m.reverted))`
          : sql``
      }
    for no key update
  ) p
)`

const insertEvents = (sql: Sql, { events }: BatchRows) => sql`new_events as (
  insert into events (plan_id, seq, at, count, event, payload, record)
  select e.* from ${rowsOf(sql, events)} as e(plan_id text, seq int, at timestamptz, count int, event text, payload text, record text)
  join fresh using (plan_id)
)`

const updatePlans = (sql: Sql, { plans }: BatchRows) => sql`changed_plans as (
  update plans p set
    stage = case when u.staged then u.stage else p.stage end,
    state = coalesce(u.state, p.state),
    fence = coalesce(u.fence, p.fence),
    model = coalesce(u.model, p.model),
    steps = coalesce(u.steps, p.steps),
    tool_calls = coalesce(u.tool_calls, p.tool_calls),
    retries = coalesce(u.retries, p.retries),
    usage = coalesce(u.usage::json, p.usage),
    cost_usd = case when u.usage is null then p.cost_usd else u.cost_usd end,
    handed_over = coalesce(u.handed_over, p.handed_over),
    left_ms = coalesce(u.left_ms, p.left_ms),
    preferences = coalesce(u.preferences::json, p.preferences),
    woken_by = case when u.woken then null else p.woken_by end,
    -- No process resumes a plan that is over.
    request_secrets = case when u.finished_at is null then p.request_secrets end,
    gist = case when u.summed then u.gist::json else p.gist end,
    first_token_at = coalesce(p.first_token_at, u.first_token_at),
    final = coalesce(u.final::json, p.final),
    error = coalesce(u.error::json, p.error),
    error_code = coalesce(u.error_code, p.error_code),
    finished_at = coalesce(u.finished_at, p.finished_at)
  from ${rowsOf(sql, plans)} as u(
    plan_id text, state text, staged boolean, stage text, fence int, model text, steps int, tool_calls int,
    retries int, usage text, cost_usd float8, handed_over boolean, left_ms bigint, preferences text, woken boolean, summed boolean, gist text, first_token_at timestamptz, final text, error text, error_code text, finished_at timestamptz)
  join fresh f on f.plan_id = u.plan_id
  where p.id = f.plan_id
)`

/**
 * Charges callers. `fresh` leaves out a commit that is repeated, which has charged already. Each replica adds to rows of its own, in the order of their
 * keys: replicas do not wait for each other.
 */
const chargeDays = (sql: Sql, { charges }: BatchRows) => sql`charged as (
  insert into charges as c (owner, day, model, preset, replica, ${sql.literal(amounts.join())})
  select f.owner, u.day, u.model, coalesce(f.preset, ''), f.runner, ${sql.literal(amounts.map((one) => `sum(u.${one})`).join())}
  from ${rowsOf(sql, charges)} as u(plan_id text, day date, model text, plans int, tool_calls int,
    input_tokens bigint, cached_input_tokens bigint, output_tokens bigint, cost_usd numeric, unpriced int)
  join fresh f on f.plan_id = u.plan_id
  group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5
  ${sql.literal(adding)}
)`

const insertTasks = (sql: Sql, { started }: BatchRows) => sql`started_tasks as (
  insert into tasks (plan_id, id, tool, kind, agent, endpoint, skill, input, state, remote_task_id, remote_context_id,
    result, error, started_at, finished_at)
  select t.plan_id, t.id, t.tool, t.kind, t.agent, t.endpoint, t.skill, t.input::json, t.state, t.remote_task_id, t.remote_context_id,
    t.result, t.error::json, t.started_at, t.finished_at
  from ${rowsOf(sql, started)} as t(
    plan_id text, id text, tool text, kind text, agent text, endpoint text, skill text, input text, state text, remote_task_id text,
    remote_context_id text, result text, error text, started_at timestamptz, finished_at timestamptz)
  join fresh f on f.plan_id = t.plan_id
)`

const updateTasks = (sql: Sql, { changed }: BatchRows) => sql`changed_tasks as (
  update tasks t set
    state = coalesce(u.state, t.state),
    remote_task_id = case when u.accepted then u.remote_task_id else t.remote_task_id end,
    remote_context_id = case when u.accepted then u.remote_context_id else t.remote_context_id end,
    result = coalesce(u.result, t.result),
    error = coalesce(u.error::json, t.error),
    finished_at = coalesce(u.finished_at, t.finished_at)
  from ${rowsOf(sql, changed)} as u(
    plan_id text, id text, state text, accepted boolean, remote_task_id text, remote_context_id text, result text,
    error text, finished_at timestamptz)
  join fresh f on f.plan_id = u.plan_id
  where t.plan_id = f.plan_id and t.id = u.id
)`

/**
 * Claims effects, each for one call. A statement must not write a row twice: so of two calls of a batch one gets it, and a claim that cannot succeed
 * leaves the row alone, which another plan of the batch may end. Who claims at the same time is found by the conflict. Locks effects in the order of
 * their keys, behind all sessions and plans.
 */
const claimEffects = (sql: Sql, { claims }: BatchRows) => sql`claimed_effects as (
  insert into effects as e (owner, key, task_id, plan_id, tool, state, claimed_at, expires_at, follows)
  select distinct on (p.owner, c.key) p.owner, c.key, c.task_id, c.plan_id, c.tool, 'running', c.claimed_at, c.expires_at, c.follows
  from ${rowsOf(sql, claims)} as c(
    plan_id text, key text, task_id text, tool text, claimed_at timestamptz, expires_at timestamptz, follows text)
  join fresh f on f.plan_id = c.plan_id
  join plans p on p.id = f.plan_id
  left join effects e on e.owner = p.owner and e.key = c.key
  where e.key is null or e.state = 'none' or e.expires_at <= c.claimed_at or (e.task_id = c.follows and e.state <> 'done')
  order by p.owner, c.key, c.follows nulls last
  on conflict (owner, key) do update set
    (task_id, plan_id, tool, state, claimed_at, expires_at, follows) =
      (excluded.task_id, excluded.plan_id, excluded.tool, excluded.state, excluded.claimed_at, excluded.expires_at, excluded.follows)
  where e.state = 'none' or e.expires_at <= excluded.claimed_at or (e.task_id = excluded.follows and e.state <> 'done')
)`

const endEffects = (sql: Sql, { effects }: BatchRows) => sql`ended_effects as (
  update effects e set state = u.state
  from ${rowsOf(sql, effects)} as u(plan_id text, task_id text, state text)
  join fresh f on f.plan_id = u.plan_id
  where e.task_id = u.task_id
)`

const openWaits = (sql: Sql, { waits }: BatchRows) => sql`new_waits as (
  insert into waits (plan_id, task_id, kind, round, tool, agent, input, why, schema, message, data, url, expires_at, tool_digest, known_tool, mark, spent_ms, ends_at)
  select a.plan_id, a.task_id, a.kind, a.round, a.tool, a.agent, a.input::json, a.why, a.schema::json, a.message, a.data::json, a.url,
    a.expires_at, a.tool_digest, a.known_tool, a.mark, a.spent_ms, now() + a.left_ms * interval '1 millisecond'
  from ${rowsOf(sql, waits)} as a(
    plan_id text, task_id text, kind text, round int, tool text, agent text, input text, why text, schema text, message text, data text,
    url text, expires_at timestamptz, tool_digest text, known_tool text,
    mark text, spent_ms int, left_ms float8)
  join fresh f on f.plan_id = a.plan_id
  -- The call has waited before, and that has been settled.
  on conflict (plan_id, task_id) do update set
    (kind, round, input, why, schema, message, data, url, expires_at, mark, spent_ms, ends_at, since) =
      (excluded.kind, excluded.round, excluded.input, excluded.why, excluded.schema, excluded.message, excluded.data, excluded.url,
        excluded.expires_at, excluded.mark, excluded.spent_ms, excluded.ends_at, now()),
    -- It is the newest wait now.
    ordinal = default,
    (settled_by, is_expired, decision, note, decided_by) = (null, false, null, null, null)
)`

const endWaits = (sql: Sql, { ended }: BatchRows) => sql`ended_waits as (
  update waits w set is_expired = true
  from ${rowsOf(sql, ended)} as u(plan_id text, task_id text)
  join fresh f on f.plan_id = u.plan_id
  where w.plan_id = u.plan_id and w.task_id = u.task_id and w.settled_by is null
)`

/** A text that was taken back before its plan could tell that it was accepted stays so. */
const changeEntries = (sql: Sql, { entries }: BatchRows) => sql`changed_entries as (
  update inbox e set
    told = u.state,
    state = case when u.state in ('accepted', 'withdrawn') then e.state else u.state end,
    step = coalesce(u.step, e.step),
    moved_to = coalesce(u.moved_to, e.moved_to)
  from ${rowsOf(sql, entries)} as u(plan_id text, id text, state text, step int, moved_to text)
  join fresh f on f.plan_id = u.plan_id
  where e.id = u.id and e.plan_id = u.plan_id
)`

const compactMessages = (sql: Sql, rows: BatchRows) => sql`new_compactions as (
  select f.session_id, c.id, c.summary, c.prior_seq, m.seq
  from ${compactionsOf(sql, rows)} c join fresh f on f.plan_id = c.plan_id join messages m on m.id = c.through
), covered as (
  update messages m set compacted_by = c.id from new_compactions c
  where m.session_id = c.session_id and m.seq <= c.seq and m.compacted_by is null and not m.reverted
)`

const updateSessions = (sql: Sql, { compactions }: BatchRows, sessionTtl: Duration.Duration) => {
  const compacts = compactions.length > 0
  return sql`changed_sessions as (
  update sessions s set
    last_seq = s.last_seq + u.messages,
    ${
      compacts
        ? sql`summary = coalesce(c.summary, s.summary),
    covered_seq = coalesce(c.seq, s.covered_seq),
    covered_priors = coalesce(c.prior_seq, s.covered_priors),`
        : sql``
    }
    last_active_at = coalesce(u.settled_at, s.last_active_at),
    expires_at = greatest(u.until, coalesce(
      u.settled_at + least(s.ttl_ms, ${Duration.toMillis(sessionTtl)}::bigint) * interval '1 millisecond', s.expires_at))
  from (
    select session_id, sum(messages)::int as messages, max(settled_at) as settled_at, max(until) as until from fresh
    where messages > 0 or settled_at is not null or through is not null or until is not null group by session_id
  ) u
  ${compacts ? sql`left join new_compactions c using (session_id)` : sql``}
  where s.id = u.session_id
  returning s.id, s.last_seq - u.messages as seq_before
)`
}

const insertMessages = (sql: Sql, { messages }: BatchRows) => sql`new_messages as (
  insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
  select s.id, s.seq_before + row_number() over (partition by s.id order by m.position), m.id, m.plan_id, m.role,
    m.parts::json, m.created_at
  from ${rowsOf(sql, messages)} as m(
    plan_id text, position int, id text, role text, parts text, created_at timestamptz)
  join fresh f on f.plan_id = m.plan_id
  join changed_sessions s on s.id = f.session_id
)`

const tellWebhooks = (sql: Sql, { told }: BatchRows) => sql`told_webhooks as (
  insert into deliveries (task_id, target, event, wait, at)
  select t.task_id, t.id, e.event, e.wait::json, coalesce(e.at, now())
  from ${rowsOf(sql, told)} as e(plan_id text, position int, event text, at timestamptz, wait text)
  join fresh f on f.plan_id = e.plan_id
  join push_targets t on t.task_id = f.plan_id and e.event = any(t.events)
  order by t.ordinal, e.position
  returning 1
)`

const releaseLeases = (sql: Sql) => sql`ending as materialized (
  select l.session_id from (select session_id, fence from fresh where released order by session_id) f
  cross join lateral (
    select l.session_id from leases l where l.session_id = f.session_id and l.fence = f.fence for update
  ) l
), released as (
  delete from leases l using ending e where l.session_id = e.session_id returning l.session_id, l.replica
)`
