import { isSettled } from "@bowline/domain/plan/Plan"
import type { Entry } from "@bowline/domain/plan/Inbox"
import type { Observed, ObservedPlan, ObservedSaid } from "../scenario/Observed.ts"
import { eventsOf, named } from "./PlanEnd.ts"

/** A text of a caller in the history: whose message it is. */
interface Said {
  readonly plan_id: string
  readonly text: string
}

/** All messages of users, in the order of each session. */
const saidOf = ({ sessions }: Observed): ReadonlyArray<Said> =>
  sessions.flatMap(({ messages }) =>
    messages.flatMap(({ parts, plan_id, role }) =>
      role === "user" ? parts.flatMap((part) => (part.type === "text" ? [{ plan_id, text: part.text }] : [])) : []
    )
  )

const has = (text: string, entry: string): boolean => text.split("\n\n").includes(entry)

/** The entries that a plan leaves, by its last frame: those that have moved with their plans, and those that nobody takes. */
const leftOf = (plan: ObservedPlan) => {
  const end = eventsOf(plan).find(({ event }) => event === "final" || event === "error")
  if (end?.event === "final") {
    return {
      moved: new Map(end.data.moved?.map(({ entry_id, plan_id }) => [entry_id, plan_id])),
      untaken: new Set(end.data.untaken)
    }
  }
  return { moved: new Map<string, string>(), untaken: new Set(end?.event === "error" ? end.data.untaken : []) }
}

/** An entry is in one place in the end, and its plan says in which one. */
const isInOnePlace = (observed: Observed, plan: ObservedPlan, entry: Entry): ReadonlyArray<string> => {
  const { entry_id, moved_to, state, step, text, type } = entry
  const { moved, untaken } = leftOf(plan)
  const what = `entry ${entry_id} (${text ?? type})`
  const problems: Array<string> = []
  if (state === "accepted" && isSettled(plan.plan)) problems.push(`${what} is accepted still`)
  if (untaken.has(entry_id) !== (state === "untaken"))
    problems.push(`${what} is ${state}, and its last frame says otherwise`)
  if (text === null) return problems
  const places = saidOf(observed).filter((message) => has(message.text, text))
  const events = eventsOf(plan)
  const taken = events.flatMap((event) =>
    event.event === "inbox.taken" && event.data.entry_id === entry_id ? [event.data.step] : []
  )
  const accepted = events.filter((event) => event.event === "inbox.accepted" && event.data.entry_id === entry_id)
  if (accepted.length > 1) problems.push(`${what} is told ${accepted.length} times`)
  const expected = state === "taken" ? [step] : []
  if (taken.join() !== expected.join())
    problems.push(`${what} is ${state} in step ${step}, and its stream tells steps [${taken.join()}]`)
  const own = places.filter(({ plan_id }) => plan_id === plan.plan.plan_id)
  switch (state) {
    case "taken":
      if (own.length !== 1 || places.length !== 1) problems.push(`${what} is taken, and in ${places.length} messages`)
      break
    case "moved": {
      const to = observed.plans.find((other) => other.plan.plan_id === moved_to)
      if (to === undefined || !has(to.request.question, text))
        problems.push(`${what} has moved to a plan that does not ask it`)
      if (moved.size > 0 && moved.get(entry_id) !== undefined && moved.get(entry_id) !== moved_to) {
        problems.push(`${what} has moved to ${moved_to}, and its plan says to ${moved.get(entry_id)}`)
      }
      if (places.some(({ plan_id }) => plan_id !== moved_to) || places.length > 1) {
        problems.push(`${what} has moved, and is in ${places.length} messages`)
      }
      break
    }
    default:
      if (places.length > 0) problems.push(`${what} is ${state}, and in ${places.length} messages`)
  }
  return problems
}

/** Texts are taken in the order in which they were accepted. */
const isInOrder = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const taken = plan.inbox.flatMap(({ state, text }) => (state === "taken" && text !== null ? [text] : []))
  const said = saidOf(observed).flatMap(({ plan_id, text }) =>
    plan_id === plan.plan.plan_id && taken.includes(text) ? [text] : []
  )
  return new Set(said).size === said.length && said.join() !== taken.join()
    ? [`takes ${said.join(", ")}, which came as ${taken.join(", ")}`]
    : []
}

/** What a caller was told of a text is true. */
const isAsTold = (observed: Observed, said: ObservedSaid): ReadonlyArray<string> => {
  const plan = observed.plans.find((one) => one.plan.plan_id === said.plan_id)
  // Its session was deleted, or it is another caller's.
  if (plan === undefined) return []
  const entries = plan.inbox.filter(({ text }) => text === said.text)
  const what = `${named(plan)}: "${said.text}"`
  if (entries.length > 1) return [`${what} is ${entries.length} entries`]
  const [entry] = entries
  if (said.answer === "accepted" && entry === undefined) return [`${what} was accepted, and is nowhere`]
  if (said.answer === "refused" && entry !== undefined) return [`${what} was refused, and is ${entry.state}`]
  if (entry === undefined && saidOf(observed).some(({ text }) => has(text, said.text))) {
    return [`${what} is no entry, and somebody has heard it`]
  }
  const isAway = said.answer === "accepted" && said.taker !== said.plan_id
  if (isAway && entry?.moved_to !== said.taker)
    return [`${what} was said to have moved to ${said.taker}, and has to ${entry?.moved_to}`]
  return entry?.state === "moved" && said.else === "reject"
    ? [`${what} has moved, though its caller did not want that`]
    : []
}

/**
 * What was accepted is taken once, in order, or has moved once, or its plan names it as untaken; what was refused is nowhere.
 */
export const entries = (observed: Observed): ReadonlyArray<string> => [
  ...observed.plans.flatMap((plan) =>
    [...plan.inbox.flatMap((entry) => isInOnePlace(observed, plan, entry)), ...isInOrder(observed, plan)].map(
      (what) => `${named(plan)}: ${what}`
    )
  ),
  ...observed.said.flatMap((said) => isAsTold(observed, said))
]
