import type { Final } from "@bowline/domain/plan/Outcome"
import type { SkillCall } from "@bowline/domain/plan/PlanRequest"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Duration, Effect } from "effect"
import * as Assembly from "../asking/Assembly.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import type { PlansConfig } from "../config/PlansConfig.ts"
import type { Entry } from "../provider/LegalHistory.ts"
import { partsOf } from "../store/InboxStore.ts"
import { resultLimit } from "../tool/Envelope.ts"
import * as GenAi from "../telemetry/GenAi.ts"
import * as Spans from "../telemetry/Spans.ts"
import type { InputValidator } from "../tool/InputValidator.ts"
import { timed } from "../telemetry/Instrument.ts"
import { stepDuration } from "../telemetry/PlanMetrics.ts"
import * as Continuation from "./Continuation.ts"
import type { Conversation } from "./Conversation.ts"
import * as DailyAllowance from "./DailyAllowance.ts"
import { stopReason, usedUp, withheld } from "./Decision.ts"
import * as FinalAnswer from "./FinalAnswer.ts"
import type { PlanRun } from "./PlanRun.ts"
import * as PreparedCalls from "./PreparedCalls.ts"
import type { Attempts } from "./Resumption.ts"
import { answerWith, resultIn } from "./SkillCall.ts"
import type * as Step from "./Step.ts"
import * as ToolCalls from "./ToolCalls.ts"

/** What the steps of a plan work with. */
export interface Services {
  readonly config: PlansConfig["Service"]
  readonly validator: InputValidator["Service"]
  readonly allowance: ReturnType<typeof DailyAllowance.make>
  readonly askStep: ReturnType<typeof Step.make>
  readonly admit: ToolCalls.Options["admit"]
  readonly store: ToolCalls.Options["store"]
  readonly lookAgain: ToolCalls.Options["lookAgain"]
}

/** What the next step has besides the conversation. */
interface Next {
  /** Messages for its request only. */
  readonly corrections: ReadonlyArray<Entry>
  /** Whether it repairs an answer that was rejected. */
  readonly isRepair: boolean
  /** The attempts of the process that had the plan before. */
  readonly before: Attempts | undefined
}

const used = ({ knownCost, progress }: PlanRun) => ({ ...progress, knownCost })

const unbounded = { contextWindow: Infinity }

const afresh: Next = { corrections: [], isRepair: false, before: undefined }

/** The steps of one plan: ask the provider, decide, make the calls that it wants, and ask again, until it answers. */
export class StepLoop {
  readonly #services: Services
  readonly #run: PlanRun
  readonly #conversation: Conversation
  /** Whether the model has asked for calls, also for some of tools that do not exist. */
  #hasCalled: boolean

  constructor(services: Services, run: PlanRun, conversation: Conversation) {
    this.#services = services
    this.#run = run
    this.#conversation = conversation
    this.#hasCalled = (run.given.resumed?.tasks ?? []).length > 0
  }

  run() {
    return StepLoop.#steps.call(this)
  }

  // Static: `Effect.fnUntraced` makes a function, and one for each plan would cost as much as twenty effects, and keep the plan in memory.
  static readonly #steps = Effect.fnUntraced(function* (this: StepLoop) {
    const { request, resumed } = this.#run.given
    const isFinished = resumed !== undefined && (yield* this.#inSpan(0)(StepLoop.#finishStep.call(this)))
    if (request.call !== undefined) return yield* this.#callOnly(request.call)
    let next: Next = { ...afresh, before: isFinished ? undefined : resumed?.attempts }
    for (;;) {
      const decided = yield* timed((seconds, _, context) => stepDuration.updateUnsafe(seconds, {}, context))(
        StepLoop.#decide.call(this, next)
      ).pipe(this.#inSpan(next.before === undefined ? 1 : 0))
      if ("final" in decided) return decided
      next = decided.next
    }
  })

  /** Makes one step. */
  static readonly #decide = Effect.fnUntraced(function* (this: StepLoop, next: Next) {
    const { answer, left, stop } = yield* this.#ask(next)
    return stop === undefined
      ? { next: yield* this.#step(answer, left) }
      : yield* this.#end(answer, stop, next.isRepair, this.#mayGoOn(left))
  })

  /** Finishes the step that another process has left unfinished, if its answer is stored. Says whether it made a call. */
  static readonly #finishStep = Effect.fnUntraced(function* (this: StepLoop) {
    const { resumed } = this.#run.given
    const { lastAnswer, tools, withheld } = this.#conversation
    if (resumed === undefined || lastAnswer === undefined) return false
    // Says which day the plan is charged to from now on.
    yield* this.#services.allowance(this.#run)
    const asked = lastAnswer.parts
      .filter((part) => part.type === "tool_call")
      // Those of the plan that it is a fork of have their results. Its own that have ended count: the model may make so many in the step.
      .filter(({ task_id }) => resumed.unanswered.includes(task_id) || this.#run.tasks.get(task_id) !== undefined)
    const lookup = { tools, withheld, parse: this.#parse }
    const { tool_calls } = this.#run.progress
    const calls = yield* PreparedCalls.remainingCalls(asked, resumed.tasks, lookup, tool_calls)
    if (calls.length === 0) return false
    yield* this.#call(calls)
    return true
  })

  /** The span of a step, so many steps after the last one. */
  #inSpan(after: 0 | 1) {
    return Spans.within("step", () => ({ attributes: { [GenAi.step]: this.#run.progress.steps + after } }))
  }

  /** Makes the one call of a plan that asks no provider. Its result is the answer. */
  *#callOnly(call: SkillCall) {
    const { lastAnswer, prompt } = this.#conversation
    if (lastAnswer === undefined) yield* this.#step(answerWith(call), yield* this.#services.allowance(this.#run))
    const text = yield* resultIn(prompt.messages, call)
    const answer = { final: yield* this.#final("stop", text), parts: [{ type: "text" as const, text }] }
    yield* this.#run.complete(answer, false)
    return answer
  }

  /** Asks for the next answer, unless the calls lead nowhere, and says why it ends the plan, if it does. */
  *#ask({ before, corrections, isRepair }: Next) {
    const run = this.#run
    const { loop, prompt, refreshTools, request, tools } = this.#conversation
    const { preferences } = run.given.request
    if (loop.failure !== undefined) return yield* loop.failure
    yield* refreshTools
    const number = run.progress.steps + (before === undefined ? 1 : 0)
    yield* this.#takeTexts(number)
    const step = run.beginStep()
    const found = yield* this.#services.allowance(run)
    const usedBefore = DailyAllowance.usedBy(run)
    const { max_cost_usd = Infinity, max_total_tokens = Infinity } = preferences
    // A summary costs, too.
    const leftNow = () => DailyAllowance.behind(found, usedBefore, DailyAllowance.usedBy(run))
    const budget = {
      isUsedUp: () => usedUp(used(run), preferences, leftNow()) !== undefined,
      tokens: Math.min(max_total_tokens, found.tokensPerDay),
      usd: Math.min(max_cost_usd, found.mostUsd)
    }
    yield* prompt.fit(budget)
    const left = leftNow()
    yield* prompt.within(max_total_tokens, "preferences.max_total_tokens")
    yield* prompt.within(left.tokensPerDay, `the daily budget of ${run.given.caller}`)
    yield* prompt.affordable(max_cost_usd, "preferences.max_cost_usd")
    yield* prompt.affordable(left.mostUsd, `the budget of ${run.given.caller}`)
    if (before === undefined) run.count({ steps: run.progress.steps + 1 })
    const { steps } = run.progress
    const withholding = withheld(used(run), preferences, {
      mayCall: tools.size > 0 || this.#hasCalled,
      isLooping: loop.isExhausted,
      left
    })
    const mustAnswer = isRepair || withholding !== undefined
    run.given.journal.append(
      [run.progressed("provider")],
      before === undefined ? [{ event: "step", data: { step: steps, attempt: 1 } }] : []
    )
    // Another process may have the plan by now: only a write says so.
    if (run.given.isOverdue()) yield* run.given.journal.flush
    const answer = yield* this.#services.askStep(run, step, {
      question: () => request(mustAnswer, corrections),
      mayCall: !mustAnswer,
      shorten: prompt.shorten(budget),
      before,
      urgent: run.inbox.urgent,
      steer: Effect.andThen(
        Effect.suspend(() => this.#takeTexts(number)),
        prompt.fit(budget)
      )
    })
    return { answer, left, stop: stopReason(answer, withholding) }
  }

  /**
   * Takes what was said to the plan for this step, each text as a message of the user, behind the `answer` that it may have come too late for. Says
   * whether there was something.
   */
  #takeTexts(step: number, answer?: Step.Given): Effect.Effect<boolean, StorageError> {
    const { inbox } = this.#run
    if (inbox.texts.length === 0) return Effect.succeed(false)
    return Effect.gen({ self: this }, function* () {
      const { prompt, readNames } = this.#conversation
      const now = yield* Clock.currentTimeMillis
      const said = answer === undefined ? [] : [Assembly.inOrder(answer.parts, answer.calls, [])]
      const taken = yield* inbox.take(step, (texts) => [
        ...said.map((parts) => this.#run.message("assistant", parts, now)),
        ...texts.map((text) => this.#run.message("user", partsOf(text), now))
      ])
      if (taken.length === 0) return false
      const usage = answer?.usage
      for (const parts of said) {
        prompt.answered({ role: "assistant", parts }, usage && usage.input_tokens + usage.output_tokens)
      }
      for (const text of taken) {
        readNames(text.text)
        prompt.add({ role: "user", parts: partsOf(text) })
      }
      return true
    })
  }

  /** Whether another step may follow the last one. */
  #mayGoOn(left: DailyAllowance.Allowance): boolean {
    const { loop } = this.#conversation
    const { preferences } = this.#run.given.request
    return withheld(used(this.#run), preferences, { mayCall: true, isLooping: loop.isExhausted, left }) === undefined
  }

  /**
   * Takes the answer that ends the plan, or has it repaired. Where somebody has said something behind the question, the answer is one more message,
   * and a step follows: the store decides which of the two came first.
   */
  *#end(answer: Step.Given, stop_reason: Final["stop_reason"], isRepair: boolean, mayGoOn: boolean) {
    const run = this.#run
    for (;;) {
      if (mayGoOn && (yield* this.#takeTexts(run.progress.steps + 1, answer))) {
        run.endStep()
        return { next: afresh }
      }
      const judged = yield* FinalAnswer.judge(this.#services.validator, run, answer.text, isRepair)
      if (judged._tag === "Rejected") return { next: { ...afresh, corrections: judged.repair, isRepair: true } }
      const final = { ...(yield* this.#final(stop_reason, answer.text)), ...judged.output }
      const ending = { final, parts: Assembly.inOrder(answer.parts, answer.calls, []) }
      if (yield* run.complete(ending, mayGoOn)) return ending
    }
  }

  #final(stop_reason: Final["stop_reason"], text: string): Effect.Effect<Final> {
    const { steps, tool_calls, usage } = this.#run.progress
    return Effect.map(Clock.currentTimeMillis, (now) => ({
      stop_reason,
      text,
      usage,
      steps,
      tool_calls,
      duration_ms: this.#run.age(now)
    }))
  }

  /** Stores an answer with calls, and makes them. */
  *#step(answer: Step.Given, { toolCalls }: DailyAllowance.Allowance) {
    const run = this.#run
    const { journal, request, uuid } = run.given
    const { prompt, tools } = this.#conversation
    const budget = Math.min(request.preferences.max_tool_calls - run.progress.tool_calls, toolCalls)
    const calls = yield* PreparedCalls.prepare(answer.calls, { tools, parse: this.#parse }, budget, uuid)
    const written = calls.map(({ part }) => part)
    const parts = Assembly.inOrder(answer.parts, answer.calls, written)
    run.endStep()
    const tool_calls = Math.min(calls.length, budget)
    run.count({ tool_calls: run.progress.tool_calls + tool_calls })
    // Together: the next process makes as many of the calls as this one would have made.
    journal.append(
      [
        run.message("assistant", parts, yield* Clock.currentTimeMillis),
        run.progressed("tool"),
        run.charged({ tool_calls })
      ],
      []
    )
    const { usage } = answer
    prompt.answered({ role: "assistant", parts }, usage && usage.input_tokens + usage.output_tokens)
    yield* this.#call(calls)
    return { ...afresh, corrections: Continuation.corrections(answer.dropped) }
  }

  /** Makes calls, and tells the model what came of them. */
  *#call(calls: ReadonlyArray<PreparedCalls.Prepared>) {
    const run = this.#run
    const { delimiter, files, loop, prompt } = this.#conversation
    const parts = calls.map(({ part }) => part)
    this.#hasCalled = true
    run.tasks.expect(parts.map(({ task_id }) => task_id))
    const { admit, config, lookAgain, store } = this.#services
    // No model reads the result of a plan that asks none.
    const { contextWindow } = run.given.request.call === undefined ? ModelLimits.of(config, run.model) : unbounded
    const answers = yield* ToolCalls.runAll(run, calls, {
      delimiter,
      resultLimit: resultLimit(contextWindow),
      concurrency: config.toolConcurrency,
      timeoutMs: Duration.toMillis(config.toolTimeout),
      admit,
      store,
      lookAgain,
      files
    })
    const results = loop.results(
      parts,
      answers.map(({ result }) => result)
    )
    // Each result has its files behind it, as in the stored history.
    prompt.add({ role: "tool", parts: results.flatMap((part, at) => [part, ...(answers[at]?.files ?? [])]) })
  }

  readonly #parse: PreparedCalls.ParseInput = (tool, text) => {
    const { given, stages } = this.#run
    return stages.within("tool")(this.#services.validator.parse(given.caller, tool, text))
  }
}
