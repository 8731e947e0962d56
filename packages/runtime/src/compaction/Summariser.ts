import type { Message } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Clock, type Duration, Effect, Result } from "effect"
import type { Asker } from "../asking/Asker.ts"
import { type Account, silent } from "../asking/Listener.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import * as Target from "../asking/Target.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import { CompactionHealth } from "./CompactionHealth.ts"
import * as ContextBudget from "./ContextBudget.ts"
import { waitingTasks } from "./RemoteTasks.ts"
import * as Summary from "./Summary.ts"
import * as TokenEstimate from "./TokenEstimate.ts"

/** For whom a session is summarised. */
export interface SummaryWanted {
  readonly session: SessionId
  /** As `provider/model`: the one that the prompt is for, and those that may take its place. */
  readonly models: ReadonlyArray<string>
  /** Tokens: of the window, or of what was refused as too long. */
  readonly size: number
  /** What the peers call tasks that the caller knows of. */
  readonly remoteTasks: ReadonlyMap<TaskId, string>
  /** Milliseconds since 1970: no attempt begins behind it. */
  readonly deadline: number
  /** How long a summary may take, where nothing else ends whoever asks. */
  readonly timeout: Duration.Input
  readonly account: Account
}

interface Parts {
  readonly asker: Asker["Service"]
  readonly sessions: SessionStore["Service"]
  readonly config: PlansConfig["Service"]
  readonly uuid: () => string
}

/** A longer summary leaves no room for the rest: a share of the window. */
const longestSummary = 0.4

/** Characters of a head that are counted by the tokenizer while its summary is asked for. */
const longestCounted = 500_000

/** A short prompt that was refused does not say that its model takes no longer one: what is summarised must not suffer by it. */
const smallestWindow = 8_000

/** A summary is asked of so many models at most. */
const maxModels = 3

/** What to ask each model, as far as its window allows. */
const questionOf = Effect.fnUntraced(function* (
  { sessions, config, uuid }: Parts,
  { session, models, size, remoteTasks: known }: SummaryWanted,
  head: ReadonlyArray<Message>,
  summaries: ReadonlyArray<string>
) {
  const remoteTasks = new Map([...waitingTasks(head, yield* retryWhileAway(sessions.handedBack(session))), ...known])
  const delimiter = uuid()
  return Effect.fnUntraced(function* (model: string) {
    const { contextWindow, facts } = ModelLimits.of(config, model)
    // A refusal says something about the model that the prompt is for, and nothing about another one.
    const refused = model === models[0] ? Math.max(size, smallestWindow) : Infinity
    const limits = { ...facts, contextWindow: Math.min(refused, contextWindow) }
    const isHuge = JSON.stringify(head).length > longestCounted
    const count = isHuge ? TokenEstimate.roughly(model) : yield* TokenEstimate.forModel(model)
    return Summary.request(count, {
      summaries,
      head,
      remoteTasks,
      delimiter,
      room: ContextBudget.threshold(limits),
      maxOutputTokens: ContextBudget.outputReserve({ ...facts, contextWindow })
    })
  })
})

/** Has the heads of histories summarised: gives the summary, or nothing where there is none to be had, and the log says why. */
export const make = (parts: Parts) => {
  const { asker, config } = parts
  const health = new CompactionHealth()

  /** Asks for the summary, and gives the type of the failure where there is none. */
  const ask = Effect.fnUntraced(
    function* (
      { session, models, size, deadline, account }: SummaryWanted,
      asked: ReadonlyArray<string>,
      question: Effect.Success<ReturnType<typeof questionOf>>
    ) {
      const subject = { session, models: asked, deadline, stage: "compaction" as const }
      const asking = yield* asker.begin(subject, { ...silent, ...account })
      const summary = Summary.accept(yield* asking.ask(question))
      const count = yield* TokenEstimate.forModel(models[0] ?? "")
      return summary.pipe(
        Result.mapError((why) => `summary_${why}`),
        Result.filterOrFail(
          (text) => count(text) <= longestSummary * size,
          () => "summary_too_long"
        )
      )
    },
    (result, { timeout }) =>
      result.pipe(
        Effect.catchTag("ProviderError", ({ type }) => Effect.succeed(Result.fail(type))),
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.succeed(Result.fail("deadline")) })
      )
  )

  return Effect.fnUntraced(function* (
    wanted: SummaryWanted,
    head: ReadonlyArray<Message>,
    summaries: ReadonlyArray<string>
  ): Effect.fn.Return<string | undefined, StorageError> {
    const { session, models } = wanted
    if (health.isPaused(session, yield* Clock.currentTimeMillis)) return undefined
    const asked = [...new Set([config.summaryModel ?? models[0] ?? "", ...models])].slice(0, maxModels)
    const summary = yield* ask(wanted, asked, yield* questionOf(parts, wanted, head, summaries))
    if (Result.isSuccess(summary)) {
      health.succeeded(session)
      return summary.success
    }
    const now = yield* Clock.currentTimeMillis
    health.failed(session, now)
    yield* ProviderMetrics.compactionFailed(Target.asked(asked[0] ?? ""), summary.failure)
    yield* Effect.annotateLogs(Effect.logWarning("compaction_failed"), {
      error_type: summary.failure,
      model: asked[0],
      paused: health.isPaused(session, now)
    })
    return undefined
  })
}
