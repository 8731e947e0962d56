import { ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Duration, Effect, Pull, Schedule } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import type { CredentialPool } from "./CredentialPool.ts"
import * as Recourse from "./Recourse.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as Target from "./Target.ts"

/** Whom to ask for an answer, and until when. */
export interface Subject extends Target.Seeker {
  /** As `provider/model`: the one to ask, and those that may take its place, in order. */
  readonly models: ReadonlyArray<string>
  /** Milliseconds of the `Monotonic` clock: no attempt begins after it. */
  readonly endsAt: number
  /** The plan's stage while it waits for the answer. */
  readonly stage: Stage
}

interface Parts {
  readonly pool: CredentialPool["Service"]
  readonly targets: Target.Targets
  readonly settings: RetryPolicy.RetrySettings
}

/** Counts the waits with one model: milliseconds until the next attempt, undefined once the retries are used up. */
const countWaits = (settings: RetryPolicy.RetrySettings) =>
  Effect.map(
    Schedule.toStep(RetryPolicy.waits(settings)),
    (step) => (now: number, reason: ProviderErrorReason) =>
      step(now, reason).pipe(
        Effect.map(([, wait]) => Duration.toMillis(wait)),
        Pull.catchDone(() => Effect.undefined)
      )
  )

type NextWait = Effect.Success<ReturnType<typeof countWaits>>

/** Finds the target of each attempt, until one has an answer. */
export class Retries {
  readonly #parts: Parts
  readonly #subject: Subject
  #target: Target.Target
  /** Made when it is needed: most steps need no retry. */
  #nextWait: NextWait | undefined
  /** The credentials that have failed with the model in use, and why. */
  #tried = new Set<string>()
  #failures: Array<ProviderErrorReason> = []

  private constructor(parts: Parts, subject: Subject, target: Target.Target) {
    this.#parts = parts
    this.#subject = subject
    this.#target = target
  }

  /** Begins with the first of the models that has a free credential. */
  static readonly begin = Effect.fnUntraced(function* (
    parts: Parts,
    subject: Subject
  ): Effect.fn.Return<Retries, ProviderError | StorageError> {
    const target = yield* parts.targets.first(subject, subject.models)
    return new Retries(parts, subject, target)
  })

  get target(): Target.Target {
    return this.#target
  }

  /** The same target, unless a window binds its credential by now: then another credential, if one is free. */
  get again(): Effect.Effect<Target.Target, StorageError> {
    return Effect.map(
      this.#parts.targets.again(this.#subject.session, this.#target, this.#tried),
      (target) => (this.#target = target)
    )
  }

  /** The attempt of that number has failed. Chooses the next target, and gives the milliseconds to wait; fails if there is none. */
  failed(attempt: number, reason: ProviderErrorReason) {
    return Effect.gen({ self: this }, function* (): Effect.fn.Return<number, ProviderError | StorageError> {
      const { pool, targets } = this.#parts
      const { stage } = this.#subject
      const error = new ProviderError({ reason })
      const { credential, model } = this.#target
      this.#failures.push(reason)
      this.#tried.add(credential.id)
      yield* pool
        .failed({ ...Target.use(this.#target), reason, stage })
        .pipe(Effect.ignore({ log: "Warn", message: "credential_use_not_stored" }))
      const other = yield* targets.pick(this.#subject, model, this.#tried)
      const recourse = yield* this.#decide(reason, other._tag === "Picked")
      if (recourse._tag === "GiveUp") return yield* error
      if (recourse._tag === "OtherModel") yield* this.#failOver(error)
      else if (recourse._tag === "OtherCredential" && other._tag === "Picked")
        this.#target = { model, credential: other.credential }
      const delay_ms = "delayMs" in recourse ? recourse.delayMs : 0
      yield* ProviderMetrics.retried(Target.asked(model), error.type)
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

  get #otherModels(): ReadonlyArray<string> {
    const { models } = this.#subject
    return models.slice(models.indexOf(this.#target.model) + 1)
  }

  #decide(reason: ProviderErrorReason, hasOtherCredential: boolean) {
    return Effect.gen({ self: this }, function* () {
      const now = yield* Monotonic.now
      const nextWait = (this.#nextWait ??= yield* countWaits(this.#parts.settings))
      return Recourse.decide(this.#failures, {
        waitMs: yield* nextWait(now, reason),
        hasOtherCredential,
        hasOtherModel: this.#otherModels.length > 0,
        timeLeftMs: this.#subject.endsAt - now
      })
    })
  }

  /** The next model has all its retries. Where it has no free credential either, the step fails as the last model did. */
  #failOver(error: ProviderError) {
    return Effect.gen({ self: this }, function* () {
      const { targets } = this.#parts
      const { model } = this.#target
      this.#target = yield* Effect.mapError(targets.first(this.#subject, this.#otherModels), (none) =>
        none._tag === "ProviderError" ? error : none
      )
      yield* ProviderMetrics.failedOver(Target.asked(model), error.type)
      this.#tried = new Set()
      this.#failures = []
      this.#nextWait = undefined
    })
  }
}
