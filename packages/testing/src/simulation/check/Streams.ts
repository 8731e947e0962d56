import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import type { Observed, ObservedPlan, ObservedReader } from "../scenario/Observed.ts"
import { eventsOf, named, seconds } from "./PlanEnd.ts"

const show = ({ event, payload, seq }: PlanFrame): string => `${seq} ${event} ${payload}`

/** From where to where the orders of the writes that stored a plan's frames reach: the order by `seq`. */
const storedOrders = ({ commits }: Observed, { created, plan }: ObservedPlan): ReadonlyMap<number, number> => {
  const orders = new Map([[1, created.order]])
  for (const { events, order, plan_id } of commits) {
    if (plan_id !== plan.plan_id || events === undefined) continue
    for (let seq = events.first; seq <= events.last; seq++) if (!orders.has(seq)) orders.set(seq, order)
  }
  return orders
}

/** What a reader saw is stored, was stored when it saw it, and came in order, once, and without a gap. */
const seenIsStored = (
  { after, frames, reader, replica }: ObservedReader,
  stored: ReadonlyMap<number, PlanFrame>,
  orders: ReadonlyMap<number, number>
): ReadonlyArray<string> =>
  frames.flatMap(({ at, frame, order }, index) => {
    const problems: Array<string> = []
    const { seq } = frame
    const [who, when] = [`${reader} at ${replica}`, seconds(at)]
    if (seq !== after + 1 + index) problems.push(`${who} gets seq ${seq} at ${when}, not ${after + 1 + index}`)
    const same = stored.get(seq)
    if (same === undefined || show(same) !== show(frame)) {
      problems.push(`${who} gets ${show(frame)} at ${when}; stored is ${same === undefined ? "nothing" : show(same)}`)
    } else if ((orders.get(seq) ?? Infinity) > order) {
      problems.push(`${who} gets ${show(frame)} at ${when}, before it is stored`)
    }
    return problems
  })

/** The text of a step, without what was retracted. */
const shownText = (events: ReadonlyArray<PlanEvent>, step: number): string => {
  const attempts = new Map<number, string>()
  for (const { data, event } of events) {
    if (event === "text.retract" && data.step === step) attempts.delete(data.attempt)
    if (event !== "text.delta" || data.step !== step) continue
    attempts.set(data.attempt, (attempts.get(data.attempt) ?? "") + data.delta)
  }
  return Array.from(attempts.values()).join("")
}

const textIsFinal = (plan: ObservedPlan): ReadonlyArray<string> => {
  // No model says it: it is the result of a call.
  if (plan.request.call !== undefined) return []
  const events = eventsOf(plan)
  const steps = events.flatMap(({ data, event }) => (event === "step" ? [data.step] : []))
  const shown = shownText(events, steps.at(-1) ?? 0)
  return events.flatMap(({ data, event }) =>
    event !== "final" || data.text === shown ? [] : [`the answer is "${data.text}", but the stream shows "${shown}"`]
  )
}

/** What a reader saw is a prefix of what is stored, no seq twice, none missing; assembled text with retracts equals `final.text`. */
export const streams = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) => {
    const stored = new Map(plan.frames.map((frame) => [frame.seq, frame]))
    const orders = storedOrders(observed, plan)
    const gaps = plan.frames.flatMap(({ seq }, index) =>
      seq === index + 1 ? [] : [`seq ${seq} is stored as frame ${index + 1}`]
    )
    const back = plan.frames.flatMap(({ at, seq }, index) => {
      const before = plan.frames[index - 1]?.at ?? ""
      return at >= before ? [] : [`seq ${seq} has the time ${at}, the one before it ${before}`]
    })
    const readers = observed.readers.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
    return [...gaps, ...back, ...textIsFinal(plan), ...readers.flatMap((one) => seenIsStored(one, stored, orders))].map(
      (what) => `${named(plan)}: ${what}`
    )
  })
