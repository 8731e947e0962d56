import { isSettled, type PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Cause, Effect, Exit, FiberSet, Latch, Option, Schedule, Scope } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { FilesConfig } from "../config/FilesConfig.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { toFrame } from "../store/EventRow.ts"
import * as PlanGist from "../store/PlanGist.ts"
import { type PlanSession, PlanStore } from "../store/PlanStore.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { SecretKey } from "../store/SecretKey.ts"
import type * as Keeper from "./Keeper.ts"
import { type RunningPlan, RunningPlans } from "./RunningPlans.ts"
import { type Kept, type Parts as StoredParts, type Ready, type Start, toStore } from "./StoredPlan.ts"

/** How long a plan runs without a reader if its caller never got the answer to the request that created it. */
const comeBackWithin = "60 seconds"

interface Parts extends StoredParts {
  readonly running: RunningPlans["Service"]
  readonly filesQuota: number
  /** Runs what goes on after `create` has failed. */
  readonly background: FiberSet.FiberSet
}

/** What a plan does for its session once it runs. What it has dropped there is not known where the answer of the store was lost. */
type Begun = (plan: RunningPlan, session: PlanSession) => Effect.Effect<void>

/** Whether the database may have executed the statement although its answer is missing. */
const isLostAnswer = (cause: Cause.Cause<{ readonly _tag: string } | StorageError>): boolean => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return error instanceof StorageError && error.reason.isRetryable
}

/** Stores plans that were admitted, and runs them. */
export class Creations {
  readonly #parts: Parts
  /** Plans that are being stored, and do not run yet. */
  readonly #pending = new Map<PlanId, Latch.Latch>()

  private constructor(parts: Parts) {
    this.#parts = parts
  }

  static readonly make = Effect.fnUntraced(function* (background: Parts["background"]) {
    return new Creations({
      store: yield* PlanStore,
      running: yield* RunningPlans,
      config: yield* PlansConfig,
      secretKey: yield* SecretKey,
      lock: yield* SessionLock,
      uuid: yield* UuidGenerator,
      filesQuota: (yield* FilesConfig).sessionQuota,
      background
    })
  })

  isPending(id: PlanId): boolean {
    return this.#pending.has(id)
  }

  /** Waits until it is known whether the plan runs here. */
  decided(id: PlanId): Effect.Effect<void> {
    return Effect.suspend(() => this.#pending.get(id)?.await ?? Effect.void)
  }

  /**
   * If the answer of the store is lost, this fails, and the plan is run in the background if it turns out to be stored. Its place
   * stays reserved until that is decided. `begun` is done for a plan that runs, in either case.
   */
  readonly create = Effect.fnUntraced(function* (this: Creations, start: Start, kept: Kept, begun: Begun) {
    const { store, config, background, lock, running } = this.#parts
    const scope = yield* Scope.make()
    const place = yield* Scope.provide(Effect.tap(running.reserve, lock.expectLeases), scope)
    const stored = toStore(this.#parts, start, kept)
    const decided = this.#begin(start.plan_id, scope)
    const session = yield* store
      .create({ ...stored, filesQuota: this.#parts.filesQuota }, config.maxQueue)
      .pipe(
        Effect.onError((cause) =>
          isLostAnswer(cause)
            ? FiberSet.run(
                background,
                Effect.ensuring(this.#adopt(start, stored.new_session_id, place, begun), decided)
              )
            : decided
        )
      )
    // Nobody else has written the session since it was made.
    const isEmpty =
      session.created && session.fence !== undefined && stored.messages.length === 0 && !start.request.prior_summary
    const plan = yield* Effect.ensuring(this.#run(start, session, place, { isEmpty }), decided)
    yield* begun(plan, session)
    return plan
  })

  /** Returns an effect that wakes the callers that wait until it is known whether the plan runs here, and gives back the place that it has not taken. */
  #begin(id: PlanId, scope: Scope.Closeable): Effect.Effect<void> {
    const latch = Latch.makeUnsafe(false)
    this.#pending.set(id, latch)
    return Effect.suspend(() => {
      this.#pending.delete(id)
      latch.openUnsafe()
      return Scope.close(scope, Exit.void)
    })
  }

  #run(
    start: Start,
    { session_id, external_session_id, created, fence }: Omit<PlanSession, "dropped">,
    place: Keeper.Place,
    rest: Pick<Ready, "isEmpty"> & Partial<Pick<Ready, "awaited" | "guard">>
  ): Effect.Effect<RunningPlan> {
    const { running, lock } = this.#parts
    const at = fromMillis(start.createdAt)
    const ready: Ready = {
      ...start,
      session_id,
      awaited: undefined,
      guard: fence === undefined ? { _tag: "Queued", replica: lock.replica, fence: 0 } : { _tag: "Held", fence },
      ...rest,
      head: { seq: 1, at },
      recent: [toFrame(1, at, { event: "session", data: { external_session_id, created } })],
      gist: PlanGist.upTo(1),
      inbox: undefined,
      resumed: undefined
    }
    return running.run(ready, place)
  }

  /**
   * Runs a plan that was stored although the answer was lost. Its caller may come back with the key. It asks the store until the
   * plan's deadline.
   */
  readonly #adopt = Effect.fnUntraced(
    function* (this: Creations, start: Start, new_session_id: SessionId, place: Keeper.Place, begun: Begun) {
      const get = Effect.retry(this.#parts.store.get(start.caller, start.plan_id), {
        while: (error) => error._tag === "StorageError" && error.reason.isRetryable,
        schedule: Schedule.spaced("500 millis")
      })
      const stored = yield* Effect.timeout(get, Math.max(start.endsAt - (yield* Monotonic.now), 0))
      if (isSettled(stored)) return
      const guard = yield* retryWhileAway(this.#parts.store.guardOf(start.plan_id, this.#parts.lock.replica))
      if (Option.isNone(guard)) return
      const { session_id, external_session_id } = stored
      const created = session_id === new_session_id
      const session = { session_id, external_session_id, created, fence: undefined, dropped: [] }
      const plan = yield* this.#run(start, session, place, {
        isEmpty: false,
        awaited: comeBackWithin,
        guard: guard.value
      })
      yield* FiberSet.run(this.#parts.background, begun(plan, session))
    },
    (adopting) => Effect.ignore(adopting)
  )
}
