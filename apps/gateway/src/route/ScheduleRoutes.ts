import { NewSchedule, ScheduleChange, ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import { Api } from "@bowline/protocol/api/Api"
import { Caller } from "@bowline/protocol/unstable/api/Authorization"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Schedules } from "@bowline/runtime/unstable/schedule/Schedules"
import { idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { GatewayConfig } from "../config/GatewayConfig.ts"
import * as ReadingAnswer from "../http/ReadingAnswer.ts"
import * as PlanArrival from "../http/PlanArrival.ts"
import { answer, idOf } from "../http/Refusals.ts"
import { readNothing, readSentJson } from "../http/RequestBody.ts"

const scheduleId = idOf(ScheduleId, "schedule")

/** The plan of a schedule that was decoded. */
const planIn = Schema.decodeUnknownOption(Schema.Struct({ plan: Schema.Record(Schema.String, Schema.Json) }))

/** The schedules of callers. */
export const layer = HttpApiBuilder.group(
  Api,
  "schedules",
  Effect.fnUntraced(function* (handlers) {
    const schedules = yield* Schedules
    const streams = yield* PlanStreams
    const answerWith = yield* ReadingAnswer.make
    const { maxBody } = yield* GatewayConfig
    const expectNothing = readNothing(maxBody)
    const readNew = readSentJson(NewSchedule, maxBody)
    const readChange = readSentJson(ScheduleChange, maxBody)

    return handlers
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const { sent, value } = yield* readNew(request)
          const plan = planIn(sent)
          if (plan._tag === "None") return yield* Effect.die("A schedule that was decoded has a plan")
          const schedule = yield* schedules.create(yield* Caller, value, plan.value.plan)
          return HttpServerResponse.jsonUnsafe(schedule, { status: 201 })
        }).pipe(answer)
      )
      .handle("list", ({ query: { cursor, limit } }) =>
        Effect.gen(function* () {
          const page = { limit, ...(cursor !== undefined && { cursor }) }
          const { items, next } = yield* schedules.list(yield* Caller, page)
          return { schedules: items, next_cursor: next }
        }).pipe(answer)
      )
      .handle("get", ({ params: { id } }) =>
        Effect.gen(function* () {
          return yield* schedules.get(yield* Caller, yield* scheduleId(id))
        }).pipe(answer)
      )
      .handleRaw("change", ({ params: { id }, request }) =>
        Effect.gen(function* () {
          const schedule_id = yield* scheduleId(id)
          const { sent, value } = yield* readChange(request)
          const plan = planIn(sent)
          const changed = plan._tag === "None" ? undefined : plan.value.plan
          return HttpServerResponse.jsonUnsafe(yield* schedules.change(yield* Caller, schedule_id, value, changed))
        }).pipe(answer)
      )
      .handle("remove", ({ params: { id } }) =>
        Effect.gen(function* () {
          yield* schedules.remove(yield* Caller, yield* scheduleId(id))
        }).pipe(answer)
      )
      .handleRaw("fire", ({ headers, params: { id }, request }) =>
        Effect.gen(function* () {
          yield* expectNothing(request)
          const caller = yield* Caller
          const asked = yield* schedules.asked(caller, yield* scheduleId(id))
          const key = headers["idempotency-key"]
          // What the plan is asked differs each time: it names when.
          const same = key === undefined ? undefined : idempotency(key, { fires: id })
          return yield* answerWith(caller, streams.start({ ...asked, idempotency: same }), request)
        }).pipe(PlanArrival.traced("/schedules/{id}/fire", request), answer)
      )
      .handle("firings", ({ params: { id }, query: { cursor, limit } }) =>
        Effect.gen(function* () {
          const page = { limit, ...(cursor !== undefined && { cursor }) }
          const { items, next } = yield* schedules.firings(yield* Caller, yield* scheduleId(id), page)
          return { firings: items, next_cursor: next }
        }).pipe(answer)
      )
  })
)
