import type { Message } from "@bowline/domain/session/Message"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Struct } from "effect"
import type { EventRow } from "../../store/EventRow.ts"
import type { AbandonedPlan, Guard } from "../../store/PlanStore.ts"
import type { PlanRecord, SessionRecord } from "./MemoryRecords.ts"

/** The calls of these messages that have no result in them, in their order. */
const unanswered = (messages: Iterable<Pick<Message, "parts">>): ReadonlyArray<TaskId> => {
  const calls = new Set<TaskId>()
  for (const { parts } of messages) {
    for (const part of parts) {
      if (part.type === "tool_call") calls.add(part.task_id)
      if (part.type === "tool_result") calls.delete(part.task_id)
    }
  }
  return Array.from(calls)
}

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
