import { Effect } from "effect"
import type { FeedbackStore } from "../../store/FeedbackStore.ts"
import type { PlanFilter } from "../../store/PlanStore.ts"
import type { Memory } from "./Memory.ts"
import { findPlan } from "./MemoryInboxReads.ts"
import type { PlanRecord } from "./MemoryRecords.ts"

/** Whether what was said of the plan last is what the filter asks for. */
export const passesFeedback = ({ feedback: said }: PlanRecord, { feedback, label }: PlanFilter): boolean => {
  const last = said.at(-1)
  const sign = last === undefined ? "none" : last.score < 0 ? "negative" : last.score > 0 ? "positive" : undefined
  return (feedback === undefined || feedback === sign) && (label === undefined || last?.labels.includes(label) === true)
}

export const makeFeedbackStore = (memory: Memory): FeedbackStore["Service"] => ({
  give: (owner, given) =>
    Effect.map(findPlan(memory, given.plan_id, owner), (record) => {
      record.feedback = [...record.feedback.filter(({ caller }) => caller !== given.caller), given]
      const session = memory.sessions.get(record.plan.session_id)
      if (session !== undefined) memory.grow(session, given)
    }),
  list: (owner, id) => Effect.map(findPlan(memory, id, owner), ({ feedback }) => feedback.toReversed())
})
