import { EmptyAnswer, ProviderError } from "@bowline/domain/provider/ProviderError"
import type { Usage } from "@bowline/domain/plan/Usage"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Option } from "effect"
import type { FinishedAnswer, ModelRequest } from "../asking/AnswerAttempt.ts"
import type { Asker } from "../asking/Asker.ts"
import { textOf } from "../asking/Assembly.ts"
import * as Target from "../asking/Target.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import * as Continuation from "./Continuation.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { Attempts } from "./Resumption.ts"
import * as StepListener from "./StepListener.ts"
import type { StepState } from "./StepState.ts"

const processDied = { code: "interrupted", message: "The process that made the attempt died" }

/** The answer of a step, and the usage that the provider has reported of its last attempt. */
export interface Given extends Continuation.Answer {
  readonly usage: Usage | undefined
}

/** What a step asks. */
export interface Asked {
  readonly question: () => ModelRequest
  /** Whether the answer may call tools. */
  readonly mayCall: boolean
  /** Makes the request shorter, and says whether it is: for a provider that refuses it as too long. */
  readonly shorten: Effect.Effect<boolean, StorageError>
  /** The attempts of the process that had the plan before. The step retracts what they have shown. */
  readonly before: Attempts | undefined
  /** Returns when the answer is to be given up, since somebody has said something that counts now. */
  readonly urgent: Effect.Effect<void>
  /** Takes what was said. The next question has it. */
  readonly steer: Effect.Effect<void, ProviderError | StorageError>
}

/** Runs the steps of plans. A step asks for one answer, in as many attempts as it takes, and shows it while it comes. */
export const make =
  (asker: Asker["Service"]) =>
  (run: PlanRun, state: StepState, asked: Asked): Effect.Effect<Given, ProviderError | StorageError> =>
    answerTo(asker, run, state, asked).pipe(
      Effect.tapErrorTag("ProviderError", (error) =>
        state.failures.length === 0 ? Effect.void : tellExhausted(run, state.failures.length, error)
      )
    )

/** The step has failed. If it made no retry, that is worth a line of the log only where a retry might have helped. */
const tellExhausted = Effect.fnUntraced(function* ({ model }: PlanRun, attempts: number, error: ProviderError) {
  if (attempts === 1 && !error.isRetryable) return
  yield* ProviderMetrics.retriesExhausted(Target.asked(model), error.type)
  yield* Effect.annotateLogs(Effect.logWarning("provider_retries_exhausted"), {
    error_type: error.type,
    attempts,
    model
  })
})

/** Chooses the first target. After the attempts of another process, announces the next one as a retry. */
const begin = Effect.fnUntraced(function* (
  asker: Asker["Service"],
  run: PlanRun,
  state: StepState,
  { before = { last: 0, shown: [] }, shorten }: Asked
) {
  const { journal } = run.given
  const step = run.progress.steps
  for (const attempt of before.shown) journal.emit({ event: "text.retract", data: { step, attempt } })
  const asking = yield* asker.begin(run.subject("provider"), StepListener.make(run, state, shorten), before.last)
  const next = asking.target()
  StepListener.useModel(run, next.model)
  if (before.last > 0) StepListener.tellRetry(run, { attempt: before.last, next, delayMs: 0, error: processDied })
  return asking
})

/** The answer so far, after the parts that came `before` in the step. It has only the calls that may be made. */
const joined = (
  before: ReadonlyArray<MessagePart>,
  answer: FinishedAnswer,
  { isLimited, mayCall }: { readonly isLimited: boolean; readonly mayCall: boolean }
): Given => {
  const { finish, dropped, isCalling, usage } = answer
  const isEnough = isLimited && finish === "length" && !(mayCall && isCalling)
  const made = mayCall && Continuation.isWhole(finish) ? answer.calls : []
  const calls = made.map((call) => ({ ...call, at: before.length + call.at }))
  const parts = [...before, ...answer.parts]
  return { finish, calls, dropped, parts, text: textOf(parts), usage, isEnough }
}

/** Readers discard what the step has shown. What its attempt has used counts; it has not failed. */
const retract = (run: PlanRun, state: StepState): void => {
  const step = run.progress.steps
  for (const attempt of state.shown) {
    run.given.journal.emit({ event: "text.retract", data: { step, attempt, reason: "steered" } })
  }
  state.retractAll()
  run.countUsage()
}

const answerTo = Effect.fnUntraced(function* (
  asker: Asker["Service"],
  run: PlanRun,
  state: StepState,
  asked: Asked
): Effect.fn.Return<Given, ProviderError | StorageError> {
  const asking = yield* begin(asker, run, state, asked)
  let kept: ReadonlyArray<MessagePart> = []
  let continued = Continuation.notContinued
  /** Follows the prompt in the request, so that the model continues its answer. */
  let tail: ReadonlyArray<Entry> = []
  /** A step that was cut in a call is not the last one: the caller's limit does not hold for the rest of it. */
  let isLimited = run.given.request.sampling?.max_tokens !== undefined
  const request = Effect.sync((): ModelRequest => {
    const base = asked.question()
    const messages = tail.length === 0 ? base.messages : [...base.messages, ...tail]
    // The rest of a text does not match what the whole of it has to.
    const isBegun = textOf(kept).trim() !== ""
    return {
      ...base,
      messages,
      maxOutputTokens: isLimited ? base.maxOutputTokens : undefined,
      outputSchema: isBegun ? undefined : base.outputSchema
    }
  })
  for (;;) {
    const { mayCall } = asked
    const answering = Effect.asSome(asking.ask(() => request))
    const given = yield* Effect.raceFirst(answering, Effect.as(asked.urgent, Option.none()))
    if (Option.isNone(given)) {
      retract(run, state)
      yield* asked.steer
      kept = []
      continued = Continuation.notContinued
      tail = []
      isLimited = run.given.request.sampling?.max_tokens !== undefined
      continue
    }
    const answer = joined(kept, given.value, { mayCall, isLimited })
    state.keepText()
    const next = Continuation.next(answer, continued)
    if (Continuation.isEmpty(answer)) {
      const reason = new EmptyAnswer({ message: "The provider gave an empty answer" })
      state.failures.push(reason)
      if (next === undefined) return yield* new ProviderError({ reason })
    }
    if (next === undefined) return answer
    if (answer.finish === "length") isLimited = false
    continued = next.continued
    kept = answer.parts
    tail = [{ role: "assistant", parts: kept }, ...next.ask]
  }
})
