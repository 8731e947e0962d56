import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NameTaken, NotFound, TooManySchedules } from "@bowline/domain/plan/Refusal"
import type { Firing, Schedule, ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import {
  type ClaimedSchedule,
  claimedFor,
  maxFailures,
  maxSchedules,
  onTime,
  type ScheduleFields,
  ScheduleStore
} from "@bowline/runtime/unstable/store/ScheduleStore"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Effect, Layer, Option, Struct } from "effect"
import { SqlClient } from "effect/sql"
import { SqlError } from "effect/sql/SqlError"
import { makeWithDeadline, type WithDeadline } from "../internal/Deadline.ts"
import { newestFirst } from "../internal/NewestFirst.ts"
import { storable } from "../internal/Storable.ts"
import { goesOn, instant, openPlans } from "../plan/internal/TakeFiring.ts"

type Times = "created_at" | "next_at" | "last_at"

interface Row extends Omit<Schedule, Times> {
  readonly created_at: Date
  readonly next_at: Date | null
  readonly last_at: Date | null
  readonly ordinal: bigint
  readonly version: number
}

interface ClaimedRow extends Row {
  readonly owner: CallerName
  readonly next_at: Date
  readonly look_at: Date
  readonly now: Date
  readonly catch_left: number
  readonly catch_until: Date | null
  readonly open: ReadonlyArray<PlanId>
}

type FiringRow = Omit<Firing, "due_at" | "fired_at"> & { readonly due_at: Date; readonly fired_at: Date }

const columns = `s.id as schedule_id, s.name, s.calendar as "when", s.plan, s.overlap, s.catch_up, s.paused, s.created_at, s.next_at, s.last_at,
  s.last_plan_id, s.failures, s.ordinal, s.version`

const toSchedule = (row: Row): Schedule => ({
  ...Struct.pick(row, ["schedule_id", "name", "when", "plan", "overlap", "catch_up", "paused"]),
  created_at: row.created_at.toISOString(),
  next_at: row.next_at?.toISOString() ?? null,
  last_at: row.last_at?.toISOString() ?? null,
  last_plan_id: row.last_plan_id,
  failures: row.failures
})

const toClaimed = (row: ClaimedRow): ClaimedSchedule => ({
  schedule: toSchedule(row),
  version: row.version,
  owner: row.owner,
  course: { next: row.next_at.getTime(), left: row.catch_left, until: row.catch_until?.getTime() ?? null },
  lookAt: row.look_at.getTime(),
  now: row.now.getTime(),
  open: row.open
})

const claimedOf = (rows: ReadonlyArray<ClaimedRow>) =>
  rows.map(toClaimed).toSorted((a, b) => a.course.next - b.course.next)

const toFiring = (row: FiringRow): Firing => ({
  ...row,
  due_at: row.due_at.toISOString(),
  fired_at: row.fired_at.toISOString()
})

/** Another schedule of the owner has the name. */
const taken = <A, E, R>(written: Effect.Effect<A, E, R>) =>
  Effect.catchIf(
    written,
    (error) => error instanceof SqlError && error.reason._tag === "UniqueViolation",
    () => Effect.fail(new NameTaken())
  )

const make = (sql: SqlClient.SqlClient, withDeadline: WithDeadline): ScheduleStore["Service"] => {
  const fields = ({ catch_up, name, overlap, paused, plan, when }: ScheduleFields) => ({
    name: storable(name),
    calendar: JSON.stringify(when),
    plan: JSON.stringify(plan),
    overlap,
    catch_up,
    paused
  })
  const isClaimed = ({ course: { next }, schedule: { schedule_id }, version }: ClaimedSchedule) =>
    sql`id = ${schedule_id} and version = ${version} and next_at = ${instant(sql, next)}`
  const find = (owner: CallerName, id: ScheduleId) =>
    Effect.flatMap(
      sql<Row>`select ${sql.literal(columns)} from schedules s where s.id = ${id} and s.owner = ${owner}`,
      ([row]) => (row === undefined ? Effect.fail(new NotFound({ what: "schedule" })) : Effect.succeed(row))
    )
  return {
    now: withDeadline(sql<{ readonly now: Date }>`select now() as now`).pipe(
      Effect.map(([row]) => row?.now.getTime() ?? 0)
    ),
    // The lock is the caller's: two requests at once count each other.
    create: (owner, { next, schedule_id, ...given }) => {
      const { calendar, catch_up, name, overlap, paused, plan } = fields(given)
      return withDeadline(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`select pg_advisory_xact_lock(hashtextextended('bowline/schedules/' || ${owner}::text, 0))`
            const [row] = yield* taken(sql<Row>`
insert into schedules as s (id, owner, name, calendar, plan, overlap, catch_up, paused, next_at, look_at)
select ${schedule_id}, ${owner}, ${name}, ${calendar}::json, ${plan}::json, ${overlap}, ${catch_up}, ${paused},
  ${instant(sql, next)}, ${instant(sql, next)}
where (select count(*) from schedules where owner = ${owner}) < ${maxSchedules}
returning ${sql.literal(columns)}`)
            return row === undefined ? yield* new TooManySchedules({ limit: maxSchedules }) : toSchedule(row)
          })
        )
      )
    },
    get: (owner, id) =>
      withDeadline(find(owner, id)).pipe(Effect.map((row) => ({ schedule: toSchedule(row), version: row.version }))),
    list: (owner, { cursor, limit }) =>
      withDeadline(sql<Row>`
select ${sql.literal(columns)} from schedules s
where s.owner = ${owner} ${cursor === undefined ? sql`` : sql`and s.ordinal < ${cursor}`}
order by s.ordinal desc limit ${limit + 1}`).pipe(Effect.map((rows) => newestFirst(rows, limit, toSchedule))),
    change: (owner, { schedule: { schedule_id }, version }, given, next) => {
      const { calendar, catch_up, name, overlap, paused, plan } = fields(given)
      return withDeadline(
        taken(sql<Row>`
update schedules s set version = version + 1, name = ${name}, calendar = ${calendar}::json, plan = ${plan}::json, overlap = ${overlap},
  catch_up = ${catch_up}, paused = ${paused} ${next === undefined ? sql`, claimed_until = null` : sql`, failures = 0, ${goesOn(sql, onTime(next))}`}
where id = ${schedule_id} and owner = ${owner} and version = ${version}
returning ${sql.literal(columns)}`)
      ).pipe(Effect.map(([row]) => Option.map(Option.fromNullishOr(row), toSchedule)))
    },
    remove: (owner, id) =>
      withDeadline(sql`delete from schedules where id = ${id} and owner = ${owner} returning 1 as removed`).pipe(
        Effect.map((rows) => rows.length > 0)
      ),
    claim: Effect.fnUntraced(function* (limit) {
      const rows = yield* withDeadline(sql<ClaimedRow>`
with due as (
  select id from schedules where look_at <= now() and (claimed_until is null or claimed_until <= now())
  order by look_at limit ${limit} for update skip locked
)
update schedules s set claimed_until = now() + ${claimedFor} * interval '1 millisecond' from due where s.id = due.id
returning ${sql.literal(columns)}, s.owner, s.look_at, s.catch_left, s.catch_until, now() as now, ${sql.literal(openPlans)} as open`)
      if (rows.length > 0) return { claimed: claimedOf(rows), nextInMs: 0 }
      const [next] = yield* withDeadline(sql<{ readonly ms: number | null }>`
select extract(epoch from least(
  (select look_at from schedules where look_at > now() order by look_at limit 1),
  (select min(claimed_until) from schedules where look_at <= now() and claimed_until > now()),
  (select now() from schedules where look_at <= now() and (claimed_until is null or claimed_until <= now()) limit 1)
) - now())::float8 * 1000 as ms`)
      return { claimed: [], nextInMs: next?.ms ?? null }
    }),
    postpone: (claimed, ms) =>
      withDeadline(sql`
update schedules set claimed_until = null, look_at = date_trunc('milliseconds', now()) + ${ms} * interval '1 millisecond' where ${isClaimed(claimed)}`).pipe(
        Effect.asVoid
      ),
    settle: (claimed, course, ends) => {
      const refused = ends.filter(({ outcome }) => outcome === "refused").length
      const rows = ends.map(({ due, outcome, reason }) => ({
        due: fromMillis(due),
        outcome,
        reason: storable(reason)
      }))
      const stops = sql`${refused}::int > 0 and failures + ${refused}::int >= ${maxFailures}`
      return withDeadline(sql<{ readonly is_paused: boolean }>`
with moved as (
  update schedules set ${goesOn(sql, course, stops)}, failures = failures + ${refused}::int, paused = paused or (${stops})
  where ${isClaimed(claimed)}
  returning id, paused
), ended as (
  insert into firings (schedule_id, due_at, outcome, reason)
  select m.id, e.due, e.outcome, e.reason
  from moved m, json_to_recordset(${JSON.stringify(rows)}::json) as e(due timestamptz, outcome text, reason text)
  on conflict do nothing
)
select paused as is_paused from moved`).pipe(Effect.map(([row]) => ({ isPaused: row?.is_paused ?? false })))
    },
    firings: (owner, id, { cursor, limit }) =>
      withDeadline(
        Effect.andThen(
          find(owner, id),
          sql<FiringRow>`
select due_at, fired_at, plan_id, outcome, reason from firings
where schedule_id = ${id} ${cursor === undefined ? sql`` : sql`and due_at < ${instant(sql, cursor)}`}
order by due_at desc limit ${limit + 1}`
        )
      ).pipe(
        Effect.map((rows) => {
          const items = rows.slice(0, limit).map(toFiring)
          const last = rows[limit - 1]
          return { items, next: rows.length > limit && last !== undefined ? last.due_at.getTime() : null }
        })
      )
  }
}

/** Schedules and their firings, in Postgres. */
export const layer = Layer.effect(
  ScheduleStore,
  Effect.map(Effect.all([SqlClient.SqlClient, makeWithDeadline]), ([sql, withDeadline]) => make(sql, withDeadline))
)
