import { EmptyAnswer, ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Duration, Effect, Pull, Schedule } from "effect"
import type { CredentialPool } from "../provider/CredentialPool.ts"
import type { ProviderRequest } from "../provider/Provider.ts"
import * as Recourse from "../provider/Recourse.ts"
import * as RetryPolicy from "../provider/RetryPolicy.ts"
import { type Entry, toldHistory } from "../session/LegalHistory.ts"
import * as GenAi from "../telemetry/GenAi.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import type { Assembly } from "./Assembly.ts"
import * as Continuation from "./Continuation.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "./PlansConfig.ts"
import * as StepAttempt from "./StepAttempt.ts"
import * as Target from "./Target.ts"

const textOf = (parts: ReadonlyArray<MessagePart>): string =>
  parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "")

const correctCall: Entry = {
  role: "user",
  parts: [{ type: "text", text: "The arguments of your last tool call were not valid JSON. Make the call again." }]
}

type Asked = Omit<ProviderRequest, "model" | "facts">

/** The same request, mended for an attempt behind one that failed for this reason. */
const mend = (request: Asked, reason: ProviderErrorReason): Asked => {
  if (reason._tag === "history_rejected") return { ...request, messages: toldHistory(request.messages) }
  return reason._tag === "tool_json" ? { ...request, messages: [...request.messages, correctCall] } : request
}

/**
 * One answer, shown while it comes, out of as many attempts as it takes: with the run's target, and with those that take its
 * place, which the run keeps.
 */
export const ask = (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  run: PlanRun,
  asked: Asked
): Effect.Effect<Continuation.Answer, ProviderError | StorageError> => {
  const answer = answerTo(pool, config, run, asked).pipe(
    Effect.tapErrorTag("ProviderError", (error) =>
      run.failures.length === 0 ? Effect.void : tellExhausted(run, error)
    )
  )
  return Effect.withSpan(answer, "step", { captureStackTrace: false, attributes: { [GenAi.step]: run.steps } })
}

/** A step has given up. Where nothing was tried again that is only worth a line if it might have helped. */
const tellExhausted = Effect.fnUntraced(function* (run: PlanRun, error: ProviderError) {
  const attempts = run.failures.length
  if (attempts === 1 && !error.isRetryable) return
  yield* ProviderMetrics.retriesExhausted(Target.asked(run.model), error.type)
  const { model } = run
  yield* Effect.annotateLogs(Effect.logWarning("provider_retries_exhausted"), {
    error_type: error.type,
    attempts,
    model
  })
})

const answerTo = Effect.fnUntraced(function* (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  run: PlanRun,
  asked: Asked
): Effect.fn.Return<Continuation.Answer, ProviderError | StorageError> {
  const { journal, deadline, session_id } = run.given
  const step = run.steps
  const waits = RetryPolicy.waits({ maxRetries: config.maxRetries, baseMs: Duration.toMillis(config.retryBase) })
  const mayCall = asked.toolChoice === "auto"

  run.failures = []
  run.partialText = ""
  /** From now on the plan asks this one of its models. */
  const goOnWith = (model: string) => {
    if (model === run.model) return
    run.models = run.models.slice(run.models.indexOf(model))
    journal.append([{ _tag: "Progressed", stage: "provider", progress: run.progress }], [])
  }

  let target = yield* Target.first(pool, session_id, run.models)
  goOnWith(target.model)
  let tried = new Set<string>()
  let failures: Array<ProviderErrorReason> = []
  let nextWait = yield* Schedule.toStep(waits)

  /** Finds who is asked next, and waits until then; what was shown of the last attempt is taken back. */
  const recover = Effect.fnUntraced(function* (
    assembly: Assembly,
    attempt: number,
    reason: ProviderErrorReason,
    kept: ReadonlyArray<MessagePart>
  ) {
    const error = new ProviderError({ reason })
    const { credential, model } = target
    run.failures.push(reason)
    failures.push(reason)
    yield* pool.failed({ ...Target.use(target), reason, stage: "provider" }).pipe(Effect.ignore({ log: "Warn" }))
    tried.add(credential.id)
    const other = yield* Target.pick(pool, session_id, model, tried)
    const models = run.models.slice(run.models.indexOf(model) + 1)
    const now = yield* Clock.currentTimeMillis
    const chances = {
      waitMs: yield* nextWait(now, reason).pipe(
        Effect.map(([, wait]) => Duration.toMillis(wait)),
        Pull.catchDone(() => Effect.undefined)
      ),
      hasOtherCredential: other._tag === "Picked",
      hasOtherModel: models.length > 0,
      timeLeftMs: deadline - now
    }
    const recourse = Recourse.decide(failures, chances)
    if (recourse._tag === "GiveUp") return yield* error
    if (recourse._tag === "OtherCredential" && other._tag === "Picked") target = { model, credential: other.credential }
    if (recourse._tag === "OtherModel") {
      target = yield* Effect.mapError(Target.first(pool, session_id, models), (none) =>
        none._tag === "ProviderError" ? error : none
      )
      goOnWith(target.model)
      yield* ProviderMetrics.failedOver(Target.asked(model), error.type)
      tried = new Set()
      failures = []
      nextWait = yield* Schedule.toStep(waits)
    }
    yield* ProviderMetrics.retried(Target.asked(model), error.type)
    if (assembly.isShown) {
      journal.emit({ event: "text.retract", data: { step, attempt } })
      yield* ProviderMetrics.retracted(Target.asked(model), error.type)
    }
    run.partialText = textOf(kept)
    const delay_ms = "delayMs" in recourse ? recourse.delayMs : 0
    const { code, message } = error
    const next = { attempt: attempt + 1, delay_ms, credential: target.credential.id, model: target.model }
    journal.emit({ event: "retry", data: { step, ...next, error: { code, message } } })
    yield* Effect.annotateLogs(Effect.logWarning("provider_retry"), {
      error_type: error.type,
      attempt,
      delay_ms,
      credential: credential.id,
      model
    })
    yield* Effect.sleep(delay_ms).pipe(run.within("backoff"))
  })

  let request = asked
  let continued = Continuation.notContinued
  let kept: ReadonlyArray<MessagePart> = []
  for (let attempt = 1; ; attempt++) {
    // While it waited, or answered, another plan may have found that its credential is to be left alone.
    if (attempt > 1) target = yield* Target.again(pool, session_id, target, tried)
    const { assembly, failure } = yield* StepAttempt.make(pool, config, run, target, attempt, request)
    if (failure !== undefined) {
      yield* recover(assembly, attempt, failure, kept)
      request = mend(request, failure)
      continue
    }
    yield* pool.succeeded(Target.use(target)).pipe(Effect.ignore({ log: "Warn" }))
    const { finish = "other", dropped } = assembly
    const calls = assembly.calls.map((call) => ({ ...call, at: kept.length + call.at }))
    kept = [...kept, ...assembly.parts]
    const answer = { finish, calls, dropped, parts: kept, text: textOf(kept) }
    const next = Continuation.next(answer, mayCall, continued)
    if (Continuation.isEmpty(answer, mayCall)) {
      const reason = new EmptyAnswer({ message: "The provider gave an empty answer" })
      run.failures.push(reason)
      if (next === undefined) return yield* new ProviderError({ reason })
    }
    if (next === undefined) return answer
    continued = next.continued
    request = { ...asked, messages: [...asked.messages, { role: "assistant", parts: kept }, ...next.ask] }
  }
})
