import type { MessagePart } from "@bowline/domain/session/Message"
import { leftOut, legalHistory, unknownEffect } from "@bowline/runtime/unstable/provider/LegalHistory"
import type { Asked } from "../../provider/Script.ts"
import { faults } from "../../session/RandomHistory.ts"
import type { Moment, Observed, ObservedAttempt, ObservedPlan, ObservedSession } from "../scenario/Observed.ts"
import { isSpent, tokensLeft } from "./Budgets.ts"
import { aftermath, wasHindered } from "./Fitness.ts"
import { seconds } from "./PlanEnd.ts"

/** What is planted in texts, so that it shows where it is lost. */
const factsIn = (text: string): ReadonlySet<string> => new Set(text.match(/FACT-[\w.-]*\w/gu))

const textsOf = (parts: ReadonlyArray<MessagePart>): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("\n")

const lacking = (facts: Iterable<string>, known: ReadonlySet<string>): string =>
  Array.from(facts)
    .filter((fact) => !known.has(fact))
    .join(", ")

/** In order, one plan behind the other, each call with its one result behind it, before anybody speaks again. */
const isSerial = ({ messages }: ObservedSession): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const over = new Set<string>()
  const open = new Set<string>()
  messages.forEach(({ parts, plan_id, role, seq }, index) => {
    const before = messages[index - 1]
    if (before !== undefined && seq <= before.seq) problems.push(`message ${seq} stands behind ${before.seq}`)
    if (before !== undefined && before.plan_id !== plan_id) over.add(before.plan_id)
    if (over.has(plan_id)) problems.push(`message ${seq} of ${plan_id} stands behind those of another plan`)
    if (role !== "tool" && open.size > 0) problems.push(`message ${seq} stands before a result`)
    for (const part of parts) {
      if (part.type === "tool_call") open.add(part.task_id)
      if (part.type === "tool_result" && !open.delete(part.task_id)) problems.push(`message ${seq} answers no call`)
    }
  })
  if (open.size > 0) problems.push(`calls have no result: ${Array.from(open).join(", ")}`)
  const legal = legalHistory(messages).flatMap((message): ReadonlyArray<MessagePart> => message.parts)
  const results = (parts: ReadonlyArray<MessagePart>) => parts.filter(({ type }) => type === "tool_result").length
  if (results(legal) !== results(messages.flatMap(({ parts }): ReadonlyArray<MessagePart> => parts))) {
    problems.push("the history has to be mended before a provider can get it")
  }
  return problems
}

/** A compaction cuts before a user's message, or between two steps of the plan that compacts. */
const cutsNoTurn = ({ commits }: Observed, { messages, session_id }: ObservedSession): ReadonlyArray<string> =>
  commits.flatMap(({ at, changes, plan_id, session_id: of }) =>
    of !== session_id
      ? []
      : changes.flatMap((change) => {
          if (change._tag !== "Compacted") return []
          const last = messages.findIndex(({ message_id }) => message_id === change.compaction.through)
          const next = messages[last + 1]
          const open = new Set<string>()
          for (const part of messages.slice(0, last + 1).flatMap(({ parts }): ReadonlyArray<MessagePart> => parts)) {
            if (part.type === "tool_call") open.add(part.task_id)
            if (part.type === "tool_result") open.delete(part.task_id)
          }
          const isTurn = next !== undefined && next.role !== "user" && next.plan_id !== plan_id
          return open.size === 0 && !isTurn
            ? []
            : [`a compaction at ${seconds(at)} cuts the turn of ${next?.plan_id ?? plan_id} in two`]
        })
  )

/** The summary knows all that was said in the messages that it covers. */
const summaryKnows = ({ messages, summary }: ObservedSession): ReadonlyArray<string> => {
  const covered = messages.filter(({ seq }) => seq <= summary.covered_seq)
  const facts = covered.flatMap(({ parts, role }) => (role === "user" ? Array.from(factsIn(textsOf(parts))) : []))
  const lost = lacking(facts, factsIn([summary.text ?? "", ...summary.priors].join("\n")))
  return lost === "" ? [] : [`the summary up to message ${summary.covered_seq} lacks ${lost}`]
}

const known = ({ messages, system }: Asked): ReadonlySet<string> =>
  factsIn([system, ...messages.flatMap((message) => (message.role === "user" ? [message.text] : []))].join("\n"))

/** The facts whose summary failed before: a prompt that does not fit is shortened by what has them. */
export const notSummarised = ({ attempts }: Observed, { order }: Moment): ReadonlySet<string> =>
  new Set(
    attempts.flatMap(({ asked, began, plan, result }) =>
      plan === "" && result !== "finished" && began.order < order ? [...factsIn(JSON.stringify(asked))] : []
    )
  )

/** A prompt with more of the window is made short. */
const longestShare = 0.6

/** Whether a summary would cost more than the plan or the day may spend: then none is made, and a mark stands for what came before. */
const mayNotSummarise = (observed: Observed, plan: ObservedPlan, by: Moment): boolean => {
  const { max_total_tokens = Infinity } = plan.budget
  const most = Math.min(max_total_tokens, tokensLeft(observed, plan, by).day)
  return isSpent(observed, plan, by) || most < longestShare * observed.config.contextWindow
}

/** What a plan's prompt says is what was there before it: the order of the history is that of the plans. */
const promptsAreSerial = (
  observed: Observed,
  { asked, began, plan: name, replica }: ObservedAttempt
): ReadonlyArray<string> => {
  const { plans, sessions } = observed
  const plan = plans.find((one) => one.name === name)
  const session = sessions.find(({ session_id }) => session_id === plan?.plan.session_id)
  if (plan === undefined || session === undefined) return []
  const { messages } = session
  const own = messages.findIndex(({ plan_id }) => plan_id === plan.plan.plan_id)
  const when = `the prompt of ${name} at ${seconds(began.at)}`
  if (own === -1) {
    // A process may die while it stores the question, and asks the provider already.
    return wasHindered(observed, replica, began.at - aftermath(observed), began.at + aftermath(observed))
      ? []
      : [`${when} is asked, but its question is not in the history`]
  }
  const factsOf = (some: typeof messages) =>
    some.flatMap(({ parts, role }) => (role === "user" ? [...factsIn(textsOf(parts))] : []))
  const facts = new Set(factsOf(messages.slice(0, own + 1)))
  const prompt = known(asked)
  const isMarked = asked.messages.some((message) => message.role === "user" && message.text.includes(leftOut))
  const excused = isMarked && mayNotSummarise(observed, plan, began) ? factsOf(messages.slice(0, own)) : []
  const lost = lacking(facts, new Set([...prompt, ...notSummarised(observed, began), ...excused]))
  const early = lacking(prompt, facts)
  const results = new Map(
    messages.flatMap(({ parts }) =>
      parts.flatMap((part) => (part.type === "tool_result" ? [[String(part.task_id), part.content] as const] : []))
    )
  )
  const unknown = asked.messages.flatMap((message) =>
    message.role === "tool" && message.content === unknownEffect && results.get(message.id) !== unknownEffect
      ? [`${when} lacks the result of call ${message.id}`]
      : []
  )
  return [
    ...(lost === "" ? [] : [`${when} lacks ${lost}`]),
    ...(early === "" ? [] : [`${when} knows ${early}, which comes later in the history`]),
    ...unknown,
    ...faults(asked, JSON.stringify(asked.messages)).map((fault) => `${when} is refused by a provider: ${fault}`)
  ]
}

/** Histories are legal for all three wires, equal to some serial order of their plans, and no fact of a summary is lost. */
export const histories = (observed: Observed): ReadonlyArray<string> => [
  ...observed.sessions.flatMap((session) =>
    [...isSerial(session), ...cutsNoTurn(observed, session), ...summaryKnows(session)].map(
      (what) => `session ${session.session_id}: ${what}`
    )
  ),
  ...observed.attempts.flatMap((attempt) => (attempt.plan === "" ? [] : promptsAreSerial(observed, attempt)))
]
