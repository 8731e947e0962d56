import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import { Plans } from "@bowline/runtime/plan/Plans"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { retryWhileAway } from "@bowline/runtime/unstable/store/RetryWhileAway"
import { PlanFollower, type PlanReading } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, FiberSet, Option, Queue } from "effect"
import { nameIn, resultOf, waitFor } from "../../http/JsonAnswer.ts"
import type { Refusal } from "../../http/Refusals.ts"

export type Look = (frame: PlanFrame) => void

/** What a call has come to: a plan as it is now, and the decision that it waits for, if it does. */
export interface Outcome {
  readonly plan: PlanResult
  readonly approval?: PendingApproval
  /** Whether it waits for an answer, or for a tool of its client: no client of MCP is asked for these. */
  readonly isWaiting?: boolean
}

/** Waits for the plans of calls. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const follower = yield* PlanFollower
  const cancels = yield* FiberSet.make()

  /** What the plan waits for: the newest call that nobody has decided about. */
  const approvalOf = (caller: CallerName, id: PlanId) => Effect.map(plans.approvalsOf(caller, id), ([newest]) => newest)

  /** A plan as it is now, and what it waits for. If the database is away, the refusal names the plan. */
  const standing = Effect.fnUntraced(
    function* (caller: CallerName, id: PlanId) {
      const plan = yield* plans.get(caller, id)
      const approval = isSettled(plan) ? undefined : yield* approvalOf(caller, id)
      return { plan: resultOf(plan), isWaiting: plan.stage === "client", ...(approval !== undefined && { approval }) }
    },
    (standing, _, id) => Effect.catchTag(standing, "StorageError", nameIn(id))
  )

  /** Reads a plan until it is over, a call of it waits for a decision, or the time has passed. */
  const wait = Effect.fnUntraced(function* (
    caller: CallerName,
    reading: PlanReading,
    waitMs: number,
    look: Look
  ): Effect.fn.Return<Outcome | undefined, Refusal> {
    const asked = yield* Queue.unbounded<void>()
    const over = waitFor(plans, caller, follower.follow(caller, reading), (frame) => {
      if (frame.event === "approval.requested") Queue.offerUnsafe(asked, undefined)
      look(frame)
    }).pipe(Effect.map((plan): Outcome => ({ plan })))
    // What is read again may be decided already.
    const approval = Effect.gen(function* () {
      for (;;) {
        yield* Queue.take(asked)
        const found: Outcome = yield* standing(caller, reading.plan_id)
        if (found.approval !== undefined) return found
      }
    })
    const ended = Effect.raceFirst(over, approval).pipe(
      // The plan goes on: elsewhere, or when the database is back.
      Effect.catchIf(
        (error) => error._tag === "Refused" && error.plan_id !== undefined,
        () => Effect.undefined
      )
    )
    return Option.getOrUndefined(yield* Effect.timeoutOption(ended, waitMs))
  })

  /** Waits for a plan that goes on whatever becomes of the call. */
  const watch = Effect.fnUntraced(function* (caller: CallerName, reading: PlanReading, waitMs: number, look: Look) {
    const waited = yield* wait(caller, reading, waitMs, look)
    return waited ?? (yield* standing(caller, reading.plan_id))
  })

  /** The caller no longer waits for a plan that only this call knows of: nobody else ends it. What is handed over to another replica goes on. */
  const abandon = (caller: CallerName, id: PlanId) => {
    const ending = Effect.ignore(retryWhileAway(plans.cancel(caller, id)))
    return Effect.flatMap(plans.isDraining, (isDraining) =>
      isDraining ? Effect.void : Effect.asVoid(FiberSet.run(cancels, ending))
    )
  }

  /** Waits for a plan that only its caller knows of: it ends with the call, unless the time has passed. */
  const hold = (caller: CallerName, reading: PlanReading, waitMs: number, look: Look) =>
    Effect.gen(function* () {
      const waited = yield* Effect.interruptible(wait(caller, reading, waitMs, look)).pipe(
        Effect.onInterrupt(() => abandon(caller, reading.plan_id))
      )
      return waited ?? (yield* standing(caller, reading.plan_id))
    })

  return { approvalOf, hold, watch }
})
