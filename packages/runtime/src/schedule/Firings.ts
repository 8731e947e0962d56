import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { FiringOutcome } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { type Cause, Clock, Context, Effect, Latch, Layer, Result } from "effect"
import { PlansConfig } from "../config/PlansConfig.ts"
import { Plans } from "../plan/Plans.ts"
import { refusal } from "../planner/DailyAllowance.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { type Notice, Notices } from "../store/Notices.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { type ClaimedSchedule, type Course, type FiringEnd, ScheduleStore } from "../store/ScheduleStore.ts"
import { counter, histogram } from "../telemetry/Instrument.ts"
import { behind, catchUp } from "./CatchUp.ts"
import { requestOf } from "./ScheduledRequest.ts"

const firings = counter({
  name: "bowline.schedule.firings",
  description:
    "Due times of schedules: those that started a plan, that an earlier plan has kept from starting, that were refused, and that came while no replica ran",
  labels: { outcome: FiringOutcome.literals }
})

const lateness = histogram({
  name: "bowline.schedule.lateness",
  description: "How long after its due time the plan of a schedule was stored, unless it waited for an earlier one",
  unit: "s"
})

/**
 * Why a schedule of this caller may not start a plan now, besides what refuses every plan; undefined if it may. The app says who its callers are, and how many requests each
 * may make.
 */
export const MayFire = Context.Reference<(caller: CallerName) => Effect.Effect<string | undefined, StorageError>>(
  "@bowline/runtime/schedule/MayFire",
  { defaultValue: () => () => Effect.undefined }
)

/** How many schedules a replica claims at once, and how many plans of them it starts side by side. */
const batch = 100
const concurrency = 8

/** The time between two claims that find something, in milliseconds, and the longest one while there are notices and while there are none. */
const breath = 50
const longest = 60_000
const longestAlone = 1_000

/** How long a due time waits for the next look at an earlier plan, or at a gateway that takes no plans, and for how long it is tried again. In milliseconds. */
const soon = 1_000
const patience = 60_000

/** How long a reason may be. */
const reasonLength = 1_000

/** What was wrong, of which some may pass. */
interface Refused {
  readonly reason: string
  readonly isPassing: boolean
}

const issueText = ({
  message,
  path
}: {
  readonly path: ReadonlyArray<PropertyKey>
  readonly message: string
}): string => (path.length === 0 ? message : `${path.map(String).join(".")}: ${message}`)

/**
 * Starts the plans of schedules that are due: when the earliest of them is, and when somebody has changed one. A due time whose claim ends with its process is claimed by
 * another one, and fires once: its firing is written with its plan.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const store = yield* ScheduleStore
    const planStore = yield* PlanStore
    const plans = yield* Plans
    const notices = yield* Notices
    const { budgetOf } = yield* PlansConfig
    const mayFire = yield* MayFire
    const wake = Latch.makeUnsafe(false)
    yield* notices.subscribe(({ _tag }) => {
      if (_tag === "SchedulesChanged" || _tag === "ListeningChanged") wake.openUnsafe()
    })

    /** Why the caller's budget allows no plan. */
    const overBudget = Effect.fnUntraced(function* (caller: CallerName) {
      const budget = budgetOf(caller)
      if (budget === undefined) return undefined
      const now = yield* Clock.currentTimeMillis
      const spent = yield* planStore.spent(caller, fromMillis(now).slice(0, 10))
      return refusal(caller, budget, spent, now)?.message
    })

    const settle = Effect.fnUntraced(function* (
      claimed: ClaimedSchedule,
      ends: ReadonlyArray<FiringEnd>,
      course: Course = behind(claimed.schedule.when, claimed.course)
    ) {
      const { isPaused } = yield* store.settle(claimed, course, ends)
      for (const { outcome } of ends) yield* firings.update(1, { outcome })
      const [end] = ends
      if (end?.outcome !== "refused") return
      const log = isPaused ? Effect.logWarning("schedule_paused") : Effect.logInfo("schedule_refused")
      yield* Effect.annotateLogs(log, { reason: end.reason })
    })

    /** Starts the plan of the due time; with the reason why not. It is there, or will never be, when another process has written this firing. */
    const start = Effect.fnUntraced(function* ({ course, open, owner, schedule, version }: ClaimedSchedule) {
      const { next: due } = course
      const forbidden = (yield* mayFire(owner)) ?? (yield* overBudget(owner))
      if (forbidden !== undefined) return { reason: forbidden, isPassing: false }
      const interrupts = schedule.overlap === "interrupt" ? open : []
      const request = yield* requestOf(planStore, owner, schedule, due)
      const claimed = { version, course: behind(schedule.when, course) }
      const firing = { schedule_id: schedule.schedule_id, due, claimed, interrupts }
      yield* Effect.scoped(plans.start({ caller: owner, request, firing }))
      const told = interrupts.map((plan_id): Notice => ({ _tag: "AbortRequested", plan_id }))
      // Notices that are lost only delay the end of these plans.
      if (told.length > 0) yield* Effect.ignore(notices.publish([...told, { _tag: "PlansLeft" }]))
      return undefined
    })

    const tryStart = (claimed: ClaimedSchedule) =>
      start(claimed).pipe(
        Effect.catchTags({
          InvalidRequest: ({ issues }) =>
            Effect.succeed<Refused>({ reason: issues.map(issueText).join("; "), isPassing: false }),
          NotAccepting: ({ message }) => Effect.succeed<Refused>({ reason: message, isPassing: true }),
          SessionBusy: ({ message }) => Effect.succeed<Refused>({ reason: message, isPassing: false }),
          HopsExceeded: ({ message }) => Effect.succeed<Refused>({ reason: message, isPassing: false })
        }),
        Effect.result
      )

    const fire = Effect.fnUntraced(function* (claimed: ClaimedSchedule) {
      const { course, lookAt, now, open, schedule } = claimed
      const { next: due } = course
      const left = catchUp(schedule, claimed)
      if (left !== undefined) return yield* settle(claimed, left.missed, left.course)
      const [earlier] = open
      if (earlier !== undefined && schedule.overlap !== "interrupt") {
        if (schedule.overlap === "queue" || course.left > 0) return yield* store.postpone(claimed, soon)
        const reason = `${earlier} is not over`
        return yield* settle(claimed, [{ due, outcome: "skipped", reason }])
      }
      const began = yield* Monotonic.now
      const started = yield* tryStart(claimed)
      if (Result.isFailure(started)) {
        // The database did not answer: the claim ends by itself. Of a firing that is there already only the next due time may be missing.
        return started.failure._tag === "StorageError" ? yield* started.failure : yield* settle(claimed, [])
      }
      const refused = started.success
      if (refused === undefined) {
        yield* firings.update(1, { outcome: "started" })
        if (lookAt === due) yield* lateness.update((now - due + (yield* Monotonic.now) - began) / 1_000, {})
        return
      }
      const isTriedAgain = refused.isPassing && now - due < patience
      if (isTriedAgain) {
        const isLeaving = yield* plans.isDraining
        yield* store.postpone(claimed, isLeaving ? 0 : soon)
        // Others believe that this replica has it.
        return isLeaving ? yield* Effect.ignore(notices.publish([{ _tag: "SchedulesChanged" }])) : undefined
      }
      yield* settle(claimed, [{ due, outcome: "refused", reason: refused.reason.slice(0, reasonLength) }])
    })

    let isFailing = false
    /** Warns once for each loss of the database. */
    const warn = (cause: Cause.Cause<unknown>) =>
      Effect.suspend(() => {
        const isNews = !isFailing
        isFailing = true
        return Effect.as(isNews ? Effect.logWarning("schedules_failed", cause) : Effect.void, soon)
      })
    const look = Effect.gen(function* () {
      if (yield* plans.isDraining) return longest
      const { claimed, nextInMs } = yield* store.claim(batch)
      yield* Effect.forEach(
        claimed,
        (one) =>
          fire(one).pipe(
            Effect.catchCause(warn),
            Effect.annotateLogs({ caller: one.owner, schedule_id: one.schedule.schedule_id })
          ),
        { concurrency, discard: true }
      )
      if (claimed.length > 0) return breath
      return Math.min(nextInMs === null ? Infinity : nextInMs + 1, notices.isListening() ? longest : longestAlone)
    })

    yield* look.pipe(
      Effect.tap(Effect.sync(() => void (isFailing = false))),
      Effect.catchCause(warn),
      Effect.flatMap((wait) => Effect.timeoutOption(wake.await, wait)),
      Effect.andThen(Effect.sync(() => wake.closeUnsafe())),
      Effect.forever,
      Effect.forkScoped
    )
  })
)
