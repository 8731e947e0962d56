import { Schema } from "effect"
import { PlanId } from "../plan/Plan.ts"
import { TaskId } from "./TaskState.ts"

/** The id of an effect: that of the call that has it. */
export const EffectId = Schema.String.check(Schema.isPattern(/^effect_[0-9a-f-]{36}$/u))

/**
 * An effect that a call has claimed: it runs, is done, was not done, or nobody knows. Times are ISO 8601 in UTC; it is kept until `expires_at`.
 */
export const EffectState = Schema.Struct({
  effect_id: Schema.String,
  tool: Schema.String,
  state: Schema.Literals(["running", "done", "none", "unknown"]),
  plan_id: PlanId,
  task_id: TaskId,
  claimed_at: Schema.String,
  expires_at: Schema.String
})
export type EffectState = typeof EffectState.Type
