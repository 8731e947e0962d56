import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessagePart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import { canonicalJson } from "../store/CanonicalJson.ts"
import * as Envelope from "../tool/Envelope.ts"
import type { LoopLimits } from "../config/PlansConfig.ts"
import type { Tool } from "../tool/Tool.ts"
import * as LoopBreaker from "./LoopBreaker.ts"
import { PlannerError } from "./PlannerError.ts"

const longestError = 500

/** What the model is told in the result of a call that repeats itself. */
const warning =
  "You have made this call several times, with the same arguments and the same result. Making it again will not help: do something else, or answer with what you know."

const signatureOf = ({ tool, input, raw_input }: ToolCallPart): string => `${tool} ${raw_input ?? canonicalJson(input)}`

const warnIn =
  (repeated: ToolCallPart | undefined) =>
  (part: MessagePart): MessagePart =>
    part.type === "tool_result" && part.task_id === repeated?.task_id
      ? { ...part, content: `${part.content}\n${warning}` }
      : part

/** Watches the calls of a plan, and says when they lead nowhere. */
export class PlanLoop {
  readonly #limits: LoopLimits
  readonly #tools: ReadonlyMap<string, Tool>
  #state = LoopBreaker.initial

  constructor(limits: LoopLimits, tools: ReadonlyMap<string, Tool>) {
    this.#limits = limits
    this.#tools = tools
  }

  /** Whether the next step has to answer without tools. */
  get isExhausted(): boolean {
    return LoopBreaker.isExhausted(this.#state)
  }

  /** Takes in the steps of the plan that another process has finished. Gives the history as the model has read it there. */
  replay(history: ReadonlyArray<Message>, plan: PlanId): ReadonlyArray<Message> {
    const own = history.filter(({ plan_id }) => plan_id === plan)
    const results = own.flatMap(({ parts }) => parts.filter((part) => part.type === "tool_result"))
    const warned = own.flatMap(({ parts }) => {
      const calls = parts.filter((part) => part.type === "tool_call")
      const isFinished = calls.every(({ task_id }) => results.some((result) => result.task_id === task_id))
      return calls.length > 0 && isFinished ? (this.#take(calls, results).repeated ?? []) : []
    })
    return history.map((message) => ({ ...message, parts: message.parts.map(warnIn(warned[0])) }))
  }

  /** Gives the results of a step as the model gets to read them, or why the plan ends. */
  results(
    calls: ReadonlyArray<ToolCallPart>,
    results: ReadonlyArray<ToolResultPart>
  ): ReadonlyArray<MessagePart> | PlannerError {
    const { detected, repeated } = this.#take(calls, results)
    if (detected !== undefined) {
      const { result, state, tool } = detected
      const error = result.length <= longestError ? result : `${result.slice(0, longestError)}…`.toWellFormed()
      const message = `The call of ${tool} has failed in ${this.#limits.failures} steps with the same arguments: ${error}`
      return new PlannerError({ code: "loop_detected", message, data: { tool, state, error } })
    }
    return results.map(warnIn(repeated))
  }

  /** `repeated` is the call in whose result the model is told that it repeats itself. */
  #take(calls: ReadonlyArray<ToolCallPart>, results: ReadonlyArray<ToolResultPart>) {
    const step = calls.flatMap((call): ReadonlyArray<LoopBreaker.EndedCall> => {
      const result = results.find(({ task_id }) => task_id === call.task_id)
      if (result === undefined) return []
      const { state, content } = result
      const isPolling = this.#tools.get(call.tool)?.isPolling ?? false
      return [{ signature: signatureOf(call), tool: call.tool, state, result: Envelope.contentOf(content), isPolling }]
    })
    const { detected, state, warned } = LoopBreaker.afterStep(this.#state, step, this.#limits)
    this.#state = state
    return { detected, repeated: calls.findLast((call) => signatureOf(call) === warned?.signature) }
  }
}
