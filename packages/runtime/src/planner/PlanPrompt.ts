import { addCost } from "@bowline/domain/plan/Usage"
import { ContextOverflow, ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import type { Compaction, Made, Wanted } from "../compaction/Compaction.ts"
import * as ContextBudget from "../compaction/ContextBudget.ts"
import * as OldFiles from "../compaction/OldFiles.ts"
import * as TokenEstimate from "../compaction/TokenEstimate.ts"
import * as BeginRecord from "../record/BeginRecord.ts"

interface Given {
  readonly compaction: Compaction["Service"]
  readonly config: PlansConfig["Service"]
  readonly run: PlanRun
  readonly question: Wanted["question"]
  readonly frame: Wanted["frame"]
}

/** What summaries may use. */
export interface SummaryBudget {
  readonly isUsedUp: () => boolean
  readonly tokens: number
  readonly usd: number
}

/** How much of the threshold a prompt has, at most, whose old files were left out: the next steps have room. */
const filesLeave = 0.75

/** The part of its session that a plan's model reads. It is made shorter where it is too long for the model. */
export class PlanPrompt {
  readonly #given: Given
  #messages: ReadonlyArray<Entry>
  #summaries: ReadonlyArray<string>
  #isShortened = false
  /** What the provider has counted of the last step, and for which model. */
  #reported: (TokenEstimate.Reported & { readonly model: string }) | undefined

  constructor(given: Given, messages: ReadonlyArray<Entry>, summaries: ReadonlyArray<string>) {
    this.#given = given
    this.#messages = messages
    this.#summaries = summaries
  }

  get messages(): ReadonlyArray<Entry> {
    return this.#messages
  }

  /** What the messages leave out, the oldest first. */
  get summaries(): ReadonlyArray<string> {
    return this.#summaries
  }

  /** Whether it has less than the whole session. */
  get isCompacted(): boolean {
    return this.#isShortened || this.#summaries.length > 0
  }

  add(entry: Entry): void {
    this.#messages = [...this.#messages, entry]
  }

  /** The model has answered. `tokens` is what its provider has counted of prompt and answer together, if it has. */
  answered(answer: Entry, tokens: number | undefined): void {
    this.add(answer)
    const { model } = this.#given.run
    this.#reported = tokens === undefined ? undefined : { tokens, messages: this.#messages.length, model }
  }

  /** The tools have changed: what the provider has counted is no longer what the next step asks. */
  reframe(): void {
    this.#reported = undefined
  }

  /** Fails if the prompt alone has more tokens than this limit, which is called `name`. */
  within(maxTokens: number, name: string): Effect.Effect<void, PlannerError> {
    if (maxTokens === Infinity || this.#atMost() <= maxTokens) return Effect.void
    return Effect.gen({ self: this }, function* () {
      const tokens = yield* this.#estimate()
      if (tokens <= maxTokens) return
      const message = `The next request has about ${tokens} tokens, more than the ${maxTokens} of ${name}`
      return yield* new PlannerError({ code: "budget_exceeded", message, data: { estimated_tokens: tokens } })
    })
  }

  /** Fails if the next request alone may cost more than this limit, which is called `name`: its prompt, and the longest answer of the model. */
  affordable(maxUsd: number, name: string): Effect.Effect<void, PlannerError> {
    if (maxUsd === Infinity || this.#costOf(this.#atMost()) <= maxUsd) return Effect.void
    return Effect.gen({ self: this }, function* () {
      const tokens = yield* this.#estimate()
      const cost = this.#costOf(tokens)
      if (cost <= maxUsd) return
      const { outputLimit = 0 } = this.#limits()
      const size = `about ${tokens} tokens, and up to ${outputLimit} of the answer`
      const message = `The next request alone may cost ${cost} US dollars (${size}), more than the ${maxUsd} of ${name}`
      const data = { estimated_tokens: tokens, estimated_cost_usd: cost }
      return yield* new PlannerError({ code: "budget_exceeded", message, data })
    })
  }

  /** Makes the prompt short, if it is too long for the next step. Fails if it cannot be made short enough. */
  fit(budget: SummaryBudget): Effect.Effect<void, ProviderError | StorageError> {
    return Effect.suspend(() => {
      const limits = this.#limits()
      const threshold = ContextBudget.threshold(limits)
      // Mostly the number of bytes shows that the prompt is short. Then no tokens are counted.
      if (this.#atMost() <= threshold) return Effect.void
      return this.#compact(limits, threshold, budget).pipe(this.#given.run.stages.within("compaction"))
    })
  }

  /** The step was refused as too long: makes the prompt shorter, and says whether it is. */
  shorten(budget: SummaryBudget): Effect.Effect<boolean, StorageError> {
    return this.#shorten(budget).pipe(this.#given.run.stages.within("compaction"))
  }

  #limits() {
    const { config, run } = this.#given
    const { contextWindow, facts } = ModelLimits.of(config, run.model)
    return { ...facts, contextWindow }
  }

  /** The most that a request may cost; 0 if the price is unknown. */
  #costOf(tokens: number): number {
    const { outputLimit = 0, price } = this.#limits()
    if (price === undefined) return 0
    return addCost((tokens * price.input + outputLimit * price.output) / 1_000_000, 0) ?? 0
  }

  /** The messages whose tokens are still to be estimated, and the tokens that the provider has reported. */
  #known() {
    const last = this.#reported?.model === this.#given.run.model ? this.#reported : undefined
    return { added: this.#messages.slice(last?.messages ?? 0), reported: last && { tokens: last.tokens, messages: 0 } }
  }

  #atMost(): number {
    const { added, reported } = this.#known()
    const { frame, run } = this.#given
    const count = TokenEstimate.atMost(run.model)
    const bare = reported === undefined ? TokenEstimate.ofFrame(count, frame(this.#summaries)) : 0
    const weighed = added.map((message) => TokenEstimate.weigh(count, message))
    return TokenEstimate.ofPrompt(bare, weighed, reported)
  }

  #estimate() {
    return Effect.gen({ self: this }, function* () {
      const { added, reported } = this.#known()
      const { frame, run } = this.#given
      const count = yield* TokenEstimate.forModel(run.model)
      const bare = reported === undefined ? yield* TokenEstimate.weighFrame(count, frame(this.#summaries)) : 0
      return TokenEstimate.ofPrompt(bare, yield* TokenEstimate.weighAll(count, added), reported)
    })
  }

  #compact(limits: ContextBudget.Limits, threshold: number, budget: SummaryBudget) {
    return Effect.gen({ self: this }, function* (): Effect.fn.Return<void, ProviderError | StorageError> {
      const tokens = yield* this.#estimate()
      if (tokens <= threshold) return
      // Files go before any word does.
      if (yield* this.#leaveOut(tokens - filesLeave * threshold, tokens - threshold)) return
      const most = limits.contextWindow - ContextBudget.outputReserve(limits)
      const made = yield* this.#make(limits.contextWindow, tokens, budget, false)
      // Without a summary, the prompt keeps every message that fits.
      if ((made._tag === "NothingToGain" || made._tag === "Failed") && tokens <= most) return
      if (made._tag !== "NothingToGain") {
        this.#take(made)
        if (made.prompt.tokens <= most) return
        if (yield* this.#leaveOut(Infinity, made.prompt.tokens - most)) return
      }
      const { model } = this.#given.run
      const message = `The prompt has about ${tokens} tokens, and could not be made short enough for ${model}`
      return yield* new ProviderError({ reason: new ContextOverflow({ message }) })
    })
  }

  #shorten(budget: SummaryBudget) {
    return Effect.gen({ self: this }, function* (): Effect.fn.Return<boolean, StorageError> {
      const limits = this.#limits()
      if (yield* this.#leaveOut(Infinity, 1)) return true
      const tokens = yield* this.#estimate()
      const made = yield* this.#make(Math.min(tokens, limits.contextWindow), tokens, budget, true)
      if (made._tag === "NothingToGain") return false
      this.#take(made)
      return made.prompt.tokens <= limits.contextWindow - ContextBudget.outputReserve(limits)
    })
  }

  /** Leaves out old files of so many tokens, if those that there are have at least so many, and says whether. */
  #leaveOut(tokens: number, least: number): Effect.Effect<boolean> {
    return Effect.map(TokenEstimate.forModel(this.#given.run.model), (count) => {
      const lighter = OldFiles.leaveOut(count, this.#messages, tokens)
      if (lighter === undefined || lighter.saved < least) return false
      this.#messages = lighter.messages
      this.#isShortened = true
      this.#reported = undefined
      return true
    })
  }

  #make(size: number, tokens: number, budget: SummaryBudget, isRefused: boolean) {
    return Effect.gen({ self: this }, function* (): Effect.fn.Return<Made, StorageError> {
      const { compaction, frame, question, run } = this.#given
      const { journal } = run.given
      journal.append([run.progressed("compaction")], [])
      yield* journal.flush
      const made = yield* compaction.make({
        ...run.subject("compaction"),
        question,
        size,
        isRefused,
        mayAsk: !budget.isUsedUp() && tokens <= budget.tokens && this.#costOf(tokens) <= budget.usd,
        frame,
        remoteTasks: run.tasks.remoteTasks,
        heardTasks: (tasks) => journal.record(BeginRecord.ofTasks(tasks)),
        timeout: Infinity,
        account: {
          reported: (used) => run.step?.reportUsage({ step: 0, ...used }),
          ended: () => run.attempted(),
          recorded: (record) => journal.record({ ...record, step: 0 })
        }
      })
      if (made._tag !== "Summarised") return made
      const { stored, event } = made
      journal.append([{ _tag: "Compacted", compaction: stored }], [{ event: "compaction", data: event }])
      yield* journal.flush
      return made
    })
  }

  #take({ prompt }: Exclude<Made, { readonly _tag: "NothingToGain" }>): void {
    this.#messages = prompt.messages
    this.#isShortened = true
    this.#summaries = prompt.summaries
    this.#reported = undefined
  }
}
