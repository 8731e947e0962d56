import type { Final } from "@bowline/domain/plan/Outcome"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Layer } from "effect"
import { Asker } from "../asking/Asker.ts"
import * as Assembly from "../asking/Assembly.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import { Compaction } from "../compaction/Compaction.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import type { Entry } from "../history/LegalHistory.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { resultLimit } from "../tool/Envelope.ts"
import { InputValidator } from "../tool/InputValidator.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import { ApprovalDecisions } from "./ApprovalDecisions.ts"
import * as CallApproval from "./CallApproval.ts"
import * as Continuation from "./Continuation.ts"
import * as Conversation from "./Conversation.ts"
import { stopReason, withheld } from "./Decision.ts"
import * as FinalAnswer from "./FinalAnswer.ts"
import { PlannerError } from "./PlannerError.ts"
import type { PlanRun } from "./PlanRun.ts"
import * as PreparedCalls from "./PreparedCalls.ts"
import type { Attempts } from "./Resumption.ts"
import * as Step from "./Step.ts"
import * as ToolCalls from "./ToolCalls.ts"

/** The answer that ends a plan: what callers are told, and what the history keeps. */
export interface PlanAnswer {
  readonly final: Final
  readonly parts: ReadonlyArray<MessagePart>
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

const afresh: Next = { corrections: [], isRepair: false, before: undefined }

/** The loop: ask the provider, make the calls that it wants, and ask again, until it answers. */
export class Planner extends Context.Service<
  Planner,
  {
    /** The session is held. Gives the answer, or why there is none; interrupted, it leaves the run for `settle`. */
    readonly run: (run: PlanRun) => Effect.Effect<PlanAnswer, ProviderError | PlannerError | StorageError>
  }
>()("@bowline/runtime/planner/Planner") {
  static readonly layer = Layer.effect(
    Planner,
    Effect.gen(function* () {
      const config = yield* PlansConfig
      const asker = yield* Asker
      const askStep = Step.make(asker)
      const validator = yield* InputValidator
      const approve = CallApproval.make({ rules: config.approvals, decisions: yield* ApprovalDecisions })
      const parts: Conversation.Parts = {
        asker,
        config,
        sessions: yield* SessionStore,
        peers: yield* PeerClient,
        local: yield* LocalTools,
        compaction: yield* Compaction
      }

      const parseFor =
        ({ given, stages }: PlanRun): PreparedCalls.ParseInput =>
        (tool, text) =>
          stages.within("tool")(validator.parse(given.caller, tool, text))

      /** Makes calls, and tells the model what came of them. */
      const call = Effect.fnUntraced(function* (
        run: PlanRun,
        { delimiter, loop, prompt }: Conversation.Conversation,
        calls: ReadonlyArray<PreparedCalls.Prepared>
      ) {
        const parts = calls.map(({ part }) => part)
        run.tasks.expect(parts.map(({ task_id }) => task_id))
        const { contextWindow } = ModelLimits.of(config, run.model)
        const options = { delimiter, resultLimit: resultLimit(contextWindow), approve }
        const results = loop.results(parts, yield* ToolCalls.runAll(run, calls, options))
        if (results instanceof PlannerError) return yield* results
        prompt.add({ role: "tool", parts: results })
      })

      /** Finishes the step that another process has left unfinished, if its answer is stored. Says whether it made a call. */
      const finishStep = Effect.fnUntraced(function* (run: PlanRun, conversation: Conversation.Conversation) {
        const { resumed, request } = run.given
        const { lastAnswer, tools } = conversation
        if (resumed === undefined || lastAnswer === undefined) return false
        const asked = lastAnswer.parts.filter((part) => part.type === "tool_call")
        const { max_tool_calls } = request.preferences
        const { calls, counted } = yield* PreparedCalls.left(asked, resumed.tasks, tools, parseFor(run), max_tool_calls)
        run.count({ tool_calls: counted })
        if (calls.length === 0) return false
        yield* call(run, conversation, calls)
        return true
      })

      /** Asks for the next answer. A step that another process began goes on behind its attempts `before`. */
      const ask = Effect.fnUntraced(function* (
        run: PlanRun,
        { loop, prompt, request, tools }: Conversation.Conversation,
        { before, corrections, isRepair }: Next
      ) {
        const step = run.beginStep()
        const { preferences } = run.given.request
        yield* prompt.fit
        yield* prompt.within(preferences.max_total_tokens ?? Infinity)
        if (before === undefined) run.count({ steps: run.progress.steps + 1 })
        const { steps } = run.progress
        const withholding = withheld(run.progress, preferences, {
          hasTools: tools.size > 0,
          isLooping: loop.isExhausted
        })
        const mustAnswer = isRepair || withholding !== undefined
        run.given.journal.append(
          [run.progressed("provider")],
          before === undefined ? [{ event: "step", data: { step: steps, attempt: 1 } }] : []
        )
        const answer = yield* askStep(run, step, {
          question: () => request(mustAnswer, corrections),
          mayCall: !mustAnswer,
          shorten: prompt.shorten,
          before
        })
        return { answer, stop: stopReason(answer, withholding) }
      })

      const finalOf = (run: PlanRun, stop_reason: Final["stop_reason"], text: string, now: number): Final => {
        const { steps, tool_calls, usage } = run.progress
        return { stop_reason, text, usage, steps, tool_calls, duration_ms: now - run.given.createdAt }
      }

      return {
        run: Effect.fnUntraced(function* (run) {
          const { journal, request, resumed, uuid } = run.given
          const { max_tool_calls } = request.preferences
          const conversation = yield* Conversation.begin(parts, run)
          const { prompt, tools } = conversation
          const isFinished = yield* finishStep(run, conversation)
          let next: Next = { ...afresh, before: isFinished ? undefined : resumed?.attempts }
          for (;;) {
            const { answer, stop } = yield* ask(run, conversation, next)
            const now = yield* Clock.currentTimeMillis
            const budget = max_tool_calls - run.progress.tool_calls
            const made = stop === undefined ? answer.calls : []
            const calls = yield* PreparedCalls.prepare(made, tools, parseFor(run), budget, uuid)
            const written = calls.map(({ part }) => part)
            const said = Assembly.inOrder(answer.parts, answer.calls, written)
            if (stop !== undefined) {
              const judged = yield* FinalAnswer.judge(validator, run, answer.text, next.isRepair)
              if (judged._tag === "Taken") {
                return { final: { ...finalOf(run, stop, answer.text, now), ...judged.output }, parts: said }
              }
              next = { ...afresh, corrections: judged.repair, isRepair: true }
              continue
            }
            run.endStep()
            journal.append([run.message("assistant", said, now)], [])
            prompt.answered(
              { role: "assistant", parts: said },
              answer.usage && answer.usage.input_tokens + answer.usage.output_tokens
            )
            run.count({ tool_calls: run.progress.tool_calls + Math.min(calls.length, budget) })
            yield* call(run, conversation, calls)
            next = { ...afresh, corrections: Continuation.corrections(answer.dropped) }
          }
        })
      }
    })
  )
}
