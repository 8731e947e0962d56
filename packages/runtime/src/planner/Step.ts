import { EmptyAnswer, ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { Usage } from "@bowline/domain/plan/Usage"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { CredentialPool } from "../asking/CredentialPool.ts"
import type { ProviderRequest } from "../provider/Provider.ts"
import { type Entry, toldHistory } from "../history/LegalHistory.ts"
import * as GenAi from "../telemetry/GenAi.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import type { Assembly } from "./Assembly.ts"
import * as Continuation from "./Continuation.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Attempts } from "./Resumption.ts"
import * as Retries from "../asking/Retries.ts"
import * as StepAttempt from "./StepAttempt.ts"
import type { StepState } from "./StepState.ts"
import * as Target from "../asking/Target.ts"

const textOf = (parts: ReadonlyArray<MessagePart>): string =>
  parts.reduce((all, part) => (part.type === "text" ? all + part.text : all), "")

const correctCall: Entry = {
  role: "user",
  parts: [{ type: "text", text: "The arguments of your last tool call were not valid JSON. Make the call again." }]
}

const processGone = { code: "interrupted", message: "The process that made the attempt is gone" }

export type Asked = Omit<ProviderRequest, "model" | "facts">

/** The same request, mended for an attempt behind one that failed for this reason. */
const mend = (request: Asked, reason: ProviderErrorReason): Asked => {
  if (reason._tag === "history_rejected") return { ...request, messages: toldHistory(request.messages) }
  return reason._tag === "tool_json" ? { ...request, messages: [...request.messages, correctCall] } : request
}

/** An answer, and what the provider has counted of the attempt that ended it. */
export interface Given extends Continuation.Answer {
  readonly usage: Usage | undefined
}

/**
 * One answer, shown while it comes, out of as many attempts as it takes: with the run's target, and with those that take its
 * place, which the run keeps. A request that is refused as too long is made `shorter`, once, if it can be. What the attempts `before`
 * have shown, which another process has made, is taken back.
 */
export const ask = (
  pool: CredentialPool["Service"],
  config: PlansConfig["Service"],
  run: PlanRun,
  state: StepState,
  asked: Asked,
  shorter: Effect.Effect<Asked | undefined, StorageError>,
  before: Attempts | undefined
): Effect.Effect<Given, ProviderError | StorageError> => {
  const answer = answerTo(pool, config, run, state, asked, shorter, before).pipe(
    Effect.tapErrorTag("ProviderError", (error) =>
      state.failures.length === 0 ? Effect.void : tellExhausted(run, state, error)
    )
  )
  return Effect.withSpan(answer, "step", { captureStackTrace: false, attributes: { [GenAi.step]: run.progress.steps } })
}

/** A step has given up. Where nothing was tried again that is only worth a line if it might have helped. */
const tellExhausted = Effect.fnUntraced(function* (run: PlanRun, state: StepState, error: ProviderError) {
  const attempts = state.failures.length
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
  state: StepState,
  asked: Asked,
  shorter: Effect.Effect<Asked | undefined, StorageError>,
  before: Attempts = { last: 0, shown: [] }
): Effect.fn.Return<Given, ProviderError | StorageError> {
  const { journal, deadline, session_id } = run.given
  const step = run.progress.steps
  const mayCall = asked.toolChoice === "auto"

  /** From now on the plan asks this one of its models. */
  const goOnWith = (model: string) => {
    if (model === run.model) return
    run.use(model)
    journal.append([run.progressed("provider")], [])
  }

  for (const attempt of before.shown) journal.emit({ event: "text.retract", data: { step, attempt } })
  const { models } = run
  const retries = yield* Retries.make(pool, config, { session: session_id, models, deadline, stage: "provider" })
  goOnWith(retries.target().model)

  /** Tells that there will be another attempt; what was shown of this one is taken back. */
  const tellRetry = Effect.fnUntraced(function* (
    assembly: Assembly,
    attempt: number,
    error: ProviderError,
    asked: string,
    delay_ms: number
  ) {
    const { credential, model } = retries.target()
    if (assembly.isShown) {
      journal.emit({ event: "text.retract", data: { step, attempt } })
      yield* ProviderMetrics.retracted(Target.asked(asked), error.type)
    }
    state.shownText = textOf(kept)
    const { code, message } = error
    const next = { attempt: attempt + 1, delay_ms, credential: credential.id, model }
    journal.emit({ event: "retry", data: { step, ...next, error: { code, message } } })
  })

  if (before.last > 0) {
    const { credential, model } = retries.target()
    const next = { attempt: before.last + 1, delay_ms: 0, credential: credential.id, model }
    journal.emit({ event: "retry", data: { step, ...next, error: processGone } })
  }

  let base = asked
  let mended = asked
  let isShortened = false
  let continued = Continuation.notContinued
  let kept: ReadonlyArray<MessagePart> = []
  /** What goes on with the answer so far. */
  let tail: ReadonlyArray<Entry> = []
  const request = (): Asked => ({ ...base, messages: [...base.messages, ...tail] })
  const first = before.last + 1
  for (let attempt = first; ; attempt++) {
    const target = attempt > first ? yield* retries.again : retries.target()
    const { assembly, failure } = yield* StepAttempt.make(pool, config, run, state, target, attempt, mended)
    if (failure !== undefined) {
      const error = new ProviderError({ reason: failure })
      state.failures.push(failure)
      if (failure._tag === "context_overflow" && !isShortened) {
        isShortened = true
        const short = yield* shorter
        if (short === undefined) return yield* error
        journal.append([run.progressed("provider")], [])
        base = short
        mended = request()
        yield* tellRetry(assembly, attempt, error, target.model, 0)
        continue
      }
      const delay = yield* retries.failed(attempt, failure)
      goOnWith(retries.target().model)
      yield* tellRetry(assembly, attempt, error, target.model, delay)
      yield* Effect.sleep(delay).pipe(run.stages.within("backoff"))
      mended = mend(mended, failure)
      continue
    }
    yield* pool.succeeded(Target.use(target)).pipe(Effect.ignore({ log: "Warn" }))
    const { finish = "other", dropped, usage } = assembly
    const made = mayCall && Continuation.isWhole(finish) ? assembly.calls : []
    const calls = made.map((call) => ({ ...call, at: kept.length + call.at }))
    kept = [...kept, ...assembly.parts]
    const answer = { finish, calls, dropped, parts: kept, text: textOf(kept), usage }
    const next = Continuation.next(answer, continued)
    if (Continuation.isEmpty(answer)) {
      const reason = new EmptyAnswer({ message: "The provider gave an empty answer" })
      state.failures.push(reason)
      if (next === undefined) return yield* new ProviderError({ reason })
    }
    if (next === undefined) return answer
    continued = next.continued
    tail = [{ role: "assistant", parts: kept }, ...next.ask]
    mended = request()
  }
})
