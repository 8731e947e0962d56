import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { AgentSummary } from "@bowline/domain/peer/Agent"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { Session } from "@bowline/domain/session/Session"
import type { ListedSession } from "@bowline/domain/unstable/session/ListedSession"
import { handedBack } from "@bowline/domain/tool/TaskState"
import {
  type HandedBack,
  type RecentRequest,
  type SessionMetadata,
  SessionStore
} from "@bowline/runtime/unstable/store/SessionStore"
import { shownSummary } from "@bowline/runtime/unstable/store/PriorSummaries"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { newestFirst } from "../internal/NewestFirst.ts"
import { deadlines, makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { append, compact, open, revert } from "./internal/ChangeHistory.ts"
import { deleteSession, sweep } from "./internal/DeleteSessions.ts"

interface SummaryRow {
  readonly summary: string | null
  readonly priors: ReadonlyArray<string> | null
}

/** The summary, and those prior summaries of callers that are not in it yet. */
const summaryColumns = `s.summary,
  (select json_agg(p.summary order by p.seq) from prior_summaries p
    where p.session_id = s.id and p.seq > s.covered_priors) as priors`

type SessionRow = SummaryRow &
  Omit<Session, "created_at" | "last_active_at" | "expires_at" | "agents"> & {
    readonly ordinal: bigint
    readonly created_at: Date
    readonly last_active_at: Date
    readonly expires_at: Date
    readonly agents: ReadonlyArray<AgentSummary> | null
  }

const sessionColumns = `s.id as session_id, s.external_id as external_session_id, s.created_at, s.last_active_at,
  greatest(s.expires_at, (
    select max(w.expires_at) from plans p join waits w on w.plan_id = p.id
    where p.session_id = s.id and p.state in ('queued', 'running', 'waiting')
      and w.settled_by is null and w.decision is null and not w.is_expired)) as expires_at,
  ${summaryColumns}, s.last_seq - s.reverted_count as message_count, s.ordinal,
  (select json_agg(a.agent order by a.ordinal) from session_agents a where a.session_id = s.id) as agents`

type ListedRow = SessionRow & Pick<ListedSession, "first_question" | "last_plan">

const listedColumns = `${sessionColumns},
  (select left(p.question, 200) from plans p where p.session_id = s.id order by p.ordinal limit 1) as first_question,
  (select json_build_object('plan_id', p.id, 'state', p.state, 'stage', p.stage) from plans p
    where p.session_id = s.id order by p.ordinal desc limit 1) as last_plan`

const toSession = (row: SessionRow): Session => ({
  session_id: row.session_id,
  external_session_id: row.external_session_id,
  created_at: row.created_at.toISOString(),
  last_active_at: row.last_active_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  summary: shownSummary({ text: row.summary, priors: row.priors ?? [] }),
  agents: row.agents ?? [],
  message_count: row.message_count
})

const toListed = (row: ListedRow): ListedSession => ({
  ...toSession(row),
  first_question: row.first_question,
  last_plan: row.last_plan
})

/** Sessions by their activity, by an index. */
export const listRecent = (sql: SqlClient.SqlClient, owner: CallerName, { cursor, limit }: RecentRequest) =>
  sql<ListedRow>`
select ${sql.literal(listedColumns)} from sessions s
where s.owner = ${owner} ${
    cursor === undefined
      ? sql``
      : sql`and (s.last_active_at, s.ordinal) < (${cursor.at}::timestamptz, ${cursor.ordinal})`
  }
order by s.last_active_at desc, s.ordinal desc limit ${limit + 1}`

type MessageRow = Omit<Message, "created_at"> & { readonly created_at: Date }

const messageColumns = "id as message_id, seq, role, parts, plan_id, created_at, compacted_by is not null as compacted"

const toMessage = (row: MessageRow): Message => ({ ...row, created_at: row.created_at.toISOString() })

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): SessionStore["Service"] => ({
  // No id contains a NUL, and Postgres rejects a parameter that does.
  find: (owner, id) =>
    (id.includes("\0")
      ? Effect.succeed([])
      : withDeadline(sql<SessionRow>`
select ${sql.literal(sessionColumns)} from sessions s
where s.owner = ${owner} and s.id = ${id}
union all
select ${sql.literal(sessionColumns)} from sessions s
where s.owner = ${owner} and s.external_id = ${id}`)
    ).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "session" })) : Effect.succeed(toSession(row))
      )
    ),
  list: (owner, { limit, cursor }) =>
    withDeadline(sql<ListedRow>`
select ${sql.literal(listedColumns)} from sessions s
where s.owner = ${owner} ${cursor === undefined ? sql`` : sql`and s.ordinal < ${cursor}`}
order by s.ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toListed))),
  recent: (owner, page) =>
    Effect.map(withDeadline(listRecent(sql, owner, page)), (rows) => {
      const shown = rows.slice(0, page.limit)
      const last = shown.at(-1)
      const hasMore = rows.length > page.limit && last !== undefined
      const next = hasMore ? { at: last.last_active_at.toISOString(), ordinal: Number(last.ordinal) } : null
      return { items: shown.map(toListed), next }
    }),
  messages: (session, { limit, cursor = 0, newestFirst = false, withReverted = false }) =>
    withDeadline(
      newestFirst
        ? sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and (${cursor}::int = 0 or seq < ${cursor}) and not reverted
order by seq desc limit ${limit + 1}`
        : sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and seq > ${cursor} and (${withReverted}::boolean or not reverted)
order by seq limit ${limit + 1}`
    ).pipe(
      Effect.map((rows) => {
        const items = rows.slice(0, limit).map(toMessage)
        return { items, next: rows.length > limit ? (items.at(-1)?.seq ?? null) : null }
      })
    ),
  message: (session, id) =>
    withDeadline(sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and id = ${id} and not reverted`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "message" })) : Effect.succeed(toMessage(row))
      )
    ),
  history: (session) =>
    withDeadline(sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and compacted_by is null and not reverted
order by seq`).pipe(Effect.map((rows) => rows.map(toMessage))),
  summary: (session) =>
    withDeadline(sql<SummaryRow & { readonly covered_seq: number; readonly prior_seq: number }>`
select ${sql.literal(summaryColumns)}, s.covered_seq,
  coalesce((select max(p.seq) from prior_summaries p where p.session_id = s.id), 0) as prior_seq
from sessions s where s.id = ${session}`).pipe(
      Effect.map(([row]) => ({
        text: row?.summary ?? null,
        covered_seq: row?.covered_seq ?? 0,
        priors: row?.priors ?? [],
        prior_seq: row?.prior_seq ?? 0
      }))
    ),
  handedBack: (session) =>
    withDeadline(sql<HandedBack>`
with called as (
  select t.agent, t.endpoint, t.skill, t.remote_task_id, t.remote_context_id, t.state, t.ordinal, p.preset,
    bool_or(t.reverted) over (partition by t.endpoint, t.remote_task_id) as is_reverted,
    max(t.ordinal) over (partition by t.endpoint, t.remote_task_id, t.agent, t.skill) as newest
  from plans p join tasks t on t.plan_id = p.id
  where p.session_id = ${session} and t.endpoint is not null and t.remote_task_id is not null
), waiting as (
  select distinct on (agent, endpoint, skill) agent, endpoint, skill, remote_task_id, remote_context_id, preset, ordinal
  from called
  where ordinal = newest and not is_reverted and agent is not null and skill is not null
    and ${sql.in("state", Array.from(handedBack))}
  order by agent, endpoint, skill, ordinal desc
)
select agent, endpoint, skill, remote_task_id, remote_context_id, preset from waiting
order by ordinal`),
  open: (owner, session) => Effect.asVoid(withDeadline(open(sql, owner, session))),
  append: (session, fence, messages, at) => Effect.asVoid(withDeadline(append(sql, session, fence, messages, at))),
  metadata: (session) =>
    withDeadline(sql<{ readonly metadata: SessionMetadata | null }>`
select metadata from sessions where id = ${session}`).pipe(Effect.map(([row]) => row?.metadata ?? {})),
  describe: (session, metadata) =>
    withDeadline(sql`update sessions set metadata = ${JSON.stringify(metadata)}::json where id = ${session}`).pipe(
      Effect.asVoid
    ),
  compact: (session, fence, compaction) => withDeadline(compact(sql, session, fence, compaction)),
  revert: (session, fence, to) => withDeadline(revert(sql, session, fence, to)),
  delete: (session, unless) => withDeadline(deleteSession(sql, session, unless), deadlines.long),
  sweep: (now) => withDeadline(sweep(sql, now), deadlines.long)
})

export const layer = Layer.effect(
  SessionStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
