import type { Compacted } from "@bowline/domain/session/Session"
import type { Message, MessageId } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Exit, Layer } from "effect"
import { Asker } from "../asking/Asker.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import { UuidGenerator } from "../config/UuidGenerator.ts"
import { type Entry, leftOut } from "../provider/LegalHistory.ts"
import { retryWhileAway } from "../store/RetryWhileAway.ts"
import { histogram, timed } from "../telemetry/Instrument.ts"
import { type Compaction as Stored, SessionStore, type SessionSummary } from "../store/SessionStore.ts"
import * as ContextBudget from "./ContextBudget.ts"
import * as Cut from "./Cut.ts"
import * as Summariser from "./Summariser.ts"
import * as TokenEstimate from "./TokenEstimate.ts"

/** What a model reads of a session, and its size. */
export interface Prompt {
  readonly messages: ReadonlyArray<Entry>
  /** Summaries of what the messages leave out, the oldest first. */
  readonly summaries: ReadonlyArray<string>
  /** Tokens of the whole prompt, counted by the tokenizer. */
  readonly tokens: number
}

/** What came of a compaction. `Failed`: there is no summary, and the prompt, which is not stored, is as short as it gets without one. */
export type Made =
  | { readonly _tag: "NothingToGain" }
  | { readonly _tag: "Shortened"; readonly prompt: Prompt }
  | { readonly _tag: "Summarised"; readonly prompt: Prompt; readonly stored: Stored; readonly event: Compacted }
  | { readonly _tag: "Failed"; readonly prompt: Prompt }

const results = {
  NothingToGain: "nothing_to_gain",
  Shortened: "shortened",
  Summarised: "summarised",
  Failed: "failed"
} as const

const duration = histogram({
  name: "bowline.compaction.duration",
  description: "How long a compaction took, by what came of it; its count by `result` is the number of compactions",
  unit: "s",
  labels: { result: [...Object.values(results), "interrupted"] }
})

const measured = timed<Made>((seconds, exit, context) => {
  const result = Exit.isSuccess(exit) ? results[exit.value._tag] : Exit.hasInterrupts(exit) ? "interrupted" : "failed"
  duration.updateUnsafe(seconds, { result }, context)
})

export interface Wanted extends Summariser.SummaryWanted {
  /** The question of the running plan, if there is one. */
  readonly question: { readonly id: MessageId; readonly entry: Entry } | undefined
  /** A provider has refused a prompt of that size as too long. */
  readonly isRefused: boolean
  /** Whether a model may be asked for a summary: what may be spent is not used up. */
  readonly mayAsk: boolean
  /** What the prompt has beside its messages, with these summaries. */
  readonly frame: (summaries: ReadonlyArray<string>) => Parameters<typeof TokenEstimate.ofFrame>[1]
}

/** A summary that is not made yet is estimated at this share of the window. */
const summaryShare = 0.1

/** The share of a refused history that may stay, if the estimate leaves less room for it. */
const mostKept = 0.8

const beginning: Entry = { role: "user", parts: [{ type: "text", text: leftOut }] }

/** A session with its tokens, as the model of the prompt counts them. */
interface WeighedSession {
  readonly count: TokenEstimate.CountTokens
  readonly history: ReadonlyArray<Message>
  readonly summary: SessionSummary
  readonly summaries: ReadonlyArray<string>
  /** The history. If a compaction has covered the question of the running plan, the question stands in front. */
  readonly messages: ReadonlyArray<TokenEstimate.Weighed>
  readonly tokens: number
  /** Where the question stands among the messages. */
  readonly question: number | undefined
  /** Tokens of the frame, without the summaries and with them. */
  readonly frame: { readonly bare: number; readonly summarised: number }
}

/** Reads a session, and weighs it. */
const weigh = Effect.fnUntraced(function* (
  sessions: SessionStore["Service"],
  { session, question, models, frame }: Wanted
): Effect.fn.Return<WeighedSession, StorageError> {
  const [history, summary] = yield* retryWhileAway(
    Effect.all([sessions.history(session), sessions.summary(session)], { concurrency: 2 })
  )
  const count = yield* TokenEstimate.forModel(models[0] ?? "")
  const summaries = summary.text === null ? summary.priors : [...summary.priors, summary.text]
  const at = question === undefined ? -1 : history.findIndex(({ message_id }) => message_id === question.id)
  const front: ReadonlyArray<Entry> = question !== undefined && at === -1 ? [question.entry] : []
  const messages = yield* TokenEstimate.weighAll(count, [...front, ...history])
  const bare = yield* TokenEstimate.weighFrame(count, frame([]))
  const summarised = yield* TokenEstimate.weighFrame(count, frame(summaries))
  return {
    count,
    history,
    summary,
    summaries,
    messages,
    tokens: messages.reduce((sum, { tokens }) => sum + tokens, 0),
    question: question === undefined ? undefined : Math.max(0, at),
    frame: { bare, summarised }
  }
})

/** The tokens that the prompt may have, and the share of its messages: `room`, or `most` if nothing shorter can stay. */
const roomOf = (
  { tokens, frame: { bare, summarised } }: WeighedSession,
  limits: ContextBudget.Limits,
  isRefused: boolean
) => {
  const budget = ContextBudget.threshold(limits)
  // The next summary takes in the summaries so far, and is no longer than the reserve.
  const reserve = ContextBudget.outputReserve(limits)
  const summaryTokens = summarised - bare
  const fits = budget - bare - Math.max(Math.min(summaryTokens, reserve), summaryShare * limits.contextWindow)
  const estimated = summaryTokens > reserve ? Math.min(fits, mostKept * tokens) : fits
  if (isRefused) return { budget, room: Math.max(estimated, mostKept * tokens), most: 0 }
  const limit = limits.contextWindow - reserve
  return { budget, room: estimated, most: bare + summaryTokens + tokens > limit ? estimated + limit - budget : 0 }
}

/** The prompt after a cut. `frame` is the number of tokens of the prompt's frame with these summaries. */
const promptOf = (
  { count, messages }: WeighedSession,
  question: Wanted["question"],
  cut: Cut.Cut,
  summaries: ReadonlyArray<string>,
  frame: number
): Prompt => {
  const again = cut.asksAgain && question !== undefined ? [question.entry] : []
  const entries = messages.map(({ message }) => message)
  return { messages: [...again, ...Cut.rest(count, entries, cut)], summaries, tokens: frame + cut.tokens }
}

/** The prompt without a new summary: it keeps every message with shortened results if they fit, else a mark stands for the head. */
const promptWithout = (session: WeighedSession, question: Wanted["question"], cut: Cut.Cut, budget: number): Prompt => {
  const { frame, messages, summaries } = session
  const short = Cut.shortenResults(messages, budget - frame.summarised)
  const prompt = promptOf(session, question, short ?? cut, summaries, frame.summarised)
  return short === undefined ? { ...prompt, messages: [beginning, ...prompt.messages] } : prompt
}

/** Shortens long sessions: decides which messages go, and has them summarised. The holder of the session stores the result. */
export class Compaction extends Context.Service<
  Compaction,
  {
    /** Reads the stored session. The caller holds the session, and nothing of it is still to be written. */
    readonly make: (wanted: Wanted) => Effect.Effect<Made, StorageError>
  }
>()("@bowline/runtime/compaction/Compaction") {
  static readonly layer = Layer.effect(
    Compaction,
    Effect.gen(function* () {
      const sessions = yield* SessionStore
      const config = yield* PlansConfig
      const uuid = yield* UuidGenerator
      const summarise = Summariser.make({ asker: yield* Asker, sessions, config, uuid })

      const make = Effect.fnUntraced(function* (wanted: Wanted): Effect.fn.Return<Made, StorageError> {
        const { question, models, size, frame, isRefused } = wanted
        const session = yield* weigh(sessions, wanted)
        const { count, history, messages, summaries, summary } = session
        const { facts } = ModelLimits.of(config, models[0] ?? "")
        const { budget, most, room } = roomOf(session, { ...facts, contextWindow: size }, isRefused)
        const cutTo = (room: number) => Cut.decide({ messages, question: session.question, size, room })
        const cut = cutTo(room) ?? (most > 0 ? cutTo(most) : undefined)
        if (cut === undefined) return { _tag: "NothingToGain" }
        if (cut.covered === 0) {
          return { _tag: "Shortened", prompt: promptOf(session, question, cut, summaries, session.frame.summarised) }
        }

        const head = history.slice(0, cut.covered - (messages.length - history.length))
        const through = head.at(-1)
        const text = through === undefined || !wanted.mayAsk ? undefined : yield* summarise(wanted, head, summaries)
        if (through === undefined || text === undefined) {
          return { _tag: "Failed", prompt: promptWithout(session, question, cut, budget) }
        }
        const framed = yield* TokenEstimate.weighFrame(count, frame([text]))
        const prompt = promptOf(session, question, cut, [text], framed)
        const { covered_seq, prior_seq } = summary
        const id = `compaction_${uuid()}`
        return {
          _tag: "Summarised",
          prompt,
          stored: { id, summary: text, through: through.message_id, covered_seq, prior_seq },
          event: {
            summary: text,
            tokens_before: session.frame.summarised + session.tokens,
            tokens_after: prompt.tokens,
            messages_compacted: head.length
          }
        }
      })

      return { make: (wanted) => measured(make(wanted)) }
    })
  )
}
