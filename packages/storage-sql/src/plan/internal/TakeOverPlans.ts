import type { WokenBy } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Message } from "@bowline/domain/session/Message"
import { direct } from "@bowline/runtime/remote/PeerClient"
import type { EventRow } from "@bowline/runtime/unstable/store/EventRow"
import { emptyInbox } from "@bowline/runtime/unstable/store/InboxStore"
import { type AbandonedPlan, type StoredTask, unanswered } from "@bowline/runtime/unstable/store/PlanStore"
import type { ReplicaId } from "@bowline/runtime/unstable/store/LeaseStore"
import type { Preferences } from "@bowline/domain/plan/PlanRequest"
import { Duration, Effect, type Schema, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { toldAgain, toldColumns, toldValues } from "../../session/internal/ReplicaRow.ts"
import { eventTime, sameTime } from "./StoredEvent.ts"
import {
  boundWaits,
  contentColumns,
  type ContentRow,
  type DecidedRow,
  toContent,
  toWait,
  waitList
} from "./InboxRows.ts"
import { planColumns, type PlanRow, toPlan } from "./PlanRow.ts"
import { findBlocksBefore, unpack } from "../SealedEvents.ts"

type TakenRow = PlanRow & {
  readonly fence: number
  readonly owner: CallerName
  readonly request: Schema.Json
  readonly request_secrets: string | null
  readonly preferences: Preferences
  readonly deaths: number
  readonly woken_by: WokenBy | null
  readonly gist: Schema.Json | null
  readonly left_ms: number
}

interface Looking {
  readonly replica: ReplicaId
  /** Queued plans of the replica that it does not run. */
  readonly forgotten: ReadonlyArray<PlanId>
  /** Whether all open plans are looked at. */
  readonly isThorough: boolean
}

interface Taking extends Looking {
  readonly ttl: Duration.Duration
  readonly limit: number
  /** How many plans that something has woken it takes at most. */
  readonly places: number
}

/**
 * The plans that may be abandoned, found without those that are well: running ones whose session has a lease that is over, those that were handed over,
 * and queued ones of each replica that has any and is dead. `offset 0` has the dead found first, and the plans of each row looked up by their index.
 *
 * None of this shows a running plan whose session has no lease and which nobody has handed over. Such a plan is left by the version before, which deletes
 * leases that this one ends.
 */
const candidates = (sql: SqlClient.SqlClient, { forgotten, isThorough }: Looking) =>
  isThorough
    ? sql`candidates as materialized (select id from plans where state in ('queued', 'running'))`
    : sql`owners as (
  (select replica from plans where state = 'queued' order by replica limit 1)
  union all
  select (select p.replica from plans p where p.state = 'queued' and p.replica > o.replica order by p.replica limit 1)
  from owners o where o.replica is not null
), candidates as materialized (
  select p.id from leases l
  cross join lateral (select p.id from plans p where p.session_id = l.session_id and p.state = 'running' offset 0) p
  where l.expires_at <= now()
  union
  select id from plans where handed_over and state in ('queued', 'running')
  union
  select p.id from (
    select o.replica from owners o
    where o.replica is not null and not exists (
      select from replicas r where r.id = o.replica and r.expires_at > now()) offset 0
  ) o
  cross join lateral (select p.id from plans p where p.replica = o.replica and p.state = 'queued' offset 0) p
  ${forgotten.length === 0 ? sql`` : sql`union select id from plans where ${sql.in("id", forgotten)}`}
)`

/**
 * A queued plan is abandoned when its replica is dead, or has handed it over or forgotten it; a running one when nobody holds its session, even if its replica lives:
 * one that was paused for longer than a lease may not write, and its plan would never end.
 */
const abandoned = (sql: SqlClient.SqlClient, { forgotten, replica }: Looking) => sql`
  candidates c cross join lateral (select p.* from plans p where p.id = c.id offset 0) p
  where p.state in ('queued', 'running') and case
    when p.state = 'running' then not exists (
      select from leases l where l.session_id = p.session_id and l.expires_at > now())
    when p.replica = ${replica} then ${forgotten.length === 0 ? sql`false` : sql.in("p.id", forgotten)}
    else p.handed_over or not exists (
      select from replicas r where r.id = p.replica and r.expires_at > now())
  end`

/** The queued plans of a replica, and whether there is a plan to be taken over: one statement, whose cost does not grow with plans that are well. */
export const lookForAbandoned = (sql: SqlClient.SqlClient, replica: ReplicaId, isThorough: boolean) => {
  const looking = { replica, isThorough, forgotten: [] }
  return sql<{ readonly queued: ReadonlyArray<PlanId>; readonly is_any: boolean }>`
with recursive ${candidates(sql, looking)}
select (select coalesce(json_agg(id), '[]') from plans where replica = ${replica} and state = 'queued') as queued,
  exists (select from ${abandoned(sql, looking)}) as is_any`
}

/**
 * Rows that somebody else has locked are being written, or taken over: they are skipped, so that this waits for nobody and gives each plan to one
 * replica.
 */
const take = (sql: SqlClient.SqlClient, taking: Taking) => {
  const { limit, places, replica, ttl } = taking
  // The columns have milliseconds: rounded up, a plan would have more than its time.
  const thisMilli = sql.literal("date_trunc('milliseconds', clock_timestamp())")
  const expires = sql`clock_timestamp() + ${Duration.toMillis(ttl)} * interval '1 millisecond'`
  return sql<TakenRow>`
with recursive ${candidates(sql, taking)}, alive as (
  insert into replicas (id, expires_at, channel, ${sql.literal(toldColumns)}) values (${replica}, ${expires}, '', ${sql.literal(toldValues)})
  on conflict (id) do update set expires_at = excluded.expires_at, ${sql.literal(toldAgain)}
), dead as (
  delete from replicas where id in (
    select id from replicas where expires_at <= now() and id <> ${replica} for update skip locked)
), abandoned as materialized (
  select c.id, c.session_id, c.state, s.fence as session_fence
  from (
    select p.*, row_number() over (
      partition by p.left_ms is not null and p.abort_requested is null order by p.session_id, p.id) as position
    from ${abandoned(sql, taking)}
    order by p.session_id, p.id
  ) c
  cross join lateral (
    select s.fence from sessions s where s.id = c.session_id for no key update skip locked
  ) s
  cross join lateral (
    select from plans p where p.id = c.id and p.state = c.state and p.replica = c.replica and p.fence = c.fence
    for no key update skip locked
  ) p
  -- One that is to be aborted needs no place.
  where c.left_ms is null or c.abort_requested is not null or c.position <= ${places}
  limit ${limit}
), leased as (
  insert into leases as l (session_id, replica, fence, expires_at)
  select distinct on (session_id) session_id, ${replica}, session_fence + 1, ${expires}
  from abandoned where state = 'running' order by session_id
  on conflict (session_id) do update
    set replica = excluded.replica, fence = excluded.fence, expires_at = excluded.expires_at
    where l.expires_at <= now()
  returning session_id, fence
), fenced as (
  update sessions s set fence = l.fence from leased l where s.id = l.session_id
), taken as (
  update plans p set
    replica = ${replica},
    fence = coalesce(l.fence, p.fence + 1),
    deaths = p.deaths + case when p.state = 'running' and not p.handed_over and p.replica <> ${replica} then 1 else 0 end,
    handed_over = false,
    deadline_at = case when p.left_ms is null then p.deadline_at else ${thisMilli} + p.left_ms * interval '1 millisecond' end,
    ends_at = case when p.left_ms is null then p.ends_at else ${thisMilli} + p.left_ms * interval '1 millisecond' end,
    left_ms = null
  from abandoned a left join leased l on l.session_id = a.session_id and a.state = 'running'
  where p.id = a.id and (a.state = 'queued' or l.session_id is not null)
  returning p.*
)
select ${sql.literal(planColumns)}, p.fence, p.owner, p.request, p.request_secrets, p.preferences, p.deaths, p.woken_by, p.gist,
  extract(epoch from coalesce(p.ends_at, p.deadline_at) - clock_timestamp())::float8 * 1000 as left_ms
from taken p order by p.ordinal`
}

/**
 * The events of the plan `p` from its last `step` on, or all events that are not sealed if there is none. Walks back row by row along the primary key: a query
 * for the last `step` lets Postgres read everything before it, too, which can be a lot.
 */
const tail = `(
  with recursive tail as (
    (select * from events e where e.plan_id = p.id order by e.seq desc limit 1)
    union all
    select before.* from tail t
    cross join lateral (
      select * from events e where e.plan_id = t.plan_id and e.seq < t.seq order by e.seq desc limit 1
    ) before
    where t.event <> 'step'
  )
  select json_agg(e order by e.seq) from (select seq, ${eventTime}, count, event, payload from tail e) e
)`

const beginsTail = ({ event, seq }: EventRow): boolean => event === "step" || seq === 1

/** Puts in front of tails what is missing up to the last `step`: it was sealed while the plan waited. Walks back block by block. */
const addSealed = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  plans: ReadonlyArray<PlanId>,
  tails: Map<PlanId, ReadonlyArray<EventRow>>
) {
  const isShort = (plan: PlanId) => !tails.get(plan)?.some(beginsTail)
  for (let left = plans.filter(isShort); left.length > 0;) {
    const blocks = yield* findBlocksBefore(
      sql,
      left.map((plan_id) => ({ plan_id, seq: tails.get(plan_id)?.[0]?.seq }))
    )
    for (const { block, plan_id } of blocks) {
      const rows = unpack(block).map((row) => Struct.omit(row, ["record"]))
      const step = rows.findLastIndex(beginsTail)
      tails.set(plan_id, [...rows.slice(Math.max(step, 0)), ...(tails.get(plan_id) ?? [])])
    }
    left = blocks.map(({ plan_id }) => plan_id).filter(isShort)
  }
})

const tasks = `(
  select json_agg(t order by t.ordinal) from (
    select ordinal, id as task_id, tool, kind, agent, endpoint, skill, state, remote_task_id, remote_context_id, started_at
    from tasks where plan_id = p.id
  ) t
)`

/** The messages of the last step, which alone can have calls without a result. Walks back row by row along the primary key. */
const steps = `(
  with recursive step as (
    select last.* from (select * from messages m where m.session_id = p.session_id order by m.seq desc limit 1) last
    where last.plan_id = p.id
    union all
    select before.* from step s
    cross join lateral (
      select * from messages m where m.session_id = s.session_id and m.seq < s.seq order by m.seq desc limit 1
    ) before
    where s.role = 'tool' and before.plan_id = s.plan_id
  )
  select json_agg(json_build_object('parts', parts) order by seq) from step
)`

interface LeftRow extends ContentRow {
  readonly tail: ReadonlyArray<EventRow> | null
  readonly tasks: ReadonlyArray<StoredTask & { readonly ordinal: number }> | null
  readonly steps: ReadonlyArray<Pick<Message, "parts">> | null
  readonly waits: ReadonlyArray<DecidedRow> | null
}

/** What is left of these plans besides their rows. */
const readLeft = (sql: SqlClient.SqlClient, plans: ReadonlyArray<PlanId>) => sql<LeftRow>`
select ${sql.literal(`${contentColumns}, ${waitList} as waits, ${tail} as tail, ${tasks} as tasks, ${steps} as steps`)}
from plans p where ${sql.in("p.id", plans)}`

const toTask = ({ started_at, ...row }: StoredTask & { readonly ordinal: number }): StoredTask => ({
  ...Struct.omit(row, ["ordinal"]),
  started_at: sameTime(started_at)
})

const restOf = (plan: PlanId, left: LeftRow | undefined) => ({
  inbox: left === undefined ? emptyInbox(plan) : toContent(left),
  waits: (left?.waits ?? []).map(toWait),
  tasks: (left?.tasks ?? []).map(toTask),
  unanswered: unanswered(left?.steps ?? [])
})

/** Reads the rest in a statement of its own, behind the locks: a statement does not see what commits after it began. */
export const takeOverPlans = (sql: SqlClient.SqlClient, taking: Taking) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const taken = yield* take(sql, taking)
      if (taken.length === 0) return []
      const ids = taken.map(({ plan_id }) => plan_id)
      const left = new Map((yield* readLeft(sql, ids)).map((row) => [row.plan_id, row]))
      const tails = new Map(
        Array.from(left, ([plan, { tail }]) => [
          plan,
          (tail ?? []).map((row): EventRow => ({ ...row, at: sameTime(row.at) }))
        ])
      )
      yield* addSealed(sql, ids, tails)
      const isUnbound = Array.from(left.values()).some(({ waits }) => waits?.some(({ is_unbound }) => is_unbound))
      if (isUnbound) yield* boundWaits(sql, ids)
      return taken.map((row): AbandonedPlan => ({
        plan: toPlan(row),
        owner: row.owner,
        guard:
          row.state === "queued"
            ? { _tag: "Queued", replica: taking.replica, fence: row.fence }
            : { _tag: "Held", fence: row.fence },
        request: row.request === null ? null : { request: row.request, secrets: row.request_secrets },
        preferences: row.preferences,
        route: row.route ?? direct,
        leftMs: row.left_ms,
        deaths: row.deaths,
        wokenBy: row.woken_by,
        gist: row.gist,
        ...restOf(row.plan_id, left.get(row.plan_id)),
        tail: tails.get(row.plan_id) ?? []
      }))
    })
  )
