import type { CallerName } from "@bowline/domain/caller/CallerName"
import { isSettled, PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import {
  type HopsExceeded,
  type IdempotencyConflict,
  InvalidRequest,
  NotAccepting,
  type SessionBusy
} from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import { StorageError } from "@bowline/domain/storage/StorageError"
import {
  Cause,
  Clock,
  Context,
  type Duration,
  Effect,
  Exit,
  Fiber,
  FiberSet,
  Latch,
  Layer,
  Option,
  Schedule
} from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { EnvironmentSecrets } from "../config/EnvironmentSecrets.ts"
import { GatewayId } from "../config/GatewayId.ts"
import { direct, type Route } from "../peer/PeerClient.ts"
import { SessionLock } from "../lock/SessionLock.ts"
import { toFrame } from "../store/EventRow.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import * as Admission from "./Admission.ts"
import { supersede } from "./Cancellation.ts"
import * as Hops from "./Hops.ts"
import type { Idempotency, PlanExists } from "../store/Idempotency.ts"
import { newPlan } from "./NewPlan.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import { PlanStore } from "../store/PlanStore.ts"
import { type RunningPlan, RunningPlans } from "./RunningPlans.ts"
import { SecretKey } from "../store/SecretKey.ts"

/** How long a plan runs for a caller who was not told that it exists. */
const comeBackWithin = "60 seconds"

/** Whether the database may have done what it was asked to do. */
const isLostAnswer = (cause: Cause.Cause<{ readonly _tag: string } | StorageError>): boolean => {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  return error instanceof StorageError && error.reason.isRetryable
}

/** A question, and who asks it. */
export interface Asked {
  readonly caller: CallerName
  readonly request: PlanRequest
  /** The way on which other gateways have sent the plan here, if they have. */
  readonly route?: Route | undefined
  /** The key that is to stand for the plan. */
  readonly idempotency?: Idempotency | undefined
}

type Session = Effect.Success<ReturnType<PlanStore["Service"]["create"]>>

/** The caller has disconnected before the plan was there: nobody reads the plan. */
const disconnect = (start: Fiber.Fiber<RunningPlan, unknown>) =>
  Effect.flatMap(Fiber.await(start), (exit) =>
    Exit.isSuccess(exit) ? Effect.scoped(exit.value.live.attach) : Effect.void
  )

/** Checks requests, stores their plans, and starts them. */
export class NewPlans extends Context.Service<
  NewPlans,
  {
    /** A caller that is interrupted before `use` counts as a reader that has disconnected from the plan. */
    readonly start: <A, R>(
      asked: Asked,
      use: (plan: RunningPlan) => Effect.Effect<A, never, R>
    ) => Effect.Effect<
      A,
      InvalidRequest | HopsExceeded | SessionBusy | NotAccepting | IdempotencyConflict | PlanExists | StorageError,
      R
    >
    /** The plan, if it runs here. Waits for a plan that this process is about to run, and that may be stored already. */
    readonly find: (id: PlanId) => Effect.Effect<RunningPlan | undefined>
    /** Whether the plan runs here, or is about to. */
    readonly isKnown: (id: PlanId) => boolean
  }
>()("@bowline/runtime/plan/NewPlans") {
  static readonly layer = Layer.effect(
    NewPlans,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const store = yield* PlanStore
      const running = yield* RunningPlans
      const { replica } = yield* SessionLock
      const secrets = yield* EnvironmentSecrets
      const secretKey = yield* SecretKey
      const gateway = yield* GatewayId
      const localTools = (yield* LocalTools).map(({ name }) => name)
      const uuid = yield* UuidGenerator
      const starts = yield* FiberSet.make()
      /** Plans that are being stored, and do not run yet. */
      const creations = new Map<PlanId, Latch.Latch>()

      const check = (request: PlanRequest, came: Route) =>
        Effect.suspend((): Effect.Effect<void, NotAccepting | InvalidRequest | HopsExceeded> => {
          if (running.isDraining()) return Effect.fail(new NotAccepting({ code: "draining" }))
          const issues = Admission.check(request, {
            allowsModel: config.allowsModel,
            allowsVariable: secrets.isAllowed,
            localTools
          })
          if (issues.length > 0) return Effect.fail(new InvalidRequest({ issues }))
          const tooFar = Hops.refusal(came, gateway, request.preferences.max_hops)
          return tooFar === undefined ? Effect.void : Effect.fail(tooFar)
        })

      const run = (plan: PlanStart, session: Session, awaited?: Duration.Input) => {
        const { session_id, external_session_id, created } = session
        return running.run({
          ...plan,
          session_id,
          awaited,
          guard: { _tag: "Queued", replica, fence: 0 },
          head: 1,
          recent: [toFrame(1, { event: "session", data: { external_session_id, created } })],
          resumed: undefined
        })
      }

      /** Runs a plan that was stored though the answer was lost: its caller may come back with the key. */
      const adopt = Effect.fnUntraced(
        function* (plan: PlanStart, new_session_id: SessionId) {
          const stored = yield* Effect.retry(store.get(plan.caller, plan.plan_id), {
            while: (error) => error._tag === "StorageError" && error.reason.isRetryable,
            schedule: Schedule.spaced("500 millis")
          })
          if (isSettled(stored)) return
          const { session_id, external_session_id } = stored
          const session = { session_id, external_session_id, created: session_id === new_session_id }
          yield* run(plan, session, comeBackWithin)
        },
        (adopting) => Effect.ignore(adopting)
      )

      const start = Effect.fnUntraced(function* ({ caller, request, route: came = direct, idempotency }: Asked) {
        yield* check(request, came)
        yield* running.reserve()
        const createdAt = yield* Clock.currentTimeMillis
        const plan: PlanStart = {
          plan_id: PlanId.make(`plan_${uuid()}`),
          caller,
          request,
          model: request.preferences.model ?? config.model,
          route: Hops.onward(came, gateway),
          createdAt,
          deadline: createdAt + request.preferences.timeout_ms
        }
        const isKept = config.resume && store.isDurable
        const stored = newPlan(plan, { replica, idempotency, secretKey, isKept, uuid })
        const created = Latch.makeUnsafe(false)
        creations.set(plan.plan_id, created)
        const decided = Effect.sync(() => {
          creations.delete(plan.plan_id)
          created.openUnsafe()
        })
        const session = yield* store
          .create(stored, config.maxQueue)
          .pipe(
            Effect.onError((cause) =>
              isLostAnswer(cause)
                ? FiberSet.run(starts, Effect.ensuring(adopt(plan, stored.new_session_id), decided))
                : decided
            )
          )
        const started = yield* Effect.ensuring(run(plan, session), decided)
        if (request.preferences.on_busy === "interrupt" && !session.created) {
          // The plan and its key are stored, so it is not refused any more: at worst it waits for the older plans.
          yield* supersede(running, store, caller, started.run.given)
        }
        return started
      }, Effect.scoped)

      return {
        isKnown: (id) => creations.has(id) || running.find(id) !== undefined,
        find: (id) =>
          Effect.suspend(() => creations.get(id)?.await ?? Effect.void).pipe(Effect.map(() => running.find(id))),
        start: (asked, use) =>
          Effect.uninterruptibleMask((restore) =>
            Effect.gen(function* () {
              const fiber = yield* FiberSet.run(starts, start(asked))
              const plan = yield* restore(Fiber.join(fiber)).pipe(
                Effect.onInterrupt(() => FiberSet.run(starts, disconnect(fiber)))
              )
              return yield* use(plan)
            })
          )
      }
    })
  )
}
