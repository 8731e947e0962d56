import { IdempotencyConflict } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { NewPlan } from "@bowline/runtime/unstable/store/PlanStore"
import type { Course, NewFiring } from "@bowline/runtime/unstable/store/ScheduleStore"
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { notify } from "../../notice/Publisher.ts"
import { wakes } from "./Waking.ts"

type Sql = SqlClient.SqlClient

/** The time of the store that this is, or null. */
export const instant = (sql: Sql, millis: number | null): Statement.Fragment =>
  sql`${millis === null ? null : fromMillis(millis)}::timestamptz`

/**
 * The columns of a schedule that say how it goes on; it is not due any more if it `stops`. What is due already has its turn at once: nobody takes it for something
 * that was missed.
 */
export const goesOn = (sql: Sql, { left, next, until }: Course, stops: Statement.Fragment = sql`false`) => {
  const isDue = sql`${instant(sql, next)} is not null and not (${stops})`
  return sql`
  next_at = case when ${isDue} then ${instant(sql, next)} end,
  look_at = case when ${isDue} then greatest(${instant(sql, next)}, date_trunc('milliseconds', now())) end,
  claimed_until = null, catch_left = ${left}::int, catch_until = ${instant(sql, until)}`
}

/** The plans of the schedule `s` that are not over. */
export const openPlans =
  "array(select p.id from plans p where p.id = any(s.open_plans) and p.state in ('queued', 'running', 'waiting'))"

/** Aborts plans that are not over, as `PlanStore.requestAbort` does. */
const interrupt = Effect.fnUntraced(function* (sql: Sql, plans: NewFiring["interrupts"]) {
  for (const plan_id of plans.toSorted()) {
    yield* sql`
with asked as (
  update plans p set abort_requested = 'superseded', ${wakes(sql, "abort")}
  where id = ${plan_id} and abort_requested is null and state in ('queued', 'running', 'waiting')
  returning id, left_ms
)
select ${notify(sql, { _tag: "AbortRequested", plan_id })} from asked
union all
select ${notify(sql, { _tag: "PlansLeft" })} from asked where left_ms is not null`
  }
})

/**
 * Writes the firing of a plan that is being created. Fails, and with it the transaction, if the due time has been fired, or if the schedule is not as it was claimed any
 * more. Call it while the transaction holds the lock on the plan's session: no deadlock is possible, because no transaction that has a schedule waits for a session.
 */
export const takeFiring = Effect.fnUntraced(function* (
  sql: Sql,
  { caller, plan_id }: NewPlan,
  { claimed, due, interrupts, schedule_id }: NewFiring
) {
  const [fired] = yield* sql`
with fired as (
  update schedules s set last_at = ${instant(sql, due)}, last_plan_id = ${plan_id}, failures = 0,
    open_plans = ${sql.literal(openPlans)} || ${plan_id}::text
    ${claimed === undefined ? sql`` : sql`, ${goesOn(sql, claimed.course)}`}
  where id = ${schedule_id} and owner = ${caller}
    ${claimed === undefined ? sql`` : sql`and version = ${claimed.version} and next_at = ${instant(sql, due)}`}
  returning id
)
insert into firings (schedule_id, due_at, plan_id, outcome)
select id, ${
    claimed === undefined
      ? // Somebody else has fired it in the same millisecond.
        sql`coalesce((select max(f.due_at) + interval '1 millisecond' from firings f
          where f.schedule_id = fired.id and f.due_at >= ${instant(sql, due)}), ${instant(sql, due)})`
      : instant(sql, due)
  }, ${plan_id}, 'started' from fired
on conflict do nothing
returning 1 as fired`
  if (fired === undefined) return yield* new IdempotencyConflict()
  yield* interrupt(sql, interrupts)
})
