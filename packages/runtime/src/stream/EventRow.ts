import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"

/** One event of a plan as a reader gets it. `payload` is the text of a JSON object, without `plan_id` and `session_id`. */
export interface PlanFrame {
  readonly seq: number
  readonly event: PlanEvent["event"]
  readonly payload: string
}

/**
 * Events as they are stored. A row holds the frames `seq` to `seq + count - 1`: one, or a run of deltas of one attempt, which
 * keeps the pieces, so that a replay yields the original frames. `payload` is the text of a JSON object.
 */
export interface EventRow {
  readonly seq: number
  readonly count: number
  readonly event: PlanEvent["event"]
  readonly payload: string
}
