import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Message, MessagePart, ToolCallPart, ToolResultPart } from "@bowline/domain/session/Message"
import { canonicalJson } from "../store/CanonicalJson.ts"
import { questionId } from "../store/PlanStore.ts"
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

/** A call and its result. */
type Ended = readonly [ToolCallPart, ToolResultPart]

const endedOf = (calls: ReadonlyArray<ToolCallPart>, results: ReadonlyArray<ToolResultPart>): ReadonlyArray<Ended> =>
  calls.flatMap((call) => {
    const result = results.find(({ task_id }) => task_id === call.task_id)
    return result === undefined ? [] : [[call, result] as const]
  })

/** Watches the calls of a plan, and says when they lead nowhere. */
export class PlanLoop {
  readonly #limits: LoopLimits
  readonly #tools: ReadonlyMap<string, Tool>
  #state = LoopBreaker.initial
  #failure: PlannerError | undefined
  /** The calls that had ended in a step that another process has left unfinished. */
  #begun: ReadonlyArray<Ended> = []

  constructor(limits: LoopLimits, tools: ReadonlyMap<string, Tool>) {
    this.#limits = limits
    this.#tools = tools
  }

  /** Whether the next step has to answer without tools. */
  get isExhausted(): boolean {
    return LoopBreaker.isExhausted(this.#state)
  }

  /** Why the plan ends, once a call has failed too often. */
  get failure(): PlannerError | undefined {
    return this.#failure
  }

  /** Takes in the calls of the plan that have ended in another process, or in the one that it is a fork of. Gives the history as the model has read it there. */
  replay(history: ReadonlyArray<Message>, plan: PlanId): ReadonlyArray<Message> {
    const asked = history.findIndex(({ message_id }) => message_id === questionId(plan))
    // What stands in front of the question may have come with the plan.
    const own = history.slice(Math.max(asked, 0)).filter(({ plan_id }) => plan_id === plan)
    const results = own.flatMap(({ parts }) => parts.filter((part) => part.type === "tool_result"))
    const warned = own.flatMap(({ parts }) => {
      const calls = parts.filter((part) => part.type === "tool_call")
      const ended = endedOf(calls, results)
      if (ended.length === calls.length) return this.#take(ended) ?? []
      this.#begun = ended
      return []
    })
    return history.map((message) => ({ ...message, parts: message.parts.map(warnIn(warned[0])) }))
  }

  /** Takes in the calls of a step that have ended in this process, and gives their results as the model gets to read them. */
  results(calls: ReadonlyArray<ToolCallPart>, results: ReadonlyArray<ToolResultPart>): ReadonlyArray<MessagePart> {
    const step = [...this.#begun, ...endedOf(calls, results)]
    this.#begun = []
    return results.map(warnIn(this.#take(step)))
  }

  /** Gives the call in whose result the model is told that it repeats itself. */
  #take(step: ReadonlyArray<Ended>): ToolCallPart | undefined {
    const calls = step.map(([call, { content, state }]): LoopBreaker.EndedCall => {
      const isPolling = this.#tools.get(call.tool)?.isPolling ?? false
      return { signature: signatureOf(call), tool: call.tool, state, result: Envelope.contentOf(content), isPolling }
    })
    const { detected, state, warned } = LoopBreaker.afterStep(this.#state, calls, this.#limits)
    this.#state = state
    if (detected !== undefined) this.#failure = this.#toError(detected)
    return step.map(([call]) => call).findLast((call) => signatureOf(call) === warned?.signature)
  }

  #toError({ result, state, tool }: LoopBreaker.EndedCall): PlannerError {
    const error = result.length <= longestError ? result : `${result.slice(0, longestError)}…`.toWellFormed()
    const message = `The call of ${tool} has failed in ${this.#limits.failures} steps with the same arguments: ${error}`
    return new PlannerError({ code: "loop_detected", message, data: { tool, state, error } })
  }
}
