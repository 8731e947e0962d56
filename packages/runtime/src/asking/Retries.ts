import { ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Duration, Effect, Pull, Schedule } from "effect"
import type { CredentialPool } from "./CredentialPool.ts"
import * as Recourse from "./Recourse.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import * as Target from "./Target.ts"

/** Who is asked, attempt after attempt, until one has an answer. */
export interface Retries {
  /** Who is asked now. */
  readonly target: () => Target.Target
  /** The same, unless another plan has found meanwhile that its credential is to be left alone. */
  readonly again: Effect.Effect<Target.Target, StorageError>
  /**
   * The attempt of that number has failed. Finds who is asked next, and gives the milliseconds to wait until then; fails
   * with the reason where there is nobody.
   */
  readonly failed: (attempt: number, reason: ProviderErrorReason) => Effect.Effect<number, ProviderError | StorageError>
}

/** Begins with the first of the models that has a free credential. `stage` is what the waits and attempts belong to. */
export const make = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  given: {
    readonly session: SessionId
    readonly models: ReadonlyArray<string>
    /** Milliseconds since 1970. */
    readonly deadline: number
    readonly stage: Stage
  }
): Effect.fn.Return<Retries, ProviderError | StorageError> {
  const { session, models, deadline, stage } = given
  const waits = RetryPolicy.waits({ maxRetries: config.maxRetries, baseMs: Duration.toMillis(config.retryBase) })
  let target = yield* Target.first(pool, session, models)
  let tried = new Set<string>()
  let failures: Array<ProviderErrorReason> = []
  let nextWait = yield* Schedule.toStep(waits)

  return {
    target: () => target,
    again: Effect.suspend(() =>
      Effect.map(Target.again(pool, session, target, tried), (next) => {
        target = next
        return next
      })
    ),
    failed: Effect.fnUntraced(function* (attempt, reason) {
      const error = new ProviderError({ reason })
      const { credential, model } = target
      failures.push(reason)
      yield* pool.failed({ ...Target.use(target), reason, stage }).pipe(Effect.ignore({ log: "Warn" }))
      tried.add(credential.id)
      const other = yield* Target.pick(pool, session, model, tried)
      const others = models.slice(models.indexOf(model) + 1)
      const now = yield* Clock.currentTimeMillis
      const recourse = Recourse.decide(failures, {
        waitMs: yield* nextWait(now, reason).pipe(
          Effect.map(([, wait]) => Duration.toMillis(wait)),
          Pull.catchDone(() => Effect.undefined)
        ),
        hasOtherCredential: other._tag === "Picked",
        hasOtherModel: others.length > 0,
        timeLeftMs: deadline - now
      })
      if (recourse._tag === "GiveUp") return yield* error
      if (recourse._tag === "OtherCredential" && other._tag === "Picked")
        target = { model, credential: other.credential }
      if (recourse._tag === "OtherModel") {
        target = yield* Effect.mapError(Target.first(pool, session, others), (none) =>
          none._tag === "ProviderError" ? error : none
        )
        yield* ProviderMetrics.failedOver(Target.asked(model), error.type)
        tried = new Set()
        failures = []
        nextWait = yield* Schedule.toStep(waits)
      }
      yield* ProviderMetrics.retried(Target.asked(model), error.type)
      const delay_ms = "delayMs" in recourse ? recourse.delayMs : 0
      yield* Effect.annotateLogs(Effect.logWarning("provider_retry"), {
        error_type: error.type,
        attempt,
        delay_ms,
        credential: credential.id,
        model
      })
      return delay_ms
    })
  }
})
