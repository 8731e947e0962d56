import { InvalidRequest, SessionBusy } from "@bowline/domain/plan/Refusal"
import type { PlanId } from "@bowline/domain/plan/Plan"
import * as Usage from "@bowline/domain/plan/Usage"
import type { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { type NewPlan, notLast, questionId } from "@bowline/runtime/unstable/store/PlanStore"
import * as FileStore from "@bowline/runtime/unstable/store/FileStore"
import { newPrior } from "@bowline/runtime/unstable/store/PriorSummaries"
import { webhookWire } from "@bowline/runtime/unstable/store/PushStore"
import { summary } from "@bowline/runtime/unstable/store/StoredAgent"
import { Duration, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { createHash } from "node:crypto"
import { dropFrom } from "../../session/internal/ChangeHistory.ts"
import { toldColumns, toldValues } from "../../session/internal/ReplicaRow.ts"
import { storable } from "../../internal/Storable.ts"
import { takeKey } from "./IdempotencyKeys.ts"
import { takeFiring } from "./TakeFiring.ts"

interface SessionRow {
  readonly session_id: SessionId
  readonly external_session_id: ExternalSessionId | null
}

interface CreatedRow extends SessionRow {
  /** False if the session has too many plans. */
  readonly is_stored: boolean
  /** Whether the plan was to follow another one than the last. */
  readonly is_branch: boolean
  readonly fence: number | null
}

interface Limits {
  /** How many plans of a session may wait for it. */
  readonly maxQueue: number
  readonly sessionTtl: Duration.Duration
}

/** `ttl` is the time of the session itself, or null: the shorter one counts. */
const expiresAt = (sql: SqlClient.SqlClient, { createdAt }: NewPlan, { sessionTtl }: Limits, ttl: Statement.Fragment) =>
  sql`${fromMillis(createdAt)}::timestamptz + least(${ttl}, ${Duration.toMillis(sessionTtl)}::bigint) * interval '1 millisecond'`

const newTtl = (sql: SqlClient.SqlClient, { request }: NewPlan) => sql`${request.session_ttl_ms ?? null}::bigint`

/** Finds or creates the session, and locks it until the transaction ends. */
const upsertSession = (sql: SqlClient.SqlClient, plan: NewPlan, limits: Limits) => {
  const { caller, request, new_session_id } = plan
  const named = request.session_id ?? null
  const now = fromMillis(plan.createdAt)
  const expires = (ttl: Statement.Fragment) => expiresAt(sql, plan, limits, ttl)
  return sql<SessionRow>`
with named as (
  update sessions set last_active_at = ${now}, expires_at = ${expires(sql`ttl_ms`)}
  where id = ${named} and owner = ${caller}
  returning id, external_id
), upserted as (
  insert into sessions (id, owner, external_id, created_at, last_active_at, expires_at, ttl_ms)
  select ${new_session_id}, ${caller}, ${named}, ${now}, ${now}, ${expires(newTtl(sql, plan))}, ${newTtl(sql, plan)}
  where not exists (select from named)
  on conflict (owner, external_id) do update
    set last_active_at = excluded.last_active_at, expires_at = ${expires(sql`sessions.ttl_ms`)}
  returning id, external_id
)
select id as session_id, external_id as external_session_id from named
union all
select id, external_id from upserted`
}

const isAlone = ({ request }: NewPlan): boolean => request.preferences.on_busy === "reject"

/**
 * Finds or creates the session, locks it, and inserts the plan, unless the session has too many plans that are queued or running. Gives
 * the plan the session's lease if it may have it and the session is free.
 *
 *     seen ──▶ locked ──┐
 *       └────▶ made ────┴─▶ session ──▶ leased ──▶ plan ──▶ agents, event, replica, touched
 *
 * A statement sees only what was committed before it began. If the session changes while this one waits for its lock, or if somebody
 * else makes it, what the statement sees is out of date: then it writes nothing and returns no row. The version of the session's row
 * (`xmin`) shows that, since it is compared again behind the lock: whoever adds a plan to a session, or ends one, changes that row.
 */
const insertPlan = (sql: SqlClient.SqlClient, plan: NewPlan, limits: Limits) => {
  const { caller, echo, leaseTtl, new_session_id, replica, request, storedRequest } = plan
  const named = request.session_id ?? null
  const now = fromMillis(plan.createdAt)
  const agents = request.agents.map((agent) => ({ name: agent.name, agent: JSON.stringify(summary(agent)) }))
  const webhooks = plan.webhooks.map((webhook, position) => ({ ...webhook, position }))
  const mayHold = leaseTtl !== undefined
  const isBranch =
    plan.follows === undefined
      ? sql`false`
      : sql`exists (select from plans f join plans p on p.session_id = f.session_id and p.ordinal > f.ordinal
    where f.id = ${plan.follows} and f.session_id = s.id)`
  return sql<CreatedRow>`
with seen as materialized (
  select id, xmin as version from sessions where owner = ${caller} and id in (${named}, ${new_session_id})
  union all
  select id, xmin from sessions where owner = ${caller} and external_id = ${named}
  limit 1
), locked as materialized (
  select s.id, s.external_id, s.fence from seen join sessions s on s.id = seen.id and s.xmin = seen.version
  for no key update of s
), made as (
  insert into sessions (id, owner, external_id, fence, created_at, last_active_at, expires_at, ttl_ms)
  select ${new_session_id}, ${caller}, ${named}, ${mayHold ? 1 : 0}, ${now}::timestamptz, ${now}::timestamptz,
    ${expiresAt(sql, plan, limits, newTtl(sql, plan))}, ${newTtl(sql, plan)}
  where not exists (select from seen)
  on conflict (owner, external_id) do nothing
  returning id, external_id
), session as materialized (
  select s.*, (select count(*) from plans p where p.session_id = s.id and p.state in ('queued', 'running', 'waiting')) as open_plans,
    ${isBranch} as is_branch
  from (select id, external_id, fence + 1 as next_fence from locked union all select id, external_id, 1 from made) s
), leased as (
  insert into leases as l (session_id, replica, fence, expires_at)
  select id, ${replica}, next_fence, clock_timestamp() + ${Duration.toMillis(leaseTtl ?? Duration.zero)} * interval '1 millisecond'
  from session where ${mayHold} and open_plans = 0 and not is_branch
  on conflict (session_id) do update
    set replica = excluded.replica, fence = excluded.fence, expires_at = excluded.expires_at
    where l.expires_at <= now()
  returning fence
), plan as (
  insert into plans (id, session_id, owner, replica, state, stage, fence, model, preset, question, question_hash, preferences, metadata, route, cost_usd,
    request, request_secrets, key_id, echo, gist, task_id, task_message, usage, created_at, deadline_at, ends_at)
  select ${plan.plan_id}, s.id, ${caller}, ${replica}, case when l.fence is null then 'queued' else 'running' end,
    case when l.fence is null then 'queue' end, coalesce(l.fence, 0), ${plan.model}, ${request.preset ?? null}, ${storable(request.question)},
    ${createHash("sha256").update(request.question).digest("hex")}, ${JSON.stringify(request.preferences)}::json,
    ${JSON.stringify(request.metadata)}::json, ${JSON.stringify(plan.route)}::json, ${plan.cost_usd}::float8,
    ${JSON.stringify(storedRequest.request)}::json, ${storedRequest.secrets}, ${request.asker?.key_id ?? null}, ${echo === null ? null : JSON.stringify(echo)}::json,
    ${PlanGist.encode(PlanGist.upTo(1))}::json,
    ${request.task_message?.task_id ?? null}, ${request.task_message === undefined ? null : JSON.stringify(request.task_message)}::json, ${JSON.stringify(Usage.empty)}::json,
    ${now}::timestamptz, ${fromMillis(plan.deadline)}::timestamptz,
    clock_timestamp() + ${plan.deadline - plan.createdAt} * interval '1 millisecond'
  from session s left join leased l on true
  where open_plans <= ${isAlone(plan) ? 0 : limits.maxQueue} and not is_branch
  returning id, session_id
), agents as (
  insert into session_agents (session_id, name, agent)
  select plan.session_id, a.name, a.agent::json
  from plan, json_to_recordset(${JSON.stringify(agents)}::json) as a(name text, agent text)
  on conflict (session_id, name) do update set agent = excluded.agent
), event as (
  insert into events (plan_id, seq, at, count, event, payload)
  select plan.id, 1, ${now}::timestamptz, 1, 'session', '{"external_session_id":' || coalesce(to_json(s.external_id)::text, 'null') ||
    ',"created":' || (s.id = ${new_session_id})::text || '}'
  from plan, session s
), replica as (
  -- A new replica has not renewed yet. Without this row it would count as dead, and its plan as abandoned.
  insert into replicas (id, expires_at, channel, ${sql.literal(toldColumns)})
  select ${replica}, clock_timestamp() + interval '10 seconds', '', ${sql.literal(toldValues)} from plan
  on conflict do nothing
${
  webhooks.length === 0
    ? sql``
    : sql`), webhooks as (
  insert into push_targets (task_id, id, owner, url, wire, secrets, replica, fence, plan, seq, is_over, events, webhook)
  select plan.id, 'webhook_' || w.position, ${caller}, w.url, ${webhookWire}, w.secrets, ${replica}, 0, 0, 0, true,
    array(select json_array_elements_text(w.events)), w.settings
  from plan, json_to_recordset(${JSON.stringify(webhooks)}::json) as w(
    position int, url text, secrets text, events json, settings json)
  order by w.position
`
}), touched as (
  update sessions s set last_active_at = ${now}::timestamptz, expires_at = ${expiresAt(sql, plan, limits, sql`s.ttl_ms`)},
    fence = coalesce((select fence from leased), s.fence)
  from locked, plan where s.id = locked.id
)
select id as session_id, external_id as external_session_id, exists (select from plan) as is_stored, is_branch,
  (select fence from leased) as fence
from session`
}

/** The first messages of a new session. */
const insertHistory = (sql: SqlClient.SqlClient, { plan_id, messages, createdAt }: NewPlan, session: SessionId) => {
  const rows = messages.map(({ message_id, role, parts }, index) => ({
    seq: index + 1,
    id: message_id,
    role,
    parts: JSON.stringify(parts)
  }))
  return sql`
with numbered as (
  update sessions set last_seq = ${rows.length} where id = ${session}
)
insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
select ${session}, m.seq, m.id, ${plan_id}, m.role, m.parts::json, ${fromMillis(createdAt)}::timestamptz
from json_to_recordset(${JSON.stringify(rows)}::json) as m(seq int, id text, role text, parts text)`
}

interface PriorsRow {
  readonly summary: string | null
  readonly priors: ReadonlyArray<string> | null
  readonly prior_seq: number
}

/** Reads and numbers the prior summaries while the transaction holds the lock on the session. */
const insertPriorSummary = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, given: string, session: SessionId) {
  const [row] = yield* sql<PriorsRow>`
select s.summary, p.priors, coalesce(p.prior_seq, 0) as prior_seq
from sessions s, (
  select json_agg(summary order by seq) as priors, max(seq) as prior_seq from prior_summaries where session_id = ${session}
) p
where s.id = ${session}`
  const kept = { summary: row?.summary ?? null, priors: row?.priors ?? [] }
  const prior = yield* Effect.fromResult(newPrior(kept, given))
  if (prior === "") return
  yield* sql`
insert into prior_summaries (session_id, seq, summary) values (${session}, ${(row?.prior_seq ?? 0) + 1}, ${prior})`
})

const notNew = new InvalidRequest({
  issues: [{ path: ["history"], message: "Expected no history: the session is there already, and has its own" }]
})

/** What the session is for the plan; fails if it has too many plans, or another last one. */
const toSession = (plan: NewPlan, { maxQueue }: Limits, { fence, is_branch, is_stored, ...session }: CreatedRow) => {
  if (is_branch) return notLast
  return is_stored
    ? Effect.succeed({
        ...session,
        created: session.session_id === plan.new_session_id,
        fence: fence ?? undefined,
        dropped: []
      })
    : new SessionBusy({
        message: isAlone(plan) ? "The session has a plan that is not over" : `${maxQueue} plans wait for the session`
      })
}

/**
 * The session has the files of the question from now on, and those of the messages that it begins with, as far as they are there. It locks them: whoever deletes one of them meanwhile waits, and finds it in use, or has deleted it
 * before.
 */
const linkFiles = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { caller, filesQuota = Infinity, messages, request }: NewPlan,
  session: SessionId
) {
  const asked = FileStore.idsOf(request.question_parts)
  const ids = [...new Set([...asked, ...FileStore.idsTold(messages)])]
  if (ids.length === 0) return
  const there = yield* sql<{ readonly id: string }>`
select id from files where ${sql.in("id", ids)} and owner = ${caller} and state = 'kept' order by id for share`
  const found = there.map(({ id }) => id)
  if (!asked.every((id) => found.includes(id))) return yield* FileStore.gone
  if (found.length === 0) return
  yield* sql`
insert into session_files (session_id, file_id) select ${session}, id from files where ${sql.in("id", found)}
on conflict do nothing`
  const [all] = yield* sql<{ readonly bytes: bigint }>`
select coalesce(sum(f.bytes), 0)::bigint as bytes from session_files j join files f on f.id = j.file_id
where j.session_id = ${session}`
  if (Number(all?.bytes ?? 0) > filesQuota) return yield* FileStore.sessionQuotaExceeded(filesQuota)
})

/** An echo is compared as it was written: Postgres cannot read into a document that contains an escaped NUL. */
const dropReplaced = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  { echo, plan_id }: NewPlan,
  session: SessionId
) {
  const replaced = yield* sql<{ readonly id: PlanId }>`
select id from plans where session_id = ${session} and id <> ${plan_id} and echo::text = ${JSON.stringify(echo)}`
  return yield* dropFrom(
    sql,
    session,
    replaced.map(({ id }) => questionId(id))
  )
})

/** Locks the session first, and looks at it behind the lock. */
const createInSteps = (sql: SqlClient.SqlClient, plan: NewPlan, limits: Limits) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const [session] = yield* upsertSession(sql, plan, limits)
      if (session === undefined) return yield* Effect.die("An upsert gave no session")
      if (plan.idempotency !== null) yield* takeKey(sql, plan, plan.idempotency)
      if (plan.firing !== undefined) yield* takeFiring(sql, plan, plan.firing)
      if (session.session_id !== plan.new_session_id && plan.messages.length > 0) return yield* notNew
      const [row] = yield* insertPlan(sql, plan, limits)
      if (row === undefined) return yield* Effect.die("A locked session was not found")
      const created = yield* toSession(plan, limits, row)
      yield* linkFiles(sql, plan, created.session_id)
      const dropped = plan.replaces ? yield* dropReplaced(sql, plan, created.session_id) : []
      if (plan.messages.length > 0) yield* insertHistory(sql, plan, session.session_id)
      const { prior_summary = "" } = plan.request
      if (prior_summary !== "") yield* insertPriorSummary(sql, storable(prior_summary), session.session_id)
      return { ...created, dropped }
    })
  )

/** One statement is enough, unless the request brings what has to be checked, or somebody else is changing the session. */
export const createPlan = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, plan: NewPlan, limits: Limits) {
  const isPlain =
    !plan.replaces &&
    plan.idempotency === null &&
    plan.firing === undefined &&
    plan.messages.length === 0 &&
    plan.request.question_parts === undefined &&
    (plan.request.prior_summary ?? "") === ""
  const [row] = isPlain ? yield* insertPlan(sql, plan, limits) : []
  return yield* row === undefined ? createInSteps(sql, plan, limits) : toSession(plan, limits, row)
})

/** The webhooks of a plan are those of the plan that continues it, too. */
export const copyWebhooks = (sql: SqlClient.SqlClient, from: PlanId, { plan_id, replica }: NewPlan) => sql`
insert into push_targets (task_id, id, owner, url, wire, secrets, replica, fence, plan, seq, is_over, events, webhook)
select ${plan_id}, id, owner, url, wire, secrets, ${replica}, 0, 0, 0, true, events, webhook
from push_targets where task_id = ${from} and events is not null order by ordinal`
