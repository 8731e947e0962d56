import { summary } from "@bowline/domain/peer/Agent"
import { InvalidRequest, SessionBusy } from "@bowline/domain/plan/Refusal"
import * as Usage from "@bowline/domain/plan/Usage"
import type { ExternalSessionId, SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import type { NewPlan } from "@bowline/runtime/store/PlanStore"
import { newPrior } from "@bowline/runtime/store/PriorSummaries"
import { fromEvents } from "@bowline/runtime/store/EventRow"
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { storable } from "../../internal/Storable.ts"
import { takeKey } from "./IdempotencyKeys.ts"

interface SessionRow {
  readonly session_id: SessionId
  readonly external_session_id: ExternalSessionId | null
}

/** Finds or creates the session, and locks it until the transaction ends. */
const upsertSession = (sql: SqlClient.SqlClient, plan: NewPlan, sessionTtl: Duration.Duration) => {
  const { caller, request, new_session_id } = plan
  const named = request.session_id ?? null
  const now = fromMillis(plan.createdAt)
  const expires = sql`${now}::timestamptz + ${Duration.toMillis(sessionTtl)} * interval '1 millisecond'`
  return sql<SessionRow>`
with named as (
  update sessions set last_active_at = ${now}, expires_at = ${expires}
  where id = ${named} and owner = ${caller}
  returning id, external_id
), upserted as (
  insert into sessions (id, owner, external_id, created_at, last_active_at, expires_at)
  select ${new_session_id}, ${caller}, ${named}, ${now}, ${now}, ${expires}
  where not exists (select from named)
  on conflict (owner, external_id) do update
    set last_active_at = excluded.last_active_at, expires_at = excluded.expires_at
  returning id, external_id
)
select id as session_id, external_id as external_session_id from named
union all
select id, external_id from upserted`
}

/** Inserts the plan, unless more than `maxOpen` plans of the session are queued or running. Returns whether it did. */
const insertPlan = (sql: SqlClient.SqlClient, plan: NewPlan, session: SessionRow, maxOpen: number) => {
  const { session_id, external_session_id } = session
  const created = session_id === plan.new_session_id
  const events = fromEvents(1, [{ event: "session", data: { external_session_id, created } }])
  const { request, storedRequest } = plan
  const agents = request.agents.map((agent) => ({ name: agent.name, agent: JSON.stringify(summary(agent)) }))
  return sql<{ readonly is_stored: boolean }>`
with open_plans as (
  select count(*) as count from plans where session_id = ${session_id} and state in ('queued', 'running')
), plan as (
  insert into plans (id, session_id, owner, replica, model, preset, question, question_hash, preferences, metadata, route,
    request, request_secrets, usage, created_at, deadline_at)
  select ${plan.plan_id}, ${session_id}, ${plan.caller}, ${plan.replica}, ${plan.model}, ${request.preset ?? null}, ${storable(request.question)},
    ${createHash("sha256").update(request.question).digest("hex")}, ${JSON.stringify(request.preferences)}::json,
    ${JSON.stringify(request.metadata)}::json, ${JSON.stringify(plan.route)}::json,
    ${storedRequest === null ? null : JSON.stringify(storedRequest.request)}::json, ${storedRequest?.secrets ?? null}, ${JSON.stringify(Usage.empty)}::json,
    ${fromMillis(plan.createdAt)}::timestamptz, ${fromMillis(plan.deadline)}::timestamptz
  from open_plans where count <= ${maxOpen}
  returning id
), agents as (
  insert into session_agents (session_id, name, agent)
  select ${session_id}, a.name, a.agent::json
  from plan, json_to_recordset(${JSON.stringify(agents)}::json) as a(name text, agent text)
  on conflict (session_id, name) do update set agent = excluded.agent
), event as (
  insert into events (plan_id, seq, count, event, payload)
  select plan.id, e.seq, e.count, e.event, e.payload
  from plan, json_to_recordset(${JSON.stringify(events)}::json) as e(seq int, count int, event text, payload text)
), replica as (
  -- A new replica has not renewed yet. Without this row it would count as dead, and its plan as abandoned.
  insert into replicas (id, expires_at) select ${plan.replica}, now() + interval '10 seconds' from plan
  on conflict do nothing
)
select exists (select from plan) as is_stored`
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

export const createPlan = (sql: SqlClient.SqlClient, plan: NewPlan, maxQueue: number, sessionTtl: Duration.Duration) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const [session] = yield* upsertSession(sql, plan, sessionTtl)
      if (session === undefined) return yield* Effect.die("An upsert gave no session")
      if (plan.idempotency !== null) yield* takeKey(sql, plan, plan.idempotency)
      const created = session.session_id === plan.new_session_id
      if (!created && plan.messages.length > 0) return yield* notNew
      const isAlone = plan.request.preferences.on_busy === "reject"
      // One plan has the session; the others wait for it.
      const [result] = yield* insertPlan(sql, plan, session, isAlone ? 0 : maxQueue)
      if (result?.is_stored !== true) {
        return yield* new SessionBusy({
          message: isAlone ? "The session has a plan that is not over" : `${maxQueue} plans wait for the session`
        })
      }
      if (plan.messages.length > 0) yield* insertHistory(sql, plan, session.session_id)
      const { prior_summary = "" } = plan.request
      if (prior_summary !== "") yield* insertPriorSummary(sql, storable(prior_summary), session.session_id)
      return { ...session, created }
    })
  )
