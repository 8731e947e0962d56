import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { type NewMessage, MessageId } from "@bowline/domain/session/Message"
import { fromMillis } from "@bowline/domain/time/Timestamp"
import { Clock, Context, Effect, Layer } from "effect"
import { Compaction } from "../compaction/Compaction.ts"
import * as PlanPrompt from "./PlanPrompt.ts"
import { contextBlocks } from "../compaction/Summary.ts"
import { PeerClient } from "../peer/PeerClient.ts"
import { CredentialPool } from "../asking/CredentialPool.ts"
import type { FinishReason } from "../provider/Provider.ts"
import { type Entry, legalHistory } from "../history/LegalHistory.ts"
import { patiently } from "../store/Patience.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { LocalTools } from "../tool/LocalTools.ts"
import type { Tool } from "../tool/Tool.ts"
import { resultLimit } from "../tool/Envelope.ts"
import * as Catalog from "./Catalog.ts"
import * as ModelLimits from "../asking/ModelLimits.ts"
import * as Assembly from "./Assembly.ts"
import * as Continuation from "./Continuation.ts"
import type { PlanRun } from "./PlanRun.ts"
import { PlansConfig } from "../config/PlansConfig.ts"
import * as Step from "./Step.ts"
import { StepState } from "./StepState.ts"
import { systemPrompt } from "./SystemPrompt.ts"
import * as Target from "../asking/Target.ts"
import * as PreparedCalls from "./PreparedCalls.ts"
import * as ToolCalls from "./ToolCalls.ts"

type StopReason = Final["stop_reason"]

const stopReasons: Record<FinishReason, StopReason> = {
  stop: "stop",
  tool_calls: "stop",
  other: "stop",
  length: "max_tokens",
  content_filter: "content_filter",
  refusal: "refusal",
  pause: "pause"
}

/** A step without tools stops for the reason why it has none, unless the provider cut it short. */
const stopReason = (finish: FinishReason, withholding: StopReason | undefined): StopReason =>
  stopReasons[finish] === "stop" ? (withholding ?? "stop") : stopReasons[finish]

/** The question as the history has it. It is named after its plan: whoever goes on with that knows it again. */
const questionOf = (plan: PlanId, text: string): NewMessage => ({
  message_id: MessageId.make(plan.replace(/^plan_/, "msg_")),
  role: "user",
  parts: [{ type: "text", text }]
})

/** Why the next step gets no tools, if so. */
const withheld = (run: PlanRun, tools: ReadonlyMap<string, Tool>): StopReason | undefined => {
  const { max_steps, max_tool_calls } = run.given.request.preferences
  if (tools.size === 0) return undefined
  if (run.progress.tool_calls >= max_tool_calls) return "max_tool_calls"
  return run.progress.steps === max_steps ? "max_steps" : undefined
}

/** Begins with the first model that can be asked now, if there is one: whoever reads the plan is told that one. */
const skipUnavailable = Effect.fnUntraced(function* (pool: CredentialPool["Service"], run: PlanRun) {
  const target = yield* Target.first(pool, run.given.session_id, run.models).pipe(
    Effect.catchTag("ProviderError", () => Effect.undefined)
  )
  if (target !== undefined) run.use(target.model)
})

/** The loop: ask the provider, make the calls that it wants, and ask again, until it answers. */
export class Planner extends Context.Service<
  Planner,
  {
    /** The session is held. Gives the answer, or why there is none; interrupted, it leaves the run for `settle`. */
    readonly run: (run: PlanRun) => Effect.Effect<Final, ProviderError | StorageError>
  }
>()("@bowline/runtime/planner/Planner") {
  static readonly layer = Layer.effect(
    Planner,
    Effect.gen(function* () {
      const pool = yield* CredentialPool
      const sessions = yield* SessionStore
      const peers = yield* PeerClient
      const local = yield* LocalTools
      const config = yield* PlansConfig
      const compaction = yield* Compaction

      return {
        run: Effect.fnUntraced(function* (run) {
          const { plan_id, session_id, journal, request, resumed, uuid } = run.given
          const [stored, summary] = yield* patiently(
            Effect.all([sessions.history(session_id), sessions.summary(session_id)], { concurrency: 2 })
          )
          const summaries = summary.text === null ? summary.priors : [...summary.priors, summary.text]
          const { tools, unreachable } = yield* Catalog.of(run, { peers, local, sessions })
          const delimiter = uuid()
          if (run.models.length > 1) yield* skipUnavailable(pool, run)

          const question = questionOf(plan_id, request.question)
          if (resumed?.isAsked !== true) {
            journal.append(
              [{ _tag: "MessageAppended", message: question, at: fromMillis(yield* Clock.currentTimeMillis) }],
              [{ event: "plan", data: { model: run.model, deadline_at: fromMillis(run.given.deadline) } }]
            )
          }

          const told = contextBlocks(delimiter)
          const frame = (summaries: ReadonlyArray<string>, mustAnswer = false) => ({
            system: systemPrompt({
              delimiter,
              agents: request.agents.map(({ name }) => name),
              unreachable,
              summary: told(summaries),
              mustAnswer
            }),
            tools: Array.from(tools.values())
          })
          const isThere = stored.some(({ message_id }) => message_id === question.message_id)
          // A compaction that has covered it asks it again in front.
          const asked = isThere ? stored : resumed?.isAsked === true ? [question, ...stored] : [...stored, question]
          const prompt = PlanPrompt.make(
            { compaction, config, run, question: { id: question.message_id, entry: question }, frame },
            asked,
            summaries
          )

          const { max_tool_calls } = request.preferences
          const make = Effect.fnUntraced(function* (calls: ReadonlyArray<PreparedCalls.Prepared>) {
            run.tasks.expect(calls.map(({ part }) => part.task_id))
            const { contextWindow } = ModelLimits.of(config, run.model)
            const limits = { delimiter, resultLimit: resultLimit(contextWindow) }
            prompt.add({ role: "tool", parts: yield* ToolCalls.runAll(run, calls, limits) })
          })

          let before = resumed?.attempts
          const last = stored.findLast((message) => message.plan_id === plan_id && message.role === "assistant")
          if (resumed !== undefined && last !== undefined) {
            const parts = last.parts.filter((part) => part.type === "tool_call")
            const left = PreparedCalls.left(parts, resumed.tasks, tools, max_tool_calls)
            run.count({ tool_calls: left.counted })
            if (left.calls.length > 0) {
              before = undefined
              yield* make(left.calls)
            }
          }

          let corrections: ReadonlyArray<Entry> = []
          for (;;) {
            const step = new StepState()
            run.step = step
            yield* prompt.fit
            if (before === undefined) run.count({ steps: run.progress.steps + 1 })
            const withholding = withheld(run, tools)
            journal.append(
              [run.progressed("provider")],
              before === undefined ? [{ event: "step", data: { step: run.progress.steps, attempt: 1 } }] : []
            )
            const ask = () => ({
              ...frame(prompt.summaries(), withholding !== undefined),
              messages: [...legalHistory(prompt.messages()), ...corrections],
              toolChoice: withholding === undefined ? ("auto" as const) : ("none" as const)
            })
            const shorter = Effect.map(prompt.shorten, (isShorter) => (isShorter ? ask() : undefined))
            const answer = yield* Step.ask(pool, config, run, step, ask(), shorter, before)
            before = undefined
            const now = yield* Clock.currentTimeMillis
            const wantsTools = withholding === undefined && answer.finish !== "length" && answer.calls.length > 0
            const budget = max_tool_calls - run.progress.tool_calls
            const calls = wantsTools ? PreparedCalls.prepare(answer.calls, tools, budget, () => uuid()) : []
            const parts = Assembly.inOrder(
              answer.parts,
              answer.calls,
              calls.map(({ part }) => part)
            )
            if (!wantsTools) {
              run.answer = parts
              return {
                stop_reason: stopReason(answer.finish, withholding),
                text: answer.text,
                usage: run.progress.usage,
                steps: run.progress.steps,
                tool_calls: run.progress.tool_calls,
                duration_ms: now - run.given.createdAt
              }
            }
            run.step = undefined
            journal.append([run.message("assistant", parts, now)], [])
            prompt.answered(
              { role: "assistant", parts },
              answer.usage && answer.usage.input_tokens + answer.usage.output_tokens
            )
            run.count({ tool_calls: run.progress.tool_calls + Math.min(calls.length, budget) })
            yield* make(calls)
            corrections = Continuation.corrections(answer.dropped)
          }
        })
      }
    })
  )
}
