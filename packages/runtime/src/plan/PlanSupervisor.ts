import type { AbortReason, Outcome } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { Clock, Context, Duration, Effect, Exit, Fiber, Schedule, Scope, Semaphore } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import * as Alarm from "../process/Alarm.ts"
import { LeaseLost } from "../store/LeaseStore.ts"
import type { StoredText } from "../store/InboxStore.ts"
import type { Stopped } from "../stream/Journal.ts"
import type { LivePlan } from "../stream/LivePlan.ts"
import type { Planner } from "../planner/Planner.ts"
import type { PlanAnswer, PlanRun } from "../planner/PlanRun.ts"
import { Connections } from "../provider/HttpAttempt.ts"
import { awayLimit } from "../store/RetryWhileAway.ts"
import type { SessionLock } from "../lock/SessionLock.ts"
import * as PlanSpan from "../telemetry/PlanSpan.ts"
import { timed } from "../telemetry/Instrument.ts"
import * as PlanMetrics from "../telemetry/PlanMetrics.ts"
import * as Parking from "./Parking.ts"
import * as Settlement from "./Settlement.ts"

/** How long a plan that is over waits for its own fibers before it releases the session all the same. */
const finalizers = "10 seconds"

const log = (outcome: Outcome | undefined, end: Settlement.End): Effect.Effect<void> => {
  if (outcome === undefined) {
    if (end._tag === "Parked") return Effect.logInfo("plan_parked")
    return end._tag === "HandedOver" ? Effect.logInfo("plan_handed_over") : Effect.logWarning("lease_lost")
  }
  if (outcome.state === "completed") return Effect.logInfo("plan_completed")
  const { code, reason, stage } = outcome.error
  const isBug = code === "internal" && end._tag === "Exited" && Exit.isFailure(end.exit)
  const line =
    outcome.state === "aborted"
      ? Effect.logInfo("plan_aborted")
      : isBug
        ? Effect.logError("plan_failed", end.exit.cause)
        : Effect.logWarning("plan_failed")
  return Effect.annotateLogs(line, { code, ...(reason === undefined ? {} : { reason }), stage })
}

/** How a plan ends for its process that goes on without it. */
const left: Partial<Record<Settlement.End["_tag"], "handed_over" | "parked">> = {
  HandedOver: "handed_over",
  Parked: "parked"
}

const measure = (run: PlanRun, outcome: Outcome | undefined, end: Settlement.End, now: number): Effect.Effect<void> =>
  PlanMetrics.planEnded(
    outcome ?? left[end._tag] ?? "lost",
    outcome === undefined || outcome.state === "completed" ? undefined : outcome.error,
    run.age(now),
    { inferences: run.inferences, tools: run.progress.tool_calls }
  )

/** Waits for the session, and holds it until the scope of the plan closes. */
const hold = Effect.fnUntraced(function* ({ given, stages }: PlanRun, lock: SessionLock["Service"]) {
  const { journal, session_id } = given
  const fence = yield* lock
    .acquire(session_id, {
      onQueued: (position) => journal.emit({ event: "queued", data: { position, reason: "session_busy" } }),
      onLost: () => journal.loseLease()
    })
    .pipe(
      // The session was deleted, and the plan with it.
      Effect.catchTag("NotFound", () => Effect.fail(new LeaseLost())),
      stages.within("queue"),
      timed((seconds, _, context) => PlanMetrics.queueWait.updateUnsafe(seconds, {}, context))
    )
  journal.hold(fence)
  // While it waited, this process may have been cut off from the store, and another one has the plan. Only that write says so.
  yield* journal.flush
})

/**
 * Closes the readers' streams when the end is stored, or when they have waited long enough, and returns what has become of it. One that is
 * `unread` has to be proposed again: something was said to the plan before.
 */
const close = Effect.fnUntraced(function* (
  run: PlanRun,
  live: LivePlan,
  outcome: Outcome
): Effect.fn.Return<"stored" | "unread" | "lost"> {
  const { journal } = run.given
  // A plan that has waited for the database once does not let its readers wait again.
  const wait = outcome.state !== "completed" && outcome.error.code === "storage" ? Duration.seconds(1) : awayLimit
  const first = yield* journal.settled(({ _tag }) => _tag === "LeaseLost", Duration.toMillis(wait))
  if (first === "unread") return first
  live.close(first === "stored" ? "done" : "reconnect")
  // The session is held until the outcome is stored. Otherwise the next plan would find a plan that never ended.
  const last = first === "late" ? yield* journal.settled(() => true) : first
  if (last === "unread") return last
  if (first === "stopped") run.leave("lost")
  return last === "stored" ? last : "lost"
})

/** Closes the streams of a plan that goes on elsewhere. */
const leave = Effect.fnUntraced(function* (run: PlanRun, live: LivePlan, end: Settlement.End) {
  const isLost = ({ _tag }: Stopped) => _tag === "LeaseLost"
  if (end._tag === "HandedOver") yield* run.given.journal.settled(isLost, Duration.toMillis(awayLimit))
  live.close("reconnect")
})

/** Reads what was said to a plan that is about to end. The database has just answered. */
const refresh = ({ inbox }: PlanRun): Effect.Effect<void> =>
  Effect.retry(inbox.refresh, { schedule: Schedule.spaced("500 millis") }).pipe(Effect.orDie)

interface Parts {
  readonly lock: SessionLock["Service"]
  readonly planner: Planner["Service"]
  /** One permit: plans that end from outside take turns. */
  readonly endings: Semaphore.Semaphore
  /** The plan that asks these texts next, if there are some, and there may be one. Its last answer counts. */
  readonly next: (run: PlanRun, texts: ReadonlyArray<StoredText>) => Effect.Effect<Settlement.Next | undefined>
  /** Asks whoever gets the plan next to abort it. */
  readonly requestAbort: (id: PlanId, reason: AbortReason) => Effect.Effect<void>
  readonly parking: Omit<Parameters<typeof Parking.watch>[2], "context">
}

/** How a plan has ended, and whether its session is free with that. */
interface Ended {
  readonly outcome: Outcome
  readonly how: "stored" | "lost"
  readonly isReleased: boolean
}

/**
 * Runs a plan to its one end.
 *
 *     queued ──session held──▶ running ──the planner answers──▶ completed
 *        │                        ├──────an error─────────────▶ failed
 *        ├────────────────────────┼──────an abort─────────────▶ aborted
 *        ├────────────────────────┴──────a hand-over──────────▶ as it is, for the next process
 *        └───────────────────────────────only waits───────────▶ parked: as it is, for whoever it waits for
 *
 * The planner runs in a fiber of its own. Whatever comes first ends the plan: its answer, its exit, an abort, or a journal that may not
 * write any more. What ends it from outside has closed the connections of its attempts already. The outcome is proposed at once from what
 * the run knows; then the fiber is interrupted, and the session is released when the outcome is stored and the fiber has ended. Nobody
 * waits longer than 10 s for the fiber. An outcome is not stored while the plan's inbox has something that the plan has not read: an answer
 * is then one more message of the plan, and any other outcome is proposed again, with what it leaves.
 */
export const supervise = Effect.fnUntraced(function* (run: PlanRun, live: LivePlan, parts: Parts) {
  const { endings, lock, next, parking, planner, requestAbort } = parts
  const { journal, endsAt } = run.given
  const context = yield* Effect.context<Scope.Scope>()
  const scope = Context.get(context, Scope.Scope)
  /** The answer of the planner and an end from outside take turns: the first one that is stored counts. */
  const turn = Semaphore.makeUnsafe(1)
  let ended: Ended | undefined
  let isOver = false
  let isParked = false

  const nextOf = (outcome: Outcome) => {
    const { asking } = run.inbox.left(outcome.state === "completed")
    return next(run, asking)
  }
  /** Says whether the plan is over. */
  const complete = Effect.fnUntraced(function* (answer: PlanAnswer, mayGoOn: boolean) {
    for (;;) {
      // Somebody has ended it from outside.
      if (isOver) return true
      const outcome: Outcome = { state: "completed", final: answer.final }
      const isReleased = journal.guard._tag === "Held" && run.tasks.open.length === 0
      const following = yield* nextOf(outcome)
      const end: Settlement.End = { _tag: "Exited", exit: Exit.succeed(answer) }
      const now = yield* Clock.currentTimeMillis
      const told = Settlement.settle(run, end, outcome, now, { isReleased, next: following })
      const how = yield* close(run, live, told)
      if (how !== "unread") {
        ended = { outcome: told, how, isReleased }
        return true
      }
      yield* refresh(run)
      if (mayGoOn && run.inbox.texts.length > 0) {
        journal.reopen()
        return false
      }
    }
  })
  run.onComplete((answer, mayGoOn) => turn.withPermit(complete(answer, mayGoOn)))

  /** Parks the plan, if it still only waits when the database has been asked. */
  const park = Effect.gen(function* () {
    while (!isOver && ended === undefined && run.ending === undefined && Parking.onlyWaits(run)) {
      Settlement.park(run, Math.max(endsAt - (yield* Monotonic.now), 0), live)
      // The database is asked until it answers: nothing can be said to the plan meanwhile.
      const how = yield* journal.settled(() => true)
      if (how === "unread") {
        const { seen } = run.inbox
        yield* refresh(run)
        // Somebody has asked to abort it: its process is about to hear that.
        if (run.inbox.seen === seen) return
        continue
      }
      isParked = how === "stored"
      if (isParked) run.park()
      return
    }
  })
  // It ends with the answer of the database, which the end of the plan waits for.
  const fork = (effect: Effect.Effect<void>) => void Effect.runForkWith(context)(effect)
  const unwatch = Parking.watch(
    run,
    live,
    { ...parking, context },
    {
      park: () => fork(turn.withPermit(park)),
      refuse: (reason) => fork(Effect.annotateLogs(Effect.logInfo("plan_not_parked"), { reason }))
    }
  )

  // A running plan that was taken over came with its session, and so does one that was created for a free session.
  const hasSession = run.given.resumed === undefined ? PlanMetrics.queueWait.update(0, {}) : Effect.void
  const holding = journal.guard._tag === "Held" ? hasSession : Scope.provide(hold(run, lock), scope)
  const planning = Effect.provideService(planner.run(run), Connections, run.connections)
  const work = Effect.andThen(holding, planning)

  const firstEnd = (fiber: Fiber.Fiber<PlanAnswer, Settlement.Failed>) =>
    // Not a race, which would make a fiber for each of the two.
    Effect.callback<Settlement.End>((resume) => {
      fiber.addObserver((exit) => resume(Effect.succeed({ _tag: "Exited", exit })))
      run.onEnding((ending) => resume(Effect.succeed(ending)))
    })
  // A thousand callers may leave at the same instant. One plan ends in each turn of the event loop, so that the connections of the last
  // one do not wait for the ends of the others. A plan whose connection is closed does nothing meanwhile.
  const takeTurn = () => (run.connections.size > 0 ? endings.withPermit(Effect.yieldNow) : Effect.void)
  const timeLeft = Math.max(endsAt - (yield* Monotonic.now), 0)
  const { end, fiber } = yield* Effect.uninterruptibleMask((restore) =>
    // Detached, since a parent waits for its children without a limit. It is interrupted below, whatever ends the plan.
    Effect.flatMap(Effect.forkDetach(restore(work)), (fiber) => {
      const cancelAlarm = Alarm.set(timeLeft, () => run.abort("deadline"), context)
      return restore(Effect.tap(firstEnd(fiber), takeTurn)).pipe(
        Effect.onInterrupt(() => Fiber.interrupt(fiber)),
        Effect.ensuring(
          Effect.sync(() => {
            cancelAlarm()
            unwatch()
          })
        ),
        Effect.map((end) => ({ end, fiber }))
      )
    })
  )
  const now = yield* Clock.currentTimeMillis

  /** Ends the plan as its fiber has ended, or as somebody has ended it from outside. */
  const finish = Effect.gen(function* () {
    if (ended !== undefined) return ended
    isOver = true
    if (isParked) {
      run.leave("handed over")
      fiber.interruptUnsafe()
      live.close("parked")
      yield* lock.forget(run.given.session_id, journal.guard.fence)
      // It came while the database was asked. The deadline is stored with the plan: it is a later one, by the time for which the plan is parked.
      const isLate = end._tag === "Aborted" && end.reason !== "shutdown" && end.reason !== "deadline"
      if (isLate) yield* requestAbort(run.given.plan_id, end.reason)
      return undefined
    }
    for (;;) {
      const outcome = Settlement.outcomeOf(end, run.snapshot(), now)
      // With nothing of the plan left, the session is free when the end is stored; else when this scope closes.
      const isReleased =
        journal.guard._tag === "Held" && fiber.pollUnsafe() !== undefined && run.tasks.open.length === 0
      if (outcome === undefined) {
        Settlement.handOver(run, end._tag === "HandedOver" ? "handed over" : "lost")
        fiber.interruptUnsafe()
        yield* leave(run, live, end)
        return undefined
      }
      const told = Settlement.settle(run, end, outcome, now, { isReleased, next: yield* nextOf(outcome) })
      fiber.interruptUnsafe()
      const how = yield* close(run, live, told)
      if (how !== "unread") return { outcome: told, how, isReleased }
      yield* refresh(run)
    }
  })
  const closing = turn.withPermit(finish)
  const closed =
    fiber.pollUnsafe() === undefined
      ? Effect.map(
          Effect.all([closing, Effect.timeoutOption(Fiber.await(fiber), finalizers)], { concurrency: "unbounded" }),
          ([ended]) => ended
        )
      : closing
  const known = yield* closed
  if (known?.isReleased === true && known.how === "stored") {
    yield* lock.forget(run.given.session_id, journal.guard.fence)
  }
  yield* PlanSpan.settle(() => ({ outcome: known?.outcome, progress: run.progress }))
  const outcome = run.elsewhere === "lost" ? undefined : known?.outcome
  const how: Settlement.End = isParked ? { _tag: "Parked" } : end
  yield* measure(run, outcome, how, now)
  yield* log(outcome, how)
})
