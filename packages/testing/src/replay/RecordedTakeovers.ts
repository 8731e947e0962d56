import type { PlanRecording, RecordedFrame } from "./RecordFile.ts"

/** What one process has run of a plan. The next one has taken the rest over. */
export interface Segment {
  /** The places of its frames among those that are compared. */
  readonly from: number
  readonly to: number
  /** The places of its attempts, and of what it has found of its caller's budget, and of credentials. */
  readonly attempts: { readonly from: number; readonly to: number }
  readonly allowances: number
  readonly blocked: { readonly from: number; readonly to: number }
  /** How many messages of the plan were stored when its process left it. */
  readonly messages: number
  /** Whether its process does not go on with the plan, but ends it. */
  readonly endsOnly: boolean
  /** The model that its process found in the row of the plan; undefined if the record does not say. */
  readonly model: string | undefined
}

/** A plan that runs again alone waits for no other one. */
export const isComparable = ({ event }: { readonly event: string }): boolean => event !== "queued"

const ofInbox = new Set(["inbox.accepted", "inbox.moved", "queued"])

/** How the process ends what it cannot go on with. */
const ofEnd = ({ data, event }: RecordedFrame): boolean =>
  event === "task.finished" && JSON.stringify(data).includes('"The process that ran the call is gone"')

/** What a process that ends a plan puts behind its messages. */
const isLeft = ({ parts }: PlanRecording["messages"][number]): boolean =>
  parts.every((part) => (part.type === "tool_result" ? part.state === "interrupted" : "partial" in part))

/** The messages that the plan has added, in order. Those of a plan that it is a fork of have come with it. */
export const ownMessages = ({ begins: [begin], messages, plan }: PlanRecording) => {
  const told = messages.findIndex(({ message_id }) => message_id === begin?.history?.last)
  return messages.slice(told + 1).filter(({ plan_id }) => plan_id === plan.plan_id)
}

/** The calls of these messages in the order in which the model made them. */
export const callsIn = (messages: ReturnType<typeof ownMessages>): ReadonlyArray<string> =>
  messages
    .filter(({ role }) => role === "assistant")
    .flatMap(({ parts }) => parts.flatMap((part) => (part.type === "tool_call" ? [part.task_id] : [])))

/** What stands in front of what the next process has done. */
interface Left {
  readonly frames: number
  readonly attempts: number
  readonly allowances: number
  readonly blocked: number
  readonly messages: number
  /** The model that the next process found. */
  readonly model?: string | undefined
}

/** Of a plan whose process has died, where its end begins, in frames, and how many of its messages were there. */
const endOf = (recording: PlanRecording) => {
  const { attempts, allowances, blocked, frames, plan } = recording
  if (plan.error?.code !== "interrupted") return []
  const place = frames.findIndex(({ event }) => event === "error")
  const own = ownMessages(recording)
  const messages = own.findLastIndex((message) => !isLeft(message)) + 1
  const first = frames.findLastIndex((frame, index) => index < place && !ofEnd(frame)) + 1
  return [
    { frames: first, attempts: attempts.length, allowances: allowances.length, blocked: blocked.length, messages }
  ]
}

/** The processes that the plan had, one after the other. */
export const segmentsOf = (recording: PlanRecording): ReadonlyArray<Segment> => {
  const { begins, frames, messages, takeovers } = recording
  const own = ownMessages(recording)
  const ends: ReadonlyArray<Left> = endOf(recording)
  const left: ReadonlyArray<Left> = [
    ...takeovers.map(({ begin, ...places }) => {
      const { history, model } = begins[begin] ?? {}
      const last = history?.last
      const found = messages.slice(0, messages.findIndex(({ message_id }) => message_id === last) + 1)
      return { ...places, model, messages: own.filter((message) => found.includes(message)).length }
    }),
    ...ends
  ]
  const start = { to: 0, attempts: { to: 0 }, allowances: 0, blocked: { to: 0 } }
  const segments: Array<Segment> = []
  for (const next of [...left, undefined]) {
    const before = segments.at(-1) ?? start
    // What was said while no process had the plan is told by the next one, in front of its record.
    const isTold = next !== undefined && !ends.includes(next)
    const last = isTold ? frames.slice(0, next.frames).findLastIndex(({ event }) => !ofInbox.has(event)) : -1
    // An attempt is stored with the frame behind it, by the process that has made it.
    const stored = recording.attempts[(next?.attempts ?? 0) - 1]?.place ?? -1
    const own = isTold ? Math.max(last, stored) + 1 : next?.frames
    segments.push({
      from: before.to,
      to: next === undefined ? Infinity : Math.max(before.to, frames.slice(0, own).filter(isComparable).length),
      attempts: { from: before.attempts.to, to: next?.attempts ?? Infinity },
      allowances: left[segments.length - 1]?.allowances ?? 0,
      blocked: { from: before.blocked.to, to: next?.blocked ?? Infinity },
      messages: next?.messages ?? Infinity,
      model: left[segments.length - 1]?.model,
      endsOnly: next === undefined && ends.length > 0
    })
  }
  return segments
}
