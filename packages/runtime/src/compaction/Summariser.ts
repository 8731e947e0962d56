import type { Message } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { type Duration, Effect, Result } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import type { Asker } from "../asking/Asker.ts"
import { type Account, silent } from "../asking/Listener.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { Subject } from "../asking/Retries.ts"
import * as Target from "../asking/Target.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import type { HandedBack, SessionStore } from "../store/SessionStore.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import * as ToolName from "../tool/ToolName.ts"
import { CompactionHealth } from "./CompactionHealth.ts"
import * as ContextBudget from "./ContextBudget.ts"
import * as Summary from "./Summary.ts"
import * as TokenEstimate from "./TokenEstimate.ts"

/** The session to summarise, and who does it: the model of the prompt, and those that may take its place. */
export interface SummaryWanted extends Subject {
  /** Tokens of the window, or of the prompt that was refused as too long. */
  readonly size: number
  /** The peers' ids of tasks that the caller knows of. */
  readonly remoteTasks: ReadonlyMap<TaskId, string>
  /** Is told what peers have handed back to earlier plans of the session. */
  readonly heardTasks?: (tasks: ReadonlyArray<HandedBack>) => void
  /** How long the summary may take, for a caller that has no time limit of its own. */
  readonly timeout: Duration.Input
  readonly account: Account
}

interface Parts {
  readonly asker: Asker["Service"]
  readonly sessions: SessionStore["Service"]
  readonly config: PlansConfig["Service"]
  readonly uuid: () => string
}

/** A summary above this share of the window is refused: it leaves no room for the rest. */
const longestSummary = 0.4

/** Characters of the longest head that the tokenizer counts: a longer one is estimated. */
const longestCounted = 500_000

/** Tokens. A model that has refused a shorter prompt still gets a request for a summary of this size. */
const smallestWindow = 8_000

/** Models to ask for one summary, at most. */
const maxModels = 3

/** The request for a summary, as long as the window of each model allows. */
const requestOf = Effect.fnUntraced(function* (
  { sessions, config, uuid }: Parts,
  { session, models, size, remoteTasks: known, heardTasks }: SummaryWanted,
  head: ReadonlyArray<Message>,
  summaries: ReadonlyArray<string>
) {
  const handedBack = yield* retryWhileAway(sessions.handedBack(session))
  const own = new Set(known.values())
  heardTasks?.(handedBack.filter(({ remote_task_id }) => !own.has(remote_task_id)))
  const remoteTasks = new Map([...waitingTasks(head, handedBack), ...known])
  const delimiter = uuid()
  return Effect.fnUntraced(function* (model: string) {
    const { contextWindow, facts } = ModelLimits.of(config, model)
    // The refusal came from the model of the prompt: it says nothing about the windows of other models.
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

/** Makes summaries of the heads of histories. Gives undefined if it cannot make one: the log says why. */
export const make = (parts: Parts) => {
  const { asker, config } = parts
  const health = new CompactionHealth()

  /** Asks for the summary. A failure is the type of the error, for the log and the metrics. */
  const ask = Effect.fnUntraced(
    function* (
      wanted: SummaryWanted,
      asked: ReadonlyArray<string>,
      requestTo: Effect.Success<ReturnType<typeof requestOf>>
    ) {
      const { account, models, size } = wanted
      const asking = yield* asker.begin({ ...wanted, models: asked }, { ...silent, ...account })
      const summary = Summary.accept(yield* asking.ask(requestTo))
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
    if (health.isPaused(session, yield* Monotonic.now)) return undefined
    const asked = [...new Set([config.summaryModel ?? models[0] ?? "", ...models])].slice(0, maxModels)
    const summary = yield* ask(wanted, asked, yield* requestOf(parts, wanted, head, summaries))
    if (Result.isSuccess(summary)) {
      health.succeeded(session)
      return summary.success
    }
    const now = yield* Monotonic.now
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

/** The peers' ids of the tasks that they have handed back, by the newest call of each skill. */
const waitingTasks = (
  messages: ReadonlyArray<Entry>,
  waiting: ReadonlyArray<HandedBack>
): ReadonlyMap<TaskId, string> => {
  const tasks = new Map(waiting.map((task) => [ToolName.forSkill(task.agent, task.skill), task.remote_task_id]))
  const newest = new Map<string, TaskId>()
  for (const part of messages.flatMap(({ parts }) => parts)) {
    if (part.type === "tool_call") newest.set(part.tool, part.task_id)
  }
  return new Map(
    Array.from(newest).flatMap(([tool, task_id]) => {
      const remote = tasks.get(tool)
      return remote === undefined ? [] : [[task_id, remote] as const]
    })
  )
}
