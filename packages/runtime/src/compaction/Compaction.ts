import type { Compacted, SessionId } from "@bowline/domain/session/Session"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Clock, Context, type Duration, Effect, Layer, Result } from "effect"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import * as Target from "../asking/Target.ts"
import { CredentialPool } from "../asking/CredentialPool.ts"
import { type Entry, leftOut } from "../history/LegalHistory.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { type Compaction as Stored, SessionStore } from "../store/SessionStore.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import { CompactionHealth } from "./CompactionHealth.ts"
import * as ContextBudget from "./ContextBudget.ts"
import * as Cut from "./Cut.ts"
import { waitingTasks } from "./RemoteTasks.ts"
import * as Summary from "./Summary.ts"
import * as SummaryCall from "./SummaryCall.ts"
import * as TokenEstimate from "./TokenEstimate.ts"

/** What of a session a model gets to read, and how much that is. */
export interface Prompt {
  readonly messages: ReadonlyArray<Entry>
  /** What is not in the messages, the oldest first. */
  readonly summaries: ReadonlyArray<string>
  /** Of all the prompt, counted by the tokenizer. */
  readonly tokens: number
}

/** `Failed` has what can be done without a summary: nothing of it is stored. */
export type Made =
  | { readonly _tag: "NothingToGain" }
  | { readonly _tag: "Shortened"; readonly prompt: Prompt }
  | { readonly _tag: "Summarised"; readonly prompt: Prompt; readonly stored: Stored; readonly told: Compacted }
  | { readonly _tag: "Failed"; readonly prompt: Prompt }

export interface Wanted {
  readonly session: SessionId
  /** The question of the plan that runs, if one does. */
  readonly question: { readonly id: MessageId; readonly entry: Entry } | undefined
  /** As `provider/model`: the one that the prompt is for, and those that may take its place. */
  readonly models: ReadonlyArray<string>
  /** Tokens: of the window, or of what was refused as too long. */
  readonly size: number
  /** A prompt of that size was refused: whatever it is made of, it has to become shorter. */
  readonly isRefused: boolean
  /** What the prompt has beside its messages, with these summaries. */
  readonly frame: (summaries: ReadonlyArray<string>) => Parameters<typeof TokenEstimate.ofFrame>[1]
  /** What the peers call tasks that the caller knows of. */
  readonly remoteTasks: ReadonlyMap<TaskId, string>
  /** Milliseconds since 1970: no attempt begins behind it. */
  readonly deadline: number
  /** How long a summary may take, where nothing else ends whoever asks. */
  readonly timeout: Duration.Input
  readonly account: SummaryCall.Account
}

/** A summary is taken for so much of a window before it is there. */
const summaryShare = 0.1

/** What is longer leaves no room for the rest: it was not asked for so much. */
const longestSummary = 0.4

/** Characters of a head that are counted by the tokenizer while its summary is asked for. */
const longestCounted = 500_000

/** So much of a history that was refused may stay, if the estimate says that there is no room at all. */
const mostKept = 0.8

/** A short prompt that was refused does not say that its model takes no longer one: what is summarised must not suffer by it. */
const smallestWindow = 8_000

/** A summary is asked of so many models at most. */
const maxModels = 3

const beginning: Entry = { role: "user", parts: [{ type: "text", text: leftOut }] }

/** Makes a long session short: decides what goes, and has it summarised. What it makes is for the holder of the session to store. */
export class Compaction extends Context.Service<
  Compaction,
  {
    /** Reads what is stored of the session, which the caller has to itself. All that was to be written of it is. */
    readonly make: (wanted: Wanted) => Effect.Effect<Made, StorageError>
  }
>()("@bowline/runtime/compaction/Compaction") {
  static readonly layer = Layer.effect(
    Compaction,
    Effect.gen(function* () {
      const pool = yield* CredentialPool
      const sessions = yield* SessionStore
      const config = yield* PlansConfig
      const uuid = yield* UuidGenerator
      const health = new CompactionHealth()

      /** The summary of what is left out, or nothing where none can be had: the log says why. */
      const summarise = Effect.fnUntraced(function* (
        wanted: Wanted,
        head: ReadonlyArray<Message>,
        summaries: ReadonlyArray<string>
      ) {
        const { session, models, size, deadline, account } = wanted
        if (health.isPaused(session, yield* Clock.currentTimeMillis)) return undefined
        const remoteTasks = new Map([
          ...waitingTasks(head, yield* retryWhileAway(sessions.handedBack(session))),
          ...wanted.remoteTasks
        ])
        const delimiter = uuid()
        const asked = [...new Set([config.summaryModel ?? models[0] ?? "", ...models])].slice(0, maxModels)
        const request = Effect.fnUntraced(function* (model: string) {
          const { contextWindow, facts } = ModelLimits.of(config, model)
          // What was refused was refused by the model that the prompt is for.
          const taken = model === models[0] ? Math.max(size, smallestWindow) : Infinity
          const limits = { ...facts, contextWindow: Math.min(taken, contextWindow) }
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
        const answer = yield* SummaryCall.ask(pool, config, {
          session,
          models: asked,
          deadline,
          request,
          account
        }).pipe(
          Effect.map((answer) => Result.mapError(Summary.accept(answer), (why) => `summary_${why}`)),
          Effect.flatMap((answer) =>
            Effect.map(TokenEstimate.forModel(models[0] ?? ""), (count) =>
              Result.filterOrFail(
                answer,
                (text) => count(text) <= longestSummary * size,
                () => "summary_too_long"
              )
            )
          ),
          Effect.catchTag("ProviderError", ({ type }) => Effect.succeed(Result.fail(type))),
          Effect.timeoutOrElse({
            duration: wanted.timeout,
            orElse: () => Effect.succeed(Result.fail("deadline"))
          })
        )
        const now = yield* Clock.currentTimeMillis
        if (Result.isSuccess(answer)) {
          health.succeeded(session)
          return answer.success
        }
        health.failed(session, now)
        yield* ProviderMetrics.compactionFailed(Target.asked(asked[0] ?? ""), answer.failure)
        yield* Effect.annotateLogs(Effect.logWarning("compaction_failed"), {
          error_type: answer.failure,
          model: asked[0],
          paused: health.isPaused(session, now)
        })
        return undefined
      })

      const make = Effect.fnUntraced(function* (wanted: Wanted): Effect.fn.Return<Made, StorageError> {
        const { session, question, models, size, frame } = wanted
        const [history, summary] = yield* retryWhileAway(
          Effect.all([sessions.history(session), sessions.summary(session)], { concurrency: 2 })
        )
        const model = models[0] ?? ""
        const { facts } = ModelLimits.of(config, model)
        const count = yield* TokenEstimate.forModel(model)
        const summaries = summary.text === null ? summary.priors : [...summary.priors, summary.text]
        // A question that was compacted is asked again in front.
        const asked = question === undefined ? -1 : history.findIndex(({ message_id }) => message_id === question.id)
        const front = question !== undefined && asked === -1 ? [question.entry] : []
        const entries: ReadonlyArray<Entry> = [...front, ...history]
        const messages = yield* TokenEstimate.weighAll(count, entries)
        const all = messages.reduce((sum, { tokens }) => sum + tokens, 0)

        const framed = (given: ReadonlyArray<string>) => TokenEstimate.weighFrame(count, frame(given))
        const bare = yield* framed([])
        const before = yield* framed(summaries)
        const own = question === undefined ? undefined : Math.max(0, asked)
        const budget = ContextBudget.threshold({ ...facts, contextWindow: size })
        // Whatever is summarised already becomes a part of the next summary, which is no longer than that.
        const reserve = ContextBudget.outputReserve({ ...facts, contextWindow: size })
        const fits = budget - bare - Math.max(Math.min(before - bare, reserve), summaryShare * size)
        const estimated = before - bare > reserve ? Math.min(fits, mostKept * all) : fits
        const room = wanted.isRefused ? Math.max(estimated, mostKept * all) : estimated
        const cut = Cut.decide({ messages, question: own, size, room })
        if (cut === undefined) return { _tag: "NothingToGain" }

        const left = (by: Cut.Cut, told: ReadonlyArray<string>, framed: number): Prompt => {
          const again = by.asksAgain && question !== undefined ? [question.entry] : []
          const messages = [...again, ...Cut.rest(count, entries, by)]
          return { messages, summaries: told, tokens: framed + by.tokens }
        }
        if (cut.covered === 0) return { _tag: "Shortened", prompt: left(cut, summaries, before) }

        const head = history.slice(0, cut.covered - front.length)
        const through = head.at(-1)
        const text = through === undefined ? undefined : yield* summarise(wanted, head, summaries)
        if (through === undefined || text === undefined) {
          const short = Cut.shortenResults(messages, budget - before)
          if (short !== undefined) return { _tag: "Failed", prompt: left(short, summaries, before) }
          const prompt = left(cut, summaries, before)
          return { _tag: "Failed", prompt: { ...prompt, messages: [beginning, ...prompt.messages] } }
        }
        const prompt = left(cut, [text], yield* framed([text]))
        return {
          _tag: "Summarised",
          prompt,
          stored: {
            id: `compaction_${uuid()}`,
            summary: text,
            through: through.message_id,
            covered_seq: summary.covered_seq,
            prior_seq: summary.prior_seq
          },
          told: {
            summary: text,
            tokens_before: before + all,
            tokens_after: prompt.tokens,
            messages_compacted: head.length
          }
        }
      })

      return { make }
    })
  )
}
