import { Firing, NewSchedule, Schedule, ScheduleChange } from "@bowline/domain/unstable/schedule/Schedule"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Authorization } from "../api/Authorization.ts"
import { pageEnd, pageQuery } from "../api/PageQuery.ts"
import {
  EventsExpired,
  HopsExceeded,
  IdempotencyConflict,
  Internal,
  InvalidRequest,
  NameTaken,
  NotFound,
  PayloadTooLarge,
  SessionBusy,
  Unavailable,
  UnsupportedMediaType
} from "../api/Problem.ts"
import { frames, PlanResult } from "../plan/PlansApi.ts"
import { IdempotencyKey } from "../plan/RouteHeaders.ts"

const schedule = Schedule.annotate({ identifier: "Schedule" })
const firing = Firing.annotate({ identifier: "Firing" })
const id = { id: Schema.String.annotate({ description: "`schedule_id` of the schedule" }) }
const failures = [Unavailable, Internal] as const
const bodyFailures = [InvalidRequest, PayloadTooLarge, UnsupportedMediaType, HopsExceeded, ...failures] as const

const example = Schema.decodeSync(NewSchedule)({
  name: "knots of the night",
  when: { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" },
  plan: { question: "Which knots slipped before {{due_at}}?" }
})

export class SchedulesApi extends HttpApiGroup.make("schedules")
  .add(
    HttpApiEndpoint.post("create", "/schedules", {
      payload: NewSchedule.annotate({ identifier: "NewSchedule", examples: [example] }),
      success: schedule.pipe(HttpApiSchema.status(201)),
      error: [NameTaken, ...bodyFailures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Make a schedule",
        description: "At each of its due times a plan starts by itself, once, for the caller who has made the schedule."
      })
    ),
    HttpApiEndpoint.get("list", "/schedules", {
      query: pageQuery,
      success: Schema.Struct({ schedules: Schema.Array(schedule), ...pageEnd }),
      error: [InvalidRequest, ...failures]
    }).annotate(OpenApi.Summary, "Your schedules, newest first"),
    HttpApiEndpoint.get("get", "/schedules/:id", {
      params: id,
      success: schedule,
      error: [NotFound, ...failures]
    }).annotate(OpenApi.Summary, "One schedule"),
    HttpApiEndpoint.patch("change", "/schedules/:id", {
      params: id,
      payload: ScheduleChange.annotate({ identifier: "ScheduleChange", examples: [{ paused: true }] }),
      success: schedule,
      error: [NotFound, NameTaken, ...bodyFailures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Change a schedule",
        description: "A schedule that goes on again has no due time that came while it was paused."
      })
    ),
    HttpApiEndpoint.delete("remove", "/schedules/:id", {
      params: id,
      success: HttpApiSchema.NoContent,
      error: [NotFound, ...failures]
    }).annotate(OpenApi.Summary, "Delete a schedule with its firings; its plans stay"),
    HttpApiEndpoint.post("fire", "/schedules/:id/fire", {
      params: id,
      headers: { "idempotency-key": Schema.optionalKey(IdempotencyKey) },
      success: [PlanResult, frames],
      error: [NotFound, SessionBusy, IdempotencyConflict, EventsExpired, ...bodyFailures]
    }).annotateMerge(
      OpenApi.annotations({
        summary: "Fire a schedule now, once more",
        description:
          "Whatever its `overlap` and `paused` say. Answers as `POST /plan` does; the plan runs on when its reader leaves."
      })
    ),
    HttpApiEndpoint.get("firings", "/schedules/:id/firings", {
      params: id,
      query: pageQuery,
      success: Schema.Struct({ firings: Schema.Array(firing), ...pageEnd }),
      error: [InvalidRequest, NotFound, ...failures]
    }).annotate(OpenApi.Summary, "What became of the due times of the last 90 days, the last one first")
  )
  .middleware(Authorization)
  .annotate(OpenApi.Title, "Schedules") {}
