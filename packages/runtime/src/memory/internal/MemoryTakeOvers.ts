import { Struct } from "effect"
import type { EventRow } from "../../store/EventRow.ts"
import { type AbandonedPlan, type Guard, unanswered } from "../../store/PlanStore.ts"
import type { PlanRecord, SessionRecord } from "./MemoryRecords.ts"

/** Of a plan's events those from its last step on. */
const tailOf = (events: ReadonlyArray<EventRow>): ReadonlyArray<EventRow> => {
  const step = events.findLastIndex(({ event }) => event === "step")
  return step === -1 ? [...events] : events.slice(step)
}

/** A plan that was just taken over, for the replica that has it now. */
export const abandoned = (
  record: PlanRecord,
  { messages }: SessionRecord,
  guard: Guard,
  now: number
): AbandonedPlan => ({
  plan: record.plan,
  owner: record.owner,
  guard,
  request: record.request,
  preferences: record.preferences,
  route: record.route,
  leftMs: record.endsAt - now,
  deaths: record.deaths,
  tail: tailOf(record.events),
  tasks: Array.from(record.tasks.values(), Struct.omit(["preset", "reverted"])),
  unanswered: unanswered(messages.filter(({ plan_id }) => plan_id === record.plan.plan_id))
})
