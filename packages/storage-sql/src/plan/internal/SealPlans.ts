import type { PlanId } from "@bowline/domain/plan/Plan"
import { bytesOf, frameBytes, pageBytes } from "@bowline/runtime/unstable/store/EventRow"
import { Array as Arr, Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { codec } from "../../session/internal/ReplicaRow.ts"
import { notEnded, pack } from "../SealedEvents.ts"
import { dropWeeks, makeWeeks } from "./SealedWeeks.ts"
import { eventTime, type StoredEvent, toEventRow } from "./StoredEvent.ts"

/** How many rows of events are read at once, and how many a block has at most. */
const rowsAtOnce = 4_000
const rowsOfBlock = 1_000

/** How much of sealed plans one statement writes, in bytes, the last plan aside. */
const bytesAtOnce = 1_048_576

/** How many plans one sweep looks at that have events, and how many of them it seals. */
const looked = 1_000
const plansAtOnce = 50

/** How long a plan must be over before the sweep seals it: its own process has not. */
const leftAfter = "1 minute"

/** A replica of an earlier version cannot read what this one writes. */
const allRead = `not exists (select from replicas r where r.expires_at > now() and r.codec < ${codec})`

const isOver = "p.state in ('completed', 'failed', 'aborted') and p.finished_at is not null"
const isParked = "p.state = 'waiting'"

const maySeal = `((${isOver}) or ${isParked}) and ${allRead}`

/** The last row that was read. */
interface Cursor {
  readonly plan_id: string
  readonly seq: number
}

type Row = StoredEvent & { readonly plan_id: PlanId; readonly finished_at: Date | null }

/** The next rows of these plans, those of one plan after those of the other. */
export const readRows = (sql: SqlClient.SqlClient, plans: ReadonlyArray<string>, { plan_id, seq }: Cursor) => sql<Row>`
select plan_id, finished_at, seq, at, count, event, payload, record from (
  select p.id as plan_id, p.finished_at, e.seq, ${sql.literal(eventTime)}, e.count, e.event, e.payload, e.record,
    sum(octet_length(e.payload) + ${frameBytes}::int * e.count) over (
      order by p.id, e.seq rows between unbounded preceding and 1 preceding
    ) as before
  from plans p
  cross join lateral (
    select * from events e where e.plan_id = p.id and (p.id > ${plan_id} or e.seq > ${seq}) order by e.seq limit ${rowsAtOnce}
  ) e
  where ${sql.in("p.id", plans)} and p.id >= ${plan_id} and ${sql.literal(maySeal)}
  order by p.id, e.seq limit ${rowsAtOnce}
) page
where coalesce(before, 0) < ${pageBytes}
order by plan_id, seq`

/** A plan as it is sealed, from its first event that was not: the last seq and the end of each block in the body. One that waits has no end. */
interface Sealed {
  readonly plan_id: PlanId
  readonly finished_at: Date | null
  readonly first_seq: number
  readonly last_seqs: Array<number>
  readonly ends: Array<number>
  readonly body: Array<Buffer>
}

/** Where the blocks of `next` end when its body is behind that of `first`, which may not be there. */
const behind = (first: string, next: string) =>
  `${first}.ends || array(select coalesce(octet_length(${first}.body), 0) + u.finish from unnest(${next}.ends) with ordinality u(finish, place) order by u.place)`

/**
 * Writes sealed plans and deletes their rows, in one statement, which is one transaction. A plan whose row somebody else has locked is sealed, woken or
 * deleted by them; one that has ended since it was read is left for the next time. An event never changes. What is sealed of a plan that waits gets the
 * blocks of its next events behind its own, and is a part of the row of its end. Of two that seal the same rows, one finds that the other has:
 * the conflict shows it what is there now. `like` has the rows found by their index: see `writeBatch`.
 */
export const writeSealed = (sql: SqlClient.SqlClient, plans: ReadonlyArray<Sealed>) => {
  const rows = plans.map(({ body, ends, finished_at, first_seq, last_seqs, plan_id }) => ({
    plan_id,
    ended_at: finished_at ?? notEnded,
    first_seq,
    last_seqs,
    ends,
    body: Buffer.concat(body).toString("base64")
  }))
  return sql`
with given as materialized (
  select g.plan_id, g.ended_at, g.first_seq, g.last_seqs, g.ends, decode(g.body, 'base64') as body
  from json_to_recordset(${JSON.stringify(rows)}::json) as g(plan_id text, ended_at timestamptz, first_seq int, last_seqs int[], ends int[], body text)
  where g.plan_id like 'plan\\_%'
), held as materialized (
  select g.* from given g
  cross join lateral (
    select from plans p
    where p.id = g.plan_id and coalesce(p.finished_at, ${notEnded}) = g.ended_at and ${sql.literal(maySeal)}
    for no key update skip locked
  ) p
), kept as (
  insert into sealed as s (plan_id, ended_at, codec, last_seqs, ends, body)
  select h.plan_id, h.ended_at, ${`zstd-${codec}`}, o.last_seqs || h.last_seqs, ${sql.literal(behind("o", "h"))}, coalesce(o.body, '') || h.body
  from held h left join sealed o on o.plan_id = h.plan_id and o.ended_at = ${notEnded} and h.ended_at <> ${notEnded}
  on conflict (plan_id, ended_at) do update set
    last_seqs = s.last_seqs || excluded.last_seqs, ends = ${sql.literal(behind("s", "excluded"))}, body = s.body || excluded.body
  where s.ended_at = ${notEnded}
    and s.last_seqs[array_upper(s.last_seqs, 1)] < (select h.first_seq from held h where h.plan_id = s.plan_id)
  returning s.plan_id
), joined as (
  delete from sealed o using kept k join held h using (plan_id)
  where o.plan_id = k.plan_id and o.ended_at = ${notEnded} and h.ended_at <> ${notEnded}
)
delete from events e using kept k join held h using (plan_id)
where e.plan_id = k.plan_id and e.seq <= h.last_seqs[array_upper(h.last_seqs, 1)]`
}

/** Deletes the events of plans that ended too long ago to be kept. */
const deleteEvents = (sql: SqlClient.SqlClient, plans: ReadonlyArray<PlanId>) => sql`
with over as materialized (
  select p.id from plans p where ${sql.in("p.id", plans)} and p.id like 'plan\\_%' and ${sql.literal(isOver)}
), unsealed as (
  delete from sealed s using over o where s.plan_id = o.id and s.ended_at = ${notEnded}
)
delete from events e using over o where e.plan_id = o.id`

const write = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, plans: ReadonlyArray<Sealed>, since: number) {
  const isKept = ({ finished_at }: Sealed) => finished_at === null || finished_at.getTime() > since
  const kept = plans.filter(isKept)
  if (kept.length > 0) {
    yield* makeWeeks(
      sql,
      kept.map(({ finished_at }) => finished_at)
    )
    yield* writeSealed(sql, kept)
  }
  const expired = plans.filter((plan) => !isKept(plan))
  if (expired.length > 0) {
    yield* deleteEvents(
      sql,
      expired.map(({ plan_id }) => plan_id)
    )
  }
})

/** Seals those of the plans that are over, and those that wait up to there. What ended before `since` (milliseconds since 1970) is not kept. */
export const sealPlans = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  plans: ReadonlyArray<PlanId>,
  since: number
) {
  let cursor: Cursor = { plan_id: "", seq: 0 }
  let done: Array<Sealed> = []
  let open: Sealed | undefined
  let bytes = 0
  let left = plans.toSorted()
  // Of plans that are large it asks for a few at once: the database sorts what it has asked for.
  let atOnce = left.length
  while (left.length > 0) {
    const asked = left.slice(0, atOnce)
    const rows = yield* readRows(sql, asked, cursor)
    const isCut = rows.length === rowsAtOnce || rows.reduce((sum, row) => sum + bytesOf(row), 0) >= pageBytes
    const ofPlans = Array.from(Map.groupBy(rows, ({ plan_id }) => plan_id).values())
    // One that is cut off is read again from its start, unless it is alone: so it has no more blocks than it needs.
    const whole = isCut && ofPlans.length > 1 ? ofPlans.slice(0, -1) : ofPlans
    for (const part of whole.flatMap((own) => Arr.chunksOf(own, rowsOfBlock))) {
      const [{ finished_at, plan_id }] = part
      if (open?.plan_id !== plan_id) {
        if (open !== undefined) done.push(open)
        open = { plan_id, finished_at, first_seq: part[0].seq, last_seqs: [], ends: [], body: [] }
      }
      const block = pack(
        part.map(({ at, count, event, payload, record, seq }) => toEventRow({ at, count, event, payload, record, seq }))
      )
      const last = Arr.lastNonEmpty(part)
      open.last_seqs.push(last.seq + last.count - 1)
      open.ends.push((open.ends.at(-1) ?? 0) + block.length)
      open.body.push(block)
      bytes += block.length
      cursor = { plan_id, seq: last.seq }
      // Plans that run come between two blocks.
      yield* Effect.yieldNow
    }
    if (isCut) {
      left = left.filter((plan) => plan >= cursor.plan_id)
      atOnce = 2 * whole.length
    } else {
      if (open !== undefined) done.push(open)
      open = undefined
      left = left.slice(asked.length)
      atOnce *= 2
    }
    if (left.length > 0 && bytes < bytesAtOnce) continue
    yield* write(sql, done, since)
    done = []
    bytes = 0
  }
})

/**
 * The next plans behind this one that have events, and wait, or are over for a while; and behind which plan to look next, null at the end. It goes from plan
 * to plan along the primary key of the events: plans that run, or were left, are all that there are.
 */
export const findLeft = (sql: SqlClient.SqlClient, behind: string) => sql<{
  readonly next: string | null
  readonly plans: ReadonlyArray<PlanId> | null
}>`
with recursive stored as (
  (select e.plan_id, 1 as place from events e where e.plan_id > ${behind} order by e.plan_id limit 1)
  union all
  select next.plan_id, s.place + 1 from stored s
  cross join lateral (
    select e.plan_id from events e where e.plan_id > s.plan_id order by e.plan_id limit 1
  ) next
  where s.place < ${looked}
), left_over as (
  select s.plan_id from stored s cross join lateral (
    select from plans p
    where p.id = s.plan_id and ${sql.literal(maySeal)} and coalesce(p.finished_at, '-infinity') < now() - ${leftAfter}::interval
    limit 1
  ) p
  order by s.plan_id limit ${plansAtOnce}
)
select (select json_agg(plan_id) from left_over) as plans, coalesce(
  (select max(plan_id) from left_over having count(*) = ${plansAtOnce}),
  (select max(plan_id) from stored having count(*) = ${looked})) as next
where ${sql.literal(allRead)}`

/** Seals the next of the plans that were left, and drops the weeks that are kept no longer by `now`. Says whether there may be more. */
export const makeSealLeft = (sql: SqlClient.SqlClient, eventsTtl: Duration.Duration) => {
  /** The plan behind which the next sweep looks. It moves on before the plans are sealed: one that cannot be does not hold up the others. */
  let behind = ""
  return Effect.fnUntraced(function* (now: string) {
    const since = Date.parse(now) - Duration.toMillis(eventsTtl)
    yield* dropWeeks(sql, since)
    const [found] = yield* findLeft(sql, behind)
    behind = found?.next ?? ""
    const plans = found?.plans ?? []
    yield* sealPlans(sql, plans, since)
    return plans.length > 0
  })
}

export type SealLeft = ReturnType<typeof makeSealLeft>
