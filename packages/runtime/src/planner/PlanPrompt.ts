import { ContextOverflow, ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Entry } from "../history/LegalHistory.ts"
import type { Compaction, Made, Wanted } from "../compaction/Compaction.ts"
import * as ContextBudget from "../compaction/ContextBudget.ts"
import * as TokenEstimate from "../compaction/TokenEstimate.ts"

interface Given {
  readonly compaction: Compaction["Service"]
  readonly config: PlansConfig["Service"]
  readonly run: PlanRun
  readonly question: Wanted["question"]
  readonly frame: Wanted["frame"]
}

/** What the model of a plan gets to read of its session, made shorter where it is too long for the model. */
export interface PlanPrompt {
  readonly messages: () => ReadonlyArray<Entry>
  /** What is not in the messages, the oldest first. */
  readonly summaries: () => ReadonlyArray<string>
  /** The model has answered. `tokens` is what its provider has counted of prompt and answer together, if it has. */
  readonly answered: (answer: Entry, tokens: number | undefined) => void
  readonly add: (entry: Entry) => void
  /** Makes the prompt short, if it is too long for the next step. Fails if it cannot be made short enough. */
  readonly fit: Effect.Effect<void, ProviderError | StorageError>
  /** The step was refused as too long: makes the prompt shorter, and says whether it is. */
  readonly shorten: Effect.Effect<boolean, StorageError>
}

export const make = (
  { compaction, config, run, question, frame }: Given,
  history: ReadonlyArray<Entry>,
  told: ReadonlyArray<string>
): PlanPrompt => {
  let messages = history
  let summaries = told
  /** What the provider has counted of the last step, and for which model. */
  let reported: (TokenEstimate.Reported & { readonly model: string }) | undefined

  const limitsOf = (model: string) => {
    const { contextWindow, facts } = ModelLimits.of(config, model)
    return { ...facts, contextWindow }
  }

  /** What nobody has counted yet of the prompt, and what the provider has. */
  const known = () => {
    const last = reported?.model === run.model ? reported : undefined
    return { added: messages.slice(last?.messages ?? 0), reported: last && { tokens: last.tokens, messages: 0 } }
  }
  const atMost = (): number => {
    const { added, reported } = known()
    const count = TokenEstimate.atMost(run.model)
    const bare = reported === undefined ? TokenEstimate.ofFrame(count, frame(summaries)) : 0
    const weighed = added.map((message) => TokenEstimate.weigh(count, message))
    return TokenEstimate.ofPrompt(bare, weighed, reported)
  }
  const estimate = Effect.gen(function* () {
    const { added, reported } = known()
    const count = yield* TokenEstimate.forModel(run.model)
    const bare = reported === undefined ? yield* TokenEstimate.weighFrame(count, frame(summaries)) : 0
    return TokenEstimate.ofPrompt(bare, yield* TokenEstimate.weighAll(count, added), reported)
  })

  const make = Effect.fnUntraced(function* (size: number, isRefused: boolean): Effect.fn.Return<Made, StorageError> {
    const { journal, session_id, models, deadline } = { ...run.given, models: run.models }
    journal.append([run.progressed("compaction")], [])
    yield* journal.flush
    const made = yield* compaction.make({
      session: session_id,
      question,
      models,
      size,
      isRefused,
      frame,
      remoteTasks: run.tasks.remoteTasks,
      deadline,
      timeout: Infinity,
      account: {
        reported: (attempt, usage) => run.step?.reportUsage({ step: 0, attempt, usage }),
        ended: () => run.countUsage()
      }
    })
    if (made._tag !== "Summarised") return made
    const { stored, told } = made
    journal.append([{ _tag: "Compacted", compaction: stored }], [{ event: "compaction", data: told }])
    yield* journal.flush
    return made
  })

  const take = (made: Exclude<Made, { readonly _tag: "NothingToGain" }>) => {
    messages = made.prompt.messages
    summaries = made.prompt.summaries
    reported = undefined
  }

  return {
    messages: () => messages,
    summaries: () => summaries,
    answered: (answer, tokens) => {
      messages = [...messages, answer]
      reported = tokens === undefined ? undefined : { tokens, messages: messages.length, model: run.model }
    },
    add: (entry) => {
      messages = [...messages, entry]
    },
    fit: Effect.suspend(() => {
      const limits = limitsOf(run.model)
      const threshold = ContextBudget.threshold(limits)
      const most = limits.contextWindow - ContextBudget.outputReserve(limits)
      // Mostly the bytes say that it is short: then nothing is counted.
      if (atMost() <= threshold) return Effect.void
      return Effect.gen(function* () {
        const tokens = yield* estimate
        if (tokens <= threshold) return
        const made = yield* make(limits.contextWindow, false)
        // Without a summary nothing is left out of what fits.
        if ((made._tag === "NothingToGain" || made._tag === "Failed") && tokens <= most) return
        if (made._tag !== "NothingToGain") take(made)
        if (made._tag !== "NothingToGain" && made.prompt.tokens <= most) return
        const message = `The prompt has about ${tokens} tokens, and could not be made short enough for ${run.model}`
        return yield* new ProviderError({ reason: new ContextOverflow({ message }) })
      }).pipe(run.stages.within("compaction"))
    }),
    shorten: Effect.gen(function* () {
      const limits = limitsOf(run.model)
      const size = Math.min(yield* estimate, limits.contextWindow)
      const made = yield* make(size, true)
      if (made._tag === "NothingToGain") return false
      take(made)
      return made.prompt.tokens <= limits.contextWindow - ContextBudget.outputReserve(limits)
    }).pipe(run.stages.within("compaction"))
  }
}
