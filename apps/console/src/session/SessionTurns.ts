import type { Message, PlanSummary } from "@bowline/client"
import { isOver } from "../live/Settled.ts"

/** Something that was said, or the calls between two things that were said. */
export type Entry =
  | { readonly kind: "said"; readonly message: Message }
  | { readonly kind: "work"; readonly messages: ReadonlyArray<Message>; readonly tools: ReadonlyArray<string> }

/** What one plan has added to a conversation. */
export interface PlanTurn {
  readonly planId: string
  readonly plan: PlanSummary | undefined
  readonly entries: ReadonlyArray<Entry>
}

const toolsIn = ({ parts }: Message): ReadonlyArray<string> =>
  parts.flatMap((part) => (part.type === "tool_call" ? [part.tool] : []))

const isWork = (message: Message): boolean => message.role === "tool" || toolsIn(message).length > 0

const add = (entries: ReadonlyArray<Entry>, message: Message): ReadonlyArray<Entry> => {
  if (!isWork(message)) return [...entries, { kind: "said", message }]
  const last = entries.at(-1)
  return last?.kind === "work"
    ? [
        ...entries.slice(0, -1),
        { kind: "work", messages: [...last.messages, message], tools: [...last.tools, ...toolsIn(message)] }
      ]
    : [...entries, { kind: "work", messages: [message], tools: toolsIn(message) }]
}

/**
 * A history as a conversation: what was said stands open, the calls of a plan are one fold. A plan that has said nothing yet stands at the
 * end, where the history `isWhole`.
 */
export const conversationOf = (
  messages: ReadonlyArray<Message>,
  plans: ReadonlyArray<PlanSummary>,
  isWhole: boolean
): ReadonlyArray<PlanTurn> => {
  const turns: Array<PlanTurn> = []
  for (const message of messages) {
    const last = turns.at(-1)
    if (last?.planId === message.plan_id) {
      turns[turns.length - 1] = { ...last, entries: add(last.entries, message) }
      continue
    }
    const plan = plans.find(({ plan_id }) => plan_id === message.plan_id)
    turns.push({ planId: message.plan_id, plan, entries: add([], message) })
  }
  const told = new Set(turns.map(({ planId }) => planId))
  const silent = plans.filter(({ plan_id, state }) => !told.has(plan_id) && !isOver({ state }))
  return isWhole
    ? [...turns, ...silent.toReversed().map((plan) => ({ planId: plan.plan_id, plan, entries: [] }))]
    : turns
}
