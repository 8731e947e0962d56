import { AbortReason, type Failure, type Outcome, Stage } from "@bowline/domain/plan/Outcome"
import { TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { Context, Effect } from "effect"
import * as GenAi from "./GenAi.ts"
import { counter, gauge, histogram } from "./Instrument.ts"

/** How a plan ends for this process: it may run on in another one. */
const outcomes = ["completed", "failed", "aborted", "handed_over", "parked", "lost"] as const

const ended = counter({
  name: "bowline.plans.ended",
  description:
    "Plans that ended, by their outcome and by what they waited for then; `handed_over`, `parked` and `lost` go on in another process",
  labels: { outcome: outcomes, stage: [...Stage.literals, "none"] }
})
const failed = counter({
  name: "bowline.plans.failed",
  description: "Plans that failed, by the code of their error",
  labels: { code: "the codes of `error` in the reference of the stream" }
})
const aborted = counter({
  name: "bowline.plans.aborted",
  description: "Plans that were aborted, by reason",
  labels: { reason: AbortReason.literals }
})
const duration = histogram({
  name: "bowline.plan.duration",
  description: "From the creation of a plan to its end",
  unit: "s",
  labels: { outcome: outcomes }
})

/** What a plan is an invocation of, in the words of the conventions. */
export const agent = "bowline"

const invoked = { [GenAi.agent]: `\`${agent}\`` }

const agentDuration = histogram({
  name: "gen_ai.invoke_agent.duration",
  description: "From the creation of a plan to its end",
  unit: "s",
  labels: {
    [GenAi.operation]: "`invoke_agent`",
    ...invoked,
    [GenAi.errorType]:
      "the codes of `error` in the reference of the stream, `deadline` and `shutdown`; absent without an error"
  }
})
const inferenceCalls = histogram({
  name: "gen_ai.invoke_agent.inference_calls",
  description: "Requests of a plan to providers, those that failed and those for summaries included",
  unit: "{inference_call}",
  labels: invoked,
  boundaries: [0, 1, 2, 4, 8, 16, 32, 64, 128]
})
const agentToolCalls = histogram({
  name: "gen_ai.invoke_agent.tool_calls",
  description: "Tool calls of a plan, those that failed included",
  unit: "{tool_call}",
  labels: invoked,
  boundaries: [0, 1, 2, 4, 8, 16, 32, 64, 128, 256]
})

/** The type of the error with which a plan has ended. What a caller or an operator ends is no error. */
export const errorTypeOf = (outcome: Outcome): string | undefined => {
  if (outcome.state === "completed") return undefined
  const { code, reason } = outcome.error
  return outcome.state === "failed" || reason === "deadline" ? (reason ?? code) : undefined
}

/** A plan has ended, for this process at least. */
export const planEnded = (
  outcome: Outcome | "handed_over" | "parked" | "lost",
  error: Failure | undefined,
  durationMs: number,
  calls: { readonly inferences: number; readonly tools: number }
): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.sync(() => {
      const state = typeof outcome === "string" ? outcome : outcome.state
      ended.updateUnsafe(1, { outcome: state, stage: error?.stage ?? "none" }, context)
      duration.updateUnsafe(durationMs / 1_000, { outcome: state }, context)
      if (typeof outcome !== "string" && Context.get(context, GenAi.Latest)) {
        const labels = {
          [GenAi.agent]: agent,
          [GenAi.operation]: "invoke_agent",
          [GenAi.errorType]: errorTypeOf(outcome)
        }
        agentDuration.updateUnsafe(durationMs / 1_000, labels, context)
        inferenceCalls.updateUnsafe(calls.inferences, labels, context)
        agentToolCalls.updateUnsafe(calls.tools, labels, context)
      }
      if (state === "failed") failed.updateUnsafe(1, { code: error?.code }, context)
      if (error?.reason !== undefined) aborted.updateUnsafe(1, { reason: error.reason }, context)
    })
  )

export const timeToFirstToken = histogram({
  name: "bowline.plan.time_to_first_token",
  description: "From the creation of a plan to the first text of its answer; resumed plans do not count",
  unit: "s"
})

export const queueWait = histogram({
  name: "bowline.plan.queue_wait",
  description: "How long a plan has waited for its session, whether it got it or ended before",
  unit: "s"
})

export const stepDuration = histogram({
  name: "bowline.step.duration",
  description: "From the beginning of a step to the end of its last tool call, however it ended",
  unit: "s"
})

const toolCalls = counter({
  name: "bowline.tool.calls",
  description: "Tool calls that ended, by the state of their task",
  labels: { kind: ToolKind.literals, state: TaskState.literals }
})
const toolDuration = histogram({
  name: "bowline.tool.duration",
  description: "From the start of a tool call to its end",
  unit: "s",
  labels: { kind: ToolKind.literals }
})

/** Measures the end of a tool call, in milliseconds after its start. */
export type MeasureCall = (kind: ToolKind, state: TaskState, durationMs: number) => void

export const measureCall: Effect.Effect<MeasureCall> = Effect.contextWith((context: Context.Context<never>) =>
  Effect.succeed((kind, state, durationMs) => {
    toolCalls.updateUnsafe(1, { kind, state }, context)
    toolDuration.updateUnsafe(durationMs / 1_000, { kind }, context)
  })
)

export const plans = gauge({
  name: "bowline.plans",
  description: "Plans of this process: those that wait for their session, and those that run",
  labels: { state: ["queued", "running"] }
})

export const parked = gauge({
  name: "bowline.plans.parked",
  description: "Parked plans of all processes; the oldest one counts them every minute, the others say 0"
})

export const approvals = gauge({
  name: "bowline.approvals.waiting",
  description: "Tool calls of this process that wait for a decision"
})
