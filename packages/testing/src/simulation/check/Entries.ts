import { isSettled } from "@bowline/domain/plan/Plan"
import type { Entry } from "@bowline/domain/plan/Inbox"
import type { Observed, ObservedGiven, ObservedPlan, ObservedSaid } from "../scenario/Observed.ts"
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
  if (type !== "text" || text === null) return problems
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

/** What a caller has given the calls of its plan, by call. */
const givenTo = ({ given }: Observed, { plan }: ObservedPlan, type: ObservedGiven["type"]) =>
  Map.groupBy(
    given.filter((one) => one.plan_id === plan.plan_id && one.type === type),
    ({ task_id }) => task_id
  )

/** A result that was accepted is the end of its call, and the only one; or the plan has ended before, and names it as untaken. */
const areGivenOnce = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const ends = observed.commits.flatMap(({ changes, plan_id }) =>
    plan_id !== plan.plan.plan_id ? [] : changes.filter((change) => change._tag === "TaskFinished")
  )
  return Array.from(givenTo(observed, plan, "result")).flatMap(([task, given]) => {
    const told = given.filter(({ answer }) => answer === "accepted")
    const stored = given.filter(({ accepted }) => accepted !== undefined)
    const entries = plan.inbox.filter(({ task_id, type }) => type === "result" && task_id === task)
    const end = ends.find(({ task_id }) => task_id === task)
    const isTaken = stored.some(
      ({ content, isError }) => end?.state === (isError ? "failed" : "completed") && content === end.result
    )
    const what = `the result of call ${task}`
    return [
      ...(told.length > 1 ? [`${what} was accepted ${told.length} times`] : []),
      ...(entries.length !== stored.length
        ? [`${what} is ${entries.length} entries, of ${stored.length} accepted`]
        : []),
      ...(told.length > 0 && stored.length === 0 ? [`${what} was accepted, and is nowhere`] : []),
      ...entries.flatMap(({ state }) =>
        (state === "taken") === isTaken ? [] : [`${what} is ${state}, and the call ended as ${end?.state ?? "nothing"}`]
      )
    ]
  })
}

/** An answer that was accepted reaches the peer that has asked, and no other: once, or as the same message again where nobody knows whether it came. */
const areAnsweredOnce = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> =>
  Array.from(givenTo(observed, plan, "answer")).flatMap(([task, given]) => {
    const heard = observed.answers.filter(({ task_id }) => task_id === task)
    const stored = given.filter(({ accepted }) => accepted !== undefined)
    const entries = plan.inbox.filter(({ task_id, type }) => type === "answer" && task_id === task)
    const messages = Map.groupBy(heard, ({ content }) => content)
    const what = `the answers to call ${task}`
    return [
      ...(entries.length !== stored.length
        ? [`${what} are ${entries.length} entries, of ${stored.length} accepted`]
        : []),
      ...heard.flatMap(({ content, order }) =>
        stored.some((one) => one.content === content && (one.accepted?.order ?? Infinity) < order)
          ? []
          : [`the peer of call ${task} hears "${content}", which nobody has accepted`]
      ),
      ...Array.from(messages.values()).flatMap((same) =>
        new Set(same.map(({ message_id }) => message_id)).size > 1 ? [`${what} come twice`] : []
      ),
      ...(entries.filter(({ state }) => state === "taken").length < messages.size
        ? [`${what} reach the peer, and are not taken`]
        : [])
    ]
  })

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
    [
      ...plan.inbox.flatMap((entry) => isInOnePlace(observed, plan, entry)),
      ...isInOrder(observed, plan),
      ...areGivenOnce(observed, plan),
      ...areAnsweredOnce(observed, plan)
    ].map((what) => `${named(plan)}: ${what}`)
  ),
  ...observed.said.flatMap((said) => isAsTold(observed, said))
]
