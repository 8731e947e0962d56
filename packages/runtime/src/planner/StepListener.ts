import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Effect } from "effect"
import type { Listener } from "../asking/Listener.ts"
import * as Target from "../asking/Target.ts"
import type { ProviderPart } from "../provider/Provider.ts"
import * as PlanMetrics from "../telemetry/PlanMetrics.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { StepState } from "./StepState.ts"

/** Parts that go to the journal at once: a reader can take so many. */
const slice = 256

/** The plan asks this model from now on. */
export const useModel = (run: PlanRun, model: string): void => {
  if (model === run.model) return
  run.use(model)
  run.given.journal.append([run.progressed("provider")], [])
}

/** Tells readers that another attempt follows the one of that number. */
export const tellRetry = (
  run: PlanRun,
  {
    attempt,
    next,
    delayMs,
    error
  }: {
    readonly attempt: number
    readonly next: Target.Target
    readonly delayMs: number
    readonly error: Pick<ProviderError, "code" | "message">
  }
): void => {
  const { code, message } = error
  const { credential, model } = next
  const step = run.progress.steps
  const follows = { attempt: attempt + 1, delay_ms: delayMs, credential: credential.id, model }
  run.count({ retries: run.progress.retries + 1 })
  run.given.journal.append(
    [run.progressed(delayMs > 0 ? "backoff" : "provider")],
    [{ event: "retry", data: { step, ...follows, error: { code, message } } }]
  )
}

type Shown = Extract<ProviderPart, { readonly _tag: "TextDelta" | "ReasoningDelta" }>

const isShown = (part: ProviderPart): part is Shown =>
  (part._tag === "TextDelta" || part._tag === "ReasoningDelta") && part.delta !== ""

const measureFirstToken = (run: PlanRun): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => PlanMetrics.timeToFirstToken.update(run.age(now) / 1_000, {}))

/** Shows the attempts of a step to the plan's readers, and keeps in the step's state what the plan's end has to know. */
export const make = (run: PlanRun, state: StepState, shorten: Listener["shorten"]): Listener => {
  const { journal } = run.given
  const step = run.progress.steps

  const show = (attempt: number, { _tag, delta }: Shown): PlanEvent => {
    if (_tag === "TextDelta") state.showText(delta)
    return { event: _tag === "TextDelta" ? "text.delta" : "reasoning.delta", data: { step, attempt, delta } }
  }
  const heard = (attempt: number, parts: ReadonlyArray<ProviderPart>): Effect.Effect<void, StorageError> => {
    const shown = (parts.length > slice ? parts.slice(0, slice) : parts).filter(isShown)
    if (shown.length > 0) {
      state.shown.add(attempt)
      journal.append(
        [],
        shown.map((part) => show(attempt, part))
      )
    }
    if (state.shownText !== "" && run.speak()) return Effect.andThen(measureFirstToken(run), rest(attempt, parts))
    return rest(attempt, parts)
  }
  const rest = (attempt: number, parts: ReadonlyArray<ProviderPart>): Effect.Effect<void, StorageError> =>
    parts.length <= slice
      ? journal.keepUp
      : Effect.andThen(
          journal.flush,
          Effect.suspend(() => heard(attempt, parts.slice(slice)))
        )

  return {
    isShown: true,
    heard,
    reported: (used) => state.reportUsage({ step, ...used }),
    recorded: (record) => journal.record({ ...record, step }),
    ended: () => run.attempted(),
    failed: (reason, credential) => {
      state.failures.push(reason)
      state.failedWith = credential
    },
    retrying: Effect.fnUntraced(function* (retry) {
      const { attempt, model, error, next } = retry
      const isShown = state.shown.delete(attempt)
      useModel(run, next.model)
      // Stored with the retry: where the process dies, readers have seen both, or neither.
      if (isShown) journal.defer([], [{ event: "text.retract", data: { step, attempt } }])
      state.retractText()
      tellRetry(run, retry)
      if (isShown) yield* ProviderMetrics.retracted(Target.asked(model), error.type)
    }),
    shorten: Effect.tap(shorten, (isShorter) =>
      Effect.sync(() => {
        if (isShorter) journal.append([run.progressed("provider")], [])
      })
    ),
    within: (stage) => (wait) => {
      const waited = run.stages.within(stage)(wait)
      if (stage === "provider") return waited
      return Effect.tap(waited, () => Effect.sync(() => journal.append([run.progressed("provider")], [])))
    },
    isDeadline: () => run.ending?._tag === "Aborted" && run.ending.reason === "deadline"
  }
}
