import type { CallerName } from "@bowline/domain/caller/CallerName"
import {
  type HopsExceeded,
  InvalidRequest,
  type NameTaken,
  type NotAccepting,
  NotFound,
  type TooManySchedules
} from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import {
  type Firing,
  type NewSchedule,
  type Schedule,
  type ScheduleChange,
  ScheduleId,
  type SchedulePlan,
  type When
} from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Context, Duration, Effect, Layer, Option } from "effect"
import { PlansConfig } from "../config/PlansConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import type { Asked } from "../plan/NewPlans.ts"
import { PlanStreams } from "../plan/PlanStreams.ts"
import { Notices } from "../store/Notices.ts"
import type { Page, PageRequest } from "../store/Page.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { ScheduleStore, type StoredSchedule } from "../store/ScheduleStore.ts"
import { secretPlaces } from "../store/StoredRequest.ts"
import * as Calendar from "./Calendar.ts"
import { requestOf, shown, toRequest, withAsker } from "./ScheduledRequest.ts"

type Issues = InvalidRequest["issues"]

/** The plan of a schedule as its caller has sent it: it is shown so. */
export type SentPlan = Schedule["plan"]

/** An interval counts from the time at which it is set, unless its caller says from when. */
const anchored = (when: When, now: number): When =>
  "every_ms" in when && when.from === undefined ? { ...when, from: fromMillis(now) } : when

const secretIn = "Expected no secret in a schedule, which would store it: name a variable of the gateway instead"

/** What a schedule may not have of a request for a plan. */
const issuesOf = (plan: SchedulePlan, sent: SentPlan): Issues => {
  const secrets = secretPlaces(sent).map((path) => ({ path: ["plan", ...path], message: secretIn }))
  const hasSession = plan.session === "same" || plan.session_id !== undefined
  const history = {
    path: ["plan", "history"],
    message: "Expected no history: the session has its own from the second firing on"
  }
  return hasSession && plan.history.length > 0 ? [...secrets, history] : secrets
}

/** How often a change is tried again that another one has overtaken. */
const tries = 5

/** The schedules of callers. */
export class Schedules extends Context.Service<
  Schedules,
  {
    readonly create: (
      caller: CallerName,
      schedule: NewSchedule,
      sent: SentPlan
    ) => Effect.Effect<
      Schedule,
      InvalidRequest | NameTaken | TooManySchedules | HopsExceeded | NotAccepting | StorageError
    >
    readonly get: (caller: CallerName, id: ScheduleId) => Effect.Effect<Schedule, NotFound | StorageError>
    readonly list: (caller: CallerName, page: PageRequest) => Effect.Effect<Page<Schedule>, StorageError>
    /** `sent` is the plan as it was sent, if the change has one. What came due before a schedule goes on again is never fired. */
    readonly change: (
      caller: CallerName,
      id: ScheduleId,
      change: ScheduleChange,
      sent: SentPlan | undefined
    ) => Effect.Effect<Schedule, NotFound | InvalidRequest | NameTaken | HopsExceeded | NotAccepting | StorageError>
    readonly remove: (caller: CallerName, id: ScheduleId) => Effect.Effect<void, NotFound | StorageError>
    readonly firings: (
      caller: CallerName,
      id: ScheduleId,
      page: PageRequest
    ) => Effect.Effect<Page<Firing>, NotFound | StorageError>
    /** What a firing by hand asks now. It is a firing of its own when the plan is started. */
    readonly asked: (
      caller: CallerName,
      id: ScheduleId
    ) => Effect.Effect<Pick<Asked, "caller" | "request" | "firing">, NotFound | InvalidRequest | StorageError>
  }
>()("@bowline/runtime/schedule/Schedules") {
  static readonly layer = Layer.effect(
    Schedules,
    Effect.gen(function* () {
      const store = yield* ScheduleStore
      const plans = yield* PlanStore
      const streams = yield* PlanStreams
      const notices = yield* Notices
      const uuid = yield* UuidGenerator
      const { scheduleMin } = yield* PlansConfig
      const minEveryMs = Duration.toMillis(scheduleMin)

      /** A notice that is lost only delays the schedule. */
      const tell = Effect.ignore(notices.publish([{ _tag: "SchedulesChanged" }]))

      const checkWhen = (when: When, now: number): Issues =>
        Calendar.validate(when, { minEveryMs, now }).map(({ message, path }) => ({ path: ["when", ...path], message }))

      /** Refuses what a firing would be refused for at this moment, under the names that the plan has in the schedule. */
      const checkPlan = (
        caller: CallerName,
        schedule: Parameters<typeof toRequest>[0],
        plan: SchedulePlan
      ): Effect.Effect<Issues, HopsExceeded | NotAccepting> =>
        streams.check({ caller, request: toRequest(schedule, plan) }).pipe(
          Effect.as<Issues>([]),
          Effect.catchTag("InvalidRequest", ({ issues }) =>
            Effect.succeed(issues.map(({ message, path }) => ({ path: ["plan", ...path], message })))
          )
        )

      const refuse = (issues: Issues) =>
        issues.length === 0 ? Effect.void : Effect.fail(new InvalidRequest({ issues }))

      const changeOnce = Effect.fnUntraced(function* (
        caller: CallerName,
        { schedule, version }: StoredSchedule,
        { plan, when, ...change }: ScheduleChange,
        sent: SentPlan | undefined
      ) {
        const now = yield* store.now
        const fields = {
          ...schedule,
          ...change,
          when: when === undefined ? schedule.when : anchored(when, now),
          plan: sent === undefined ? schedule.plan : yield* withAsker(sent)
        }
        const issues = [
          ...(when === undefined ? [] : checkWhen(fields.when, now)),
          ...(plan === undefined || sent === undefined
            ? []
            : [...issuesOf(plan, sent), ...(yield* checkPlan(caller, fields, plan))])
        ]
        yield* refuse(issues)
        const isSame = when === undefined && fields.paused === schedule.paused
        const next = fields.paused ? null : (Calendar.nextDue(fields.when, now) ?? null)
        return yield* store.change(caller, { schedule, version }, fields, isSame ? undefined : next)
      })

      return {
        create: Effect.fnUntraced(function* (caller, { plan, ...given }, sent) {
          const now = yield* store.now
          const schedule_id = ScheduleId.make(`schedule_${uuid()}`)
          const when = anchored(given.when, now)
          const checked = yield* checkPlan(caller, { overlap: given.overlap, schedule_id }, plan)
          yield* refuse([...checkWhen(when, now), ...issuesOf(plan, sent), ...checked])
          const next = given.paused ? null : (Calendar.nextDue(when, now) ?? null)
          const kept = yield* withAsker(sent)
          const made = store.create(caller, { ...given, when, plan: kept, schedule_id, next })
          return shown(yield* Effect.tap(made, tell))
        }),
        get: (caller, id) => Effect.map(store.get(caller, id), ({ schedule }) => shown(schedule)),
        list: (...given) => Effect.map(store.list(...given), ({ items, next }) => ({ items: items.map(shown), next })),
        change: Effect.fnUntraced(function* (caller, id, change, sent) {
          for (let left = tries; left > 0; left--) {
            const changed = yield* changeOnce(caller, yield* store.get(caller, id), change, sent)
            if (Option.isSome(changed)) return yield* Effect.as(tell, shown(changed.value))
          }
          return yield* Effect.die(`${id} was changed ${tries} times while it was to be changed`)
        }),
        remove: Effect.fnUntraced(function* (caller, id) {
          if (!(yield* store.remove(caller, id))) return yield* new NotFound({ what: "schedule" })
        }),
        firings: store.firings,
        asked: Effect.fnUntraced(function* (caller, id) {
          const { schedule } = yield* store.get(caller, id)
          const due = yield* store.now
          const request = yield* requestOf(plans, caller, schedule, due)
          return { caller, request, firing: { schedule_id: id, due, interrupts: [] } }
        })
      }
    })
  )
}
