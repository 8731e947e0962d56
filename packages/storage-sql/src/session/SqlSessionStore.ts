import type { AgentSummary } from "@bowline/domain/peer/Agent"
import { NotFound } from "@bowline/domain/plan/Refusal"
import type { Message } from "@bowline/domain/session/Message"
import type { Session } from "@bowline/domain/session/Session"
import { handedBack } from "@bowline/domain/tool/TaskState"
import { type HandedBack, SessionStore } from "@bowline/runtime/session/SessionStore"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { newestFirst } from "../internal/NewestFirst.ts"
import { storageError } from "../internal/StorageErrors.ts"

type SessionRow = Omit<Session, "created_at" | "last_active_at" | "expires_at" | "agents"> & {
  readonly ordinal: bigint
  readonly created_at: Date
  readonly last_active_at: Date
  readonly expires_at: Date
  readonly agents: ReadonlyArray<AgentSummary> | null
}

const sessionColumns = `s.id as session_id, s.external_id as external_session_id, s.created_at, s.last_active_at, s.expires_at,
  s.summary, s.last_seq as message_count, s.ordinal,
  (select json_agg(a.agent order by a.ordinal) from session_agents a where a.session_id = s.id) as agents`

const toSession = (row: SessionRow): Session => ({
  session_id: row.session_id,
  external_session_id: row.external_session_id,
  created_at: row.created_at.toISOString(),
  last_active_at: row.last_active_at.toISOString(),
  expires_at: row.expires_at.toISOString(),
  summary: row.summary,
  agents: row.agents ?? [],
  message_count: row.message_count
})

type MessageRow = Omit<Message, "created_at"> & { readonly created_at: Date }

const messageColumns = "id as message_id, seq, role, parts, plan_id, created_at, compacted_by is not null as compacted"

const toMessage = (row: MessageRow): Message => ({ ...row, created_at: row.created_at.toISOString() })

const make = (sql: SqlClient.SqlClient): SessionStore["Service"] => ({
  find: (owner, id) =>
    storageError(sql<SessionRow>`
select ${sql.literal(sessionColumns)} from sessions s
where s.owner = ${owner} and s.id = ${id}
union all
select ${sql.literal(sessionColumns)} from sessions s
where s.owner = ${owner} and s.external_id = ${id}`).pipe(
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(new NotFound({ what: "session" })) : Effect.succeed(toSession(row))
      )
    ),
  list: (owner, { limit, cursor }) =>
    storageError(sql<SessionRow>`
select ${sql.literal(sessionColumns)} from sessions s
where s.owner = ${owner} ${cursor === undefined ? sql`` : sql`and s.ordinal < ${cursor}`}
order by s.ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toSession))),
  messages: (session, { limit, cursor = 0 }) =>
    storageError(sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and seq > ${cursor} and not reverted
order by seq limit ${limit + 1}`).pipe(
      Effect.map((rows) => {
        const items = rows.slice(0, limit).map(toMessage)
        return { items, next: rows.length > limit ? (items.at(-1)?.seq ?? null) : null }
      })
    ),
  history: (session) =>
    storageError(sql<MessageRow>`
select ${sql.literal(messageColumns)} from messages
where session_id = ${session} and compacted_by is null and not reverted
order by seq`).pipe(Effect.map((rows) => rows.map(toMessage))),
  handedBack: (session) =>
    storageError(sql<HandedBack>`
select agent, endpoint, skill, remote_task_id, remote_context_id
from (
  select distinct on (t.agent, t.endpoint, t.skill) t.*
  from plans p join tasks t on t.plan_id = p.id
  where p.session_id = ${session} and t.agent is not null and t.endpoint is not null and t.skill is not null
    and t.remote_task_id is not null
  order by t.agent, t.endpoint, t.skill, t.ordinal desc
) newest
where ${sql.in("state", Array.from(handedBack))}
order by ordinal`)
})

export const layer = Layer.effect(SessionStore, Effect.map(SqlClient.SqlClient, make))
