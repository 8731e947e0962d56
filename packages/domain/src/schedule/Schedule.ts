import { Effect, Schema, Struct } from "effect"
import { PlanId } from "../plan/Plan.ts"
import { PlanBody } from "../plan/PlanRequest.ts"

/** The gateway's own name of a schedule: `schedule_` and a UUID. */
export const ScheduleId = Schema.String.check(Schema.isPattern(/^schedule_[0-9a-f-]{36}$/u)).pipe(
  Schema.brand("ScheduleId")
)
export type ScheduleId = typeof ScheduleId.Type

/**
 * When a schedule is due: at the times of a cron expression of five fields in an IANA time zone, every so many milliseconds from an instant on, or once. What
 * an expression, a zone and an instant (RFC 3339) mean, and whether they ever come, the calendar says.
 */
export const When = Schema.Union([
  Schema.Struct({
    cron: Schema.String.check(Schema.isBetweenLength(1, 256)),
    time_zone: Schema.String.check(Schema.isBetweenLength(1, 64))
  }),
  Schema.Struct({ every_ms: Schema.Int, from: Schema.optionalKey(Schema.String) }),
  Schema.Struct({ at: Schema.String })
]).annotate({ message: "Expected {cron, time_zone}, {every_ms, from} or {at}" })
export type When = typeof When.Type

/** What happens to a due time while an earlier plan of the schedule is not over: it is skipped, it waits for that plan, or it ends that plan. */
export const Overlap = Schema.Literals(["skip", "queue", "interrupt"])
export type Overlap = typeof Overlap.Type

/** What is done for the due times that came while no replica ran: nothing, the last one, or all of them. */
export const CatchUp = Schema.Literals(["none", "last", "all"])
export type CatchUp = typeof CatchUp.Type

/** What has become of a due time: a plan, nothing because an earlier plan was not over, a refusal, or nothing because no replica ran. */
export const FiringOutcome = Schema.Literals(["started", "skipped", "refused", "missed"])
export type FiringOutcome = typeof FiringOutcome.Type

/** The body of `POST /plan` that each firing asks, in a session of its own, or all in the same one. */
export const SchedulePlan = PlanBody.mapFields(
  Struct.assign({ session: Schema.optionalKey(Schema.Literals(["new", "same"])) })
).check(
  Schema.makeFilter(({ session, session_id }) =>
    session === "new" && session_id !== undefined
      ? { path: ["session_id"], issue: 'Expected no session_id of a schedule with session "new"' }
      : undefined
  )
)
export type SchedulePlan = typeof SchedulePlan.Type

const Name = Schema.String.check(
  Schema.isPattern(/^\P{Cc}{1,200}$/u, { message: "Expected 1 to 200 characters without control characters" }),
  Schema.makeFilter((text) => text.trim() !== "" || "Expected a name that is not blank")
)

/** A schedule as a caller makes it. */
export const NewSchedule = Schema.Struct({
  name: Name,
  when: When,
  plan: SchedulePlan,
  overlap: Overlap.annotate({ default: "skip" }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("skip" as const))),
  catch_up: CatchUp.annotate({ default: "last" }).pipe(Schema.withDecodingDefaultKey(Effect.succeed("last" as const))),
  paused: Schema.Boolean.annotate({ default: false }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(false)))
})
export type NewSchedule = typeof NewSchedule.Type

/** What is to be different of a schedule. */
export const ScheduleChange = Schema.Struct({
  name: Schema.optionalKey(Name),
  when: Schema.optionalKey(When),
  plan: Schema.optionalKey(SchedulePlan),
  overlap: Schema.optionalKey(Overlap),
  catch_up: Schema.optionalKey(CatchUp),
  paused: Schema.optionalKey(Schema.Boolean)
})
export type ScheduleChange = typeof ScheduleChange.Type

/**
 * A schedule as it is shown: `plan` as its caller has sent it. `next_at` is null while it is paused, and when it is not due any more. `failures` counts the
 * refused firings in a row. Timestamps are ISO 8601 in UTC.
 */
export const Schedule = Schema.Struct({
  schedule_id: ScheduleId,
  name: Schema.String,
  when: When,
  plan: Schema.Record(Schema.String, Schema.Json),
  overlap: Overlap,
  catch_up: CatchUp,
  paused: Schema.Boolean,
  created_at: Schema.String,
  next_at: Schema.NullOr(Schema.String),
  last_at: Schema.NullOr(Schema.String),
  last_plan_id: Schema.NullOr(PlanId),
  failures: Schema.Int
})
export type Schedule = typeof Schedule.Type

/** One due time of a schedule, and what has become of it. `reason` says why no plan has started. */
export const Firing = Schema.Struct({
  due_at: Schema.String,
  fired_at: Schema.String,
  plan_id: Schema.NullOr(PlanId),
  outcome: FiringOutcome,
  reason: Schema.NullOr(Schema.String)
})
export type Firing = typeof Firing.Type
