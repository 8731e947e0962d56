import { type Entry, legalHistory } from "@bowline/runtime/unstable/provider/LegalHistory"
import type { MessagePart } from "@bowline/domain/session/Message"
import type { RawFrame } from "./Follower.ts"
import type { Arrival } from "./KillScript.ts"

/** What is known of a plan in the end. */
export interface ObservedPlan {
  readonly name: string
  readonly plan_id: string
  readonly state: string
  /** The code of its error, and why it was aborted. */
  readonly error: string | null
  /** What its provider says in each step; the last one is its answer. */
  readonly says: ReadonlyArray<string>
  /** Whether a process died that had it. */
  readonly hasDied: boolean
  /** How often it was gone on with: twice at most. */
  readonly resumptions: number
  /** What each of its readers has seen, in the order in which it came. */
  readonly seen: ReadonlyArray<ReadonlyArray<RawFrame>>
  /** All of its frames, from the first one. */
  readonly replay: ReadonlyArray<RawFrame>
}

export interface ObservedMessage extends Entry {
  readonly seq: number
  readonly plan_id: string
}

const show = ({ seq, event, data }: RawFrame) => `${seq} ${event} ${data}`

const fieldOf = ({ data }: RawFrame, name: string): unknown => {
  const payload: unknown = JSON.parse(data)
  return typeof payload === "object" && payload !== null
    ? Object.entries(payload).find(([key]) => key === name)?.[1]
    : undefined
}
const textOf = (frame: RawFrame, name: string) => String(fieldOf(frame, name))

/** Every frame that was seen is there, the same to the byte, and was seen once. */
export const seenIsStored = ({ replay, seen }: ObservedPlan): ReadonlyArray<string> => {
  const stored = new Map(replay.map((frame) => [frame.seq, show(frame)]))
  return seen.flatMap((frames) =>
    frames.flatMap((frame, index) => [
      ...(frame.seq === index + 1 ? [] : [`a reader got seq ${frame.seq} as its frame ${index + 1}`]),
      ...(stored.get(frame.seq) === show(frame)
        ? []
        : [`seen: ${show(frame)}; stored: ${stored.get(frame.seq) ?? "nothing"}`])
    ])
  )
}

/** One beginning, one end, no gap, and every task has its end in between. */
export const streamIsWhole = ({ replay }: ObservedPlan): ReadonlyArray<string> => {
  const problems = replay.flatMap((frame, index) =>
    frame.seq === index + 1 ? [] : [`seq ${frame.seq} stands at place ${index + 1}`]
  )
  const places = (...events: ReadonlyArray<string>) =>
    replay.flatMap(({ event }, index) => (events.includes(event) ? [index] : []))
  const stand = (what: string, found: ReadonlyArray<number>, place: number) => {
    if (found.length !== 1 || found[0] !== place) problems.push(`${what} at ${found.join(", ")} of ${replay.length}`)
  }
  stand("session", places("session"), 0)
  stand("final or error", places("final", "error"), replay.length - 2)
  stand("done", places("done"), replay.length - 1)
  const started = new Map<string, boolean>()
  for (const frame of replay) {
    if (!frame.event.startsWith("task.")) continue
    const id = textOf(frame, "task_id")
    const isOpen = started.get(id)
    if (frame.event === "task.started" ? isOpen !== undefined : isOpen !== true) {
      problems.push(`${frame.event} of a task that is ${isOpen === undefined ? "unknown" : isOpen ? "open" : "over"}`)
    }
    started.set(id, frame.event !== "task.finished")
  }
  for (const [id, isOpen] of started) if (isOpen) problems.push(`task ${id} has no end`)
  return problems
}

/** The text of a step, without what was retracted. */
const shownText = (replay: ReadonlyArray<RawFrame>, step: number): string => {
  const attempts = new Map<string, string>()
  for (const frame of replay) {
    if (!frame.event.startsWith("text.") || fieldOf(frame, "step") !== step) continue
    const attempt = textOf(frame, "attempt")
    if (frame.event === "text.retract") attempts.delete(attempt)
    else attempts.set(attempt, (attempts.get(attempt) ?? "") + textOf(frame, "delta"))
  }
  return Array.from(attempts.values()).join("")
}

/** Whether a call was open of which nobody could know what became: not known to its peer by an id, and not to be made again. */
const hasUnknownEffect = (replay: ReadonlyArray<RawFrame>): boolean => {
  const ended = replay.filter((frame) => frame.event === "task.finished" && fieldOf(frame, "state") === "interrupted")
  return ended.some((frame) => {
    const isStart = (other: RawFrame) =>
      other.event === "task.started" && fieldOf(other, "task_id") === fieldOf(frame, "task_id")
    const start = replay.find(isStart)
    return fieldOf(frame, "remote_task_id") === null && start !== undefined && fieldOf(start, "skill") !== "again"
  })
}

/** It has answered as its provider did; or a death has interrupted it, in a call of which nobody knows what became. */
export const endIsTrue = (
  { error, hasDied, replay, resumptions, says, state }: ObservedPlan,
  arrivals: ReadonlyArray<Arrival>
): ReadonlyArray<string> => {
  const end = replay.findLast(({ event }) => event === "final" || event === "error")
  if (state === "completed") {
    const text = end?.event === "final" ? textOf(end, "text") : "none"
    const answer = says.at(-1) ?? ""
    const shown = says.map((_, index) => shownText(replay, index + 1))
    // A call that was about to be made when its process died has failed, where its peer says that it never came.
    const came = new Set(arrivals.map(({ messageId }) => messageId))
    const mayHaveFailed = (frame: RawFrame) =>
      hasDied && fieldOf(frame, "state") === "failed" && !came.has(textOf(frame, "task_id"))
    const unfinished = replay.filter(
      (frame) => frame.event === "task.finished" && fieldOf(frame, "state") !== "completed" && !mayHaveFailed(frame)
    )
    return [
      ...(text === answer ? [] : [`the answer is ${text}, not ${answer}`]),
      ...says.flatMap((said, index) =>
        shown[index] === said ? [] : [`step ${index + 1} has shown ${String(shown[index])}, not ${said}`]
      ),
      ...unfinished.map((frame) => `completed with ${show(frame)}`)
    ]
  }
  if (state !== "failed" || error !== "interrupted") return [`${state}: ${String(error)}`]
  return [
    ...(end?.event === "error" && fieldOf(end, "code") === error ? [] : [`${error}, but the stream says otherwise`]),
    ...(hasDied ? [] : ["interrupted, though no process of it died"]),
    ...(hasUnknownEffect(replay) || resumptions >= 2 ? [] : ["interrupted, though it could be gone on with"])
  ]
}

const pairs = (messages: ReadonlyArray<Entry>) => {
  const parts = messages.flatMap((message): ReadonlyArray<MessagePart> => message.parts)
  const of = (type: "tool_call" | "tool_result") => parts.flatMap((part) => (part.type === type ? [part.task_id] : []))
  return JSON.stringify([of("tool_call"), of("tool_result").toSorted()])
}

/** In order, one plan behind the other, each call with its one result directly behind: nothing has to be mended. */
export const historyIsLegal = (messages: ReadonlyArray<ObservedMessage>): ReadonlyArray<string> => {
  const problems = pairs(messages) === pairs(legalHistory(messages)) ? [] : ["calls and results are no pairs"]
  const over = new Set<string>()
  const open = new Set<string>()
  messages.forEach(({ parts, plan_id, role, seq }, index) => {
    const before = messages[index - 1]
    if (before !== undefined && seq <= before.seq) problems.push(`seq ${seq} stands behind ${before.seq}`)
    if (before !== undefined && before.plan_id !== plan_id) over.add(before.plan_id)
    if (over.has(plan_id)) problems.push(`message ${seq} stands behind those of another plan`)
    if (role !== "tool" && open.size > 0) problems.push(`message ${seq} stands before a result`)
    for (const part of parts) {
      if (part.type === "tool_call") open.add(part.task_id)
      if (part.type === "tool_result" && !open.delete(part.task_id)) problems.push(`message ${seq} answers no call`)
    }
  })
  if (open.size > 0) problems.push("the last call has no result")
  return problems
}

/** No message twice, and no call in two messages, but those that may be made again: with the same id. */
export const callsAreOnce = (arrivals: ReadonlyArray<Arrival>): ReadonlyArray<string> => {
  const byKey = new Map<string, Arrival>()
  const byId = new Map<string, Arrival>()
  return arrivals.flatMap((arrival) => {
    const { isIdempotent, key, messageId } = arrival
    const [sameKey, sameId] = [byKey.get(key), byId.get(messageId)]
    byKey.set(key, arrival)
    byId.set(messageId, arrival)
    if (sameId !== undefined && sameId.key !== key)
      return [`call ${key} came as ${messageId}, as did call ${sameId.key}`]
    if (sameKey === undefined) return []
    if (messageId !== sameKey.messageId) return [`call ${key} came as ${sameKey.messageId} and as ${messageId}`]
    return isIdempotent ? [] : [`call ${key} came twice as ${messageId}`]
  })
}

/** All that is wrong with a plan. */
export const planProblems = (plan: ObservedPlan, arrivals: ReadonlyArray<Arrival>): ReadonlyArray<string> =>
  [...seenIsStored(plan), ...streamIsWhole(plan), ...endIsTrue(plan, arrivals)].map(
    (problem) => `plan ${plan.name} (${plan.plan_id}): ${problem}`
  )
