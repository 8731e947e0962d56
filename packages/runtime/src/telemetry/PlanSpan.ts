import type { Outcome } from "@bowline/domain/plan/Outcome"
import type { Usage } from "@bowline/domain/plan/Usage"
import { Effect, type Tracer } from "effect"
import type { PlanStart } from "../store/PlanStart.ts"
import * as GenAi from "./GenAi.ts"
import { agent, errorTypeOf } from "./PlanMetrics.ts"
import * as Spans from "./Spans.ts"

interface Plan extends Pick<PlanStart, "plan_id" | "caller" | "request" | "model"> {
  readonly session_id: string
  readonly resumed: object | undefined
}

/** Gives a plan its span. One that another process has begun has a span here, too, in the same trace. */
export const ofPlan = ({ plan_id, session_id, caller, model, request, resumed }: Plan) =>
  Spans.within("plan", (content, isLatest) => ({
    ...(isLatest && { name: `invoke_agent ${agent}` }),
    attributes: {
      [GenAi.operation]: "invoke_agent",
      [GenAi.agent]: agent,
      [GenAi.conversation]: session_id,
      [GenAi.requestModel]: model,
      [GenAi.plan]: plan_id,
      [GenAi.caller]: caller,
      ...(resumed !== undefined && { [GenAi.resumed]: true }),
      ...(content && { [GenAi.inputMessages]: JSON.stringify([textMessage("user", request.question)]) })
    }
  }))

const textMessage = (role: string, content: string) => ({ role, parts: [{ type: "text", content }] })

interface Ended {
  /** Undefined if the plan is not over: another process has it, or is to have it. */
  readonly outcome: Outcome | undefined
  readonly progress: { readonly steps: number; readonly tool_calls: number; readonly usage: Usage }
}

const describe = (span: Tracer.Span, content: boolean, { outcome, progress }: Ended): string | undefined => {
  const { steps, tool_calls, usage } = progress
  span.attribute(GenAi.outcome, outcome?.state ?? "handed_over")
  span.attribute(GenAi.steps, steps)
  span.attribute(GenAi.toolCalls, tool_calls)
  span.attribute(GenAi.inputTokens, usage.input_tokens)
  span.attribute(GenAi.outputTokens, usage.output_tokens)
  if (outcome === undefined) return undefined
  if (outcome.state === "completed") {
    const { stop_reason, text } = outcome.final
    span.attribute(GenAi.finishReasons, [stop_reason])
    if (content) span.attribute(GenAi.outputMessages, JSON.stringify([textMessage("assistant", text)]))
    return undefined
  }
  const { reason, stage } = outcome.error
  if (stage !== null) span.attribute(GenAi.stage, stage)
  if (reason !== undefined) span.attribute(GenAi.abortReason, reason)
  return errorTypeOf(outcome)
}

/** Says in the plan's span how the plan has ended. */
export const settle = (ended: () => Ended): Effect.Effect<void> =>
  Spans.describeOpen((span, content) => {
    const type = describe(span, content, ended())
    return type === undefined ? Effect.void : Spans.fail(span, type)
  })
