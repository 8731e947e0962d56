import type { CallerName } from "@bowline/domain/caller/CallerName"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message, MessageId, NewMessage } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import { handedBack } from "@bowline/domain/tool/TaskState"
import { LeaseLost } from "@bowline/runtime/unstable/store/LeaseStore"
import { type Compaction, type HandedBack, type NewSession, noPlan } from "@bowline/runtime/unstable/store/SessionStore"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { storable } from "../../internal/Storable.ts"

/** Locks the session until the transaction ends. Fails if its fence is another one. */
const lock = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, session: SessionId, fence: number) {
  const [row] = yield* sql<{ readonly covered_seq: number; readonly summary: string | null }>`
select covered_seq, summary from sessions where id = ${session} and fence = ${fence} for no key update`
  return row ?? (yield* new LeaseLost())
})

const seqOf = (sql: SqlClient.SqlClient, session: SessionId, message: MessageId) =>
  sql<{ readonly seq: number }>`
select seq from messages where id = ${message} and session_id = ${session} and not reverted`.pipe(
    Effect.map(([row]) => row?.seq)
  )

export const compact = (sql: SqlClient.SqlClient, session: SessionId, fence: number, compaction: Compaction) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const before = yield* lock(sql, session, fence)
      const seq = yield* seqOf(sql, session, compaction.through)
      const summary = storable(compaction.summary)
      if (seq === undefined) return yield* new LeaseLost()
      // An earlier try was stored, and its answer was lost.
      if (before.covered_seq === seq && before.summary === summary) return
      if (before.covered_seq !== compaction.covered_seq || seq <= before.covered_seq) return yield* new LeaseLost()
      yield* sql`
with covered as (
  update messages set compacted_by = ${compaction.id}
  where session_id = ${session} and seq <= ${seq} and compacted_by is null and not reverted
)
update sessions set summary = ${summary}, covered_seq = ${seq}, covered_priors = ${compaction.prior_seq}
where id = ${session}`
    })
  )

/** Writes messages that no plan has said, behind the last one of the session, which is locked. The session lives on for as long as it had behind its last activity. */
const insertMessages = (
  sql: SqlClient.SqlClient,
  session: SessionId,
  messages: ReadonlyArray<NewMessage>,
  at: string
) => {
  const rows = messages.map(({ message_id, role, parts }, index) => ({
    place: index + 1,
    id: message_id,
    role,
    parts: JSON.stringify(parts)
  }))
  return sql`
with numbered as (
  update sessions set last_seq = last_seq + ${rows.length}, last_active_at = ${at}::timestamptz,
    expires_at = greatest(expires_at, ${at}::timestamptz + (expires_at - last_active_at))
  where id = ${session}
  returning last_seq - ${rows.length} as last
)
insert into messages (session_id, seq, id, plan_id, role, parts, created_at)
select ${session}, n.last + m.place, m.id, ${noPlan}, m.role, m.parts::json, ${at}::timestamptz
from numbered n, json_to_recordset(${JSON.stringify(rows)}::json) as m(place int, id text, role text, parts text)`
}

export const open = (sql: SqlClient.SqlClient, owner: CallerName, session: NewSession) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const { at, expires_at, external_session_id, messages, metadata, prior_summary = "", session_id } = session
      yield* sql`
insert into sessions (id, owner, external_id, created_at, last_active_at, expires_at, metadata)
values (${session_id}, ${owner}, ${external_session_id}, ${at}, ${at}, ${expires_at}, ${JSON.stringify(metadata)}::json)`
      if (prior_summary !== "") {
        yield* sql`
insert into prior_summaries (session_id, seq, summary) values (${session_id}, 1, ${storable(prior_summary)})`
      }
      if (messages.length > 0) yield* insertMessages(sql, session_id, messages, at)
    })
  )

export const append = (
  sql: SqlClient.SqlClient,
  session: SessionId,
  fence: number,
  messages: ReadonlyArray<NewMessage>,
  at: string
) =>
  sql.withTransaction(
    Effect.gen(function* () {
      yield* lock(sql, session, fence)
      yield* insertMessages(sql, session, messages, at)
    })
  )

const dropSummary = (sql: SqlClient.SqlClient, session: SessionId) => sql`
with uncovered as (
  update messages set compacted_by = null where session_id = ${session} and compacted_by is not null and not reverted
)
update sessions set summary = null, covered_seq = 0, covered_priors = 0 where id = ${session}`

/** Finds calls here and not in SQL: Postgres cannot read into a document that contains an escaped NUL. */
const callsIn = (messages: ReadonlyArray<Pick<Message, "plan_id" | "parts">>) =>
  messages.flatMap(({ plan_id, parts }) =>
    parts.flatMap((part) => (part.type === "tool_call" ? [{ plan_id, id: part.task_id }] : []))
  )

/** Drops the messages behind `seq`. The session is locked. */
const dropBehind = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: SessionId,
  { covered_seq, seq }: { readonly covered_seq: number; readonly seq: number }
) {
  const dropped = yield* sql<Pick<Message, "plan_id" | "parts">>`
update messages set reverted = true where session_id = ${session} and seq > ${seq} and not reverted
returning plan_id, parts`
  yield* sql`update sessions set reverted_count = reverted_count + ${dropped.length} where id = ${session}`
  if (seq < covered_seq) yield* dropSummary(sql, session)
  const calls = callsIn(dropped)
  if (calls.length === 0) return []
  return yield* sql<HandedBack>`
with dropped as (
  update tasks t set reverted = true
  from json_to_recordset(${JSON.stringify(calls)}::json) as c(plan_id text, id text)
  where t.plan_id = c.plan_id and t.id = c.id
  returning t.*
)
select d.agent, d.endpoint, d.skill, d.remote_task_id, d.remote_context_id, p.preset
from dropped d join plans p on p.id = d.plan_id
where d.agent is not null and d.endpoint is not null and d.skill is not null and d.remote_task_id is not null
  and ${sql.in("d.state", Array.from(handedBack))}
order by d.ordinal`
})

export const revert = (sql: SqlClient.SqlClient, session: SessionId, fence: number, to: MessageId) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const { covered_seq } = yield* lock(sql, session, fence)
      const seq = yield* seqOf(sql, session, to)
      if (seq === undefined) return yield* new NotFound({ what: "message" })
      return yield* dropBehind(sql, session, { covered_seq, seq })
    })
  )

/** Drops the first of these messages that the session still has, and all behind it. The session is locked. */
export const dropFrom = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  session: SessionId,
  messages: ReadonlyArray<MessageId>
) {
  if (messages.length === 0) return []
  const [first] = yield* sql<{ readonly seq: number; readonly covered_seq: number }>`
select m.seq, s.covered_seq from messages m join sessions s on s.id = m.session_id
where m.session_id = ${session} and ${sql.in("m.id", messages)} and not m.reverted
order by m.seq limit 1`
  return first === undefined ? [] : yield* dropBehind(sql, session, { ...first, seq: first.seq - 1 })
})
