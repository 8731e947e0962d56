import { isSettled } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { isDelta } from "@bowline/runtime/unstable/store/EventRow"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { Option, Schema } from "effect"
import type { Observed, ObservedPlan } from "../scenario/Observed.ts"
import { eventsOf, named, seconds } from "./PlanEnd.ts"

/** What is told of these events, a line for each: the pieces of a text that follow one another are one. */
const linesOf = (events: Iterable<PlanEvent>): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let before = ""
  for (const event of events) {
    if (!PlanGist.kept.has(event.event)) continue
    const piece = isDelta(event) ? `${event.event} ${event.data.step} ${event.data.attempt} ` : ""
    if (isDelta(event) && piece === before) lines.push(`${lines.pop()}${event.data.delta}`)
    else lines.push(isDelta(event) ? `${piece}${event.data.delta}` : JSON.stringify([event.event, event.data]))
    before = piece
  }
  return lines
}

/** The calls that wait for a decision. */
const waitingIn = (events: Iterable<PlanEvent>): string => {
  const waiting = new Set<string>()
  for (const { data, event } of events) {
    if (event === "approval.requested") waiting.add(data.task_id)
    if (event === "approval.resolved") waiting.delete(data.task_id)
  }
  return Array.from(waiting).join()
}

const decodeJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))
const decode = (text: string, answer: string | undefined): PlanGist.PlanGist | undefined =>
  Option.getOrUndefined(Option.flatMap(decodeJson(text), (json) => PlanGist.decode(json, answer)))

/** What is not as the events up to the gist's last one tell it. */
const untrueIn = (gist: PlanGist.PlanGist, plan: ObservedPlan): ReadonlyArray<string> => {
  const events = eventsOf(plan)
  const spokeAt = plan.frames[events.slice(0, gist.seq).findIndex(isDelta)]?.at
  if (gist.firstTokenAt !== spokeAt) return [`tells ${gist.firstTokenAt} as the time of the first word, not ${spokeAt}`]
  const [told, stored] = [linesOf(gist.events), linesOf(events.slice(0, gist.seq))]
  const at = stored.findIndex((line, index) => line !== told[index])
  if (at < 0 && told.length === stored.length) return []
  return [
    `tells ${told[at < 0 ? stored.length : at]} up to seq ${gist.seq}, its events ${stored[at] ?? "nothing more"}`
  ]
}

/**
 * What each write puts on the plan's row is what its events tell up to then; while a call waits the row says so, and no longer. Where it could
 * not be read at a take-over, the row says that it is not known.
 */
const rowsAreTrue = (observed: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const events = eventsOf(plan)
  const problems: Array<string> = []
  /** As the row has it; null if it is not known. */
  let row: PlanGist.PlanGist | null | undefined
  for (const { at, changes, events: written, plan_id } of observed.commits) {
    if (plan_id !== plan.plan.plan_id) continue
    for (const change of changes) {
      if (change._tag !== "Summed") continue
      row = change.gist === null ? null : decode(change.gist, PlanGist.answerOf(changes))
      if (row === undefined) problems.push(`at ${seconds(at)} its row cannot be read`)
      if (row) problems.push(...untrueIn(row, plan).map((what) => `at ${seconds(at)} its row ${what}`))
    }
    if (written === undefined || row === null) continue
    const [waits, told] = [waitingIn(events.slice(0, written.last)), waitingIn(row?.events ?? [])]
    if (waits !== told) problems.push(`at ${seconds(at)} [${waits}] waits, and its row tells [${told}]`)
  }
  return problems
}

/** In the end the row tells the whole plan. */
const endIsTold = ({ takeOvers }: Observed, plan: ObservedPlan): ReadonlyArray<string> => {
  const events = eventsOf(plan)
  const gist = Option.getOrUndefined(PlanGist.decode(plan.gist, plan.plan.final?.text))
  const isOver = isSettled(plan.plan)
  if (gist === undefined) {
    const isKnown = isOver && !takeOvers.some(({ plan_id }) => plan_id === plan.plan.plan_id)
    return isKnown ? ["in the end its row does not tell what it has come to"] : []
  }
  const isWhole = !isOver || (gist.isEnded && gist.seq === events.length)
  return [
    ...untrueIn(gist, plan).map((what) => `in the end its row ${what}`),
    ...(isWhole ? [] : [`in the end its row tells it up to seq ${gist.seq} of ${events.length}`])
  ]
}

/** What a plan has come to, as its row tells it, is what its events tell. */
export const gists = (observed: Observed): ReadonlyArray<string> =>
  observed.plans.flatMap((plan) =>
    [...rowsAreTrue(observed, plan), ...endIsTold(observed, plan)].map((what) => `${named(plan)}: ${what}`)
  )
