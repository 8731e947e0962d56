import { Schema } from "effect"
import { Stage } from "../plan/Outcome.ts"
import { PlanId, PlanState } from "../plan/Plan.ts"
import { Session } from "./Session.ts"

/** A session in a list: the first 200 characters of the question that began it, and how far its newest plan is. Both are null where it has no plan. */
export const ListedSession = Session.mapFields((fields) => ({
  ...fields,
  first_question: Schema.NullOr(Schema.String),
  last_plan: Schema.NullOr(Schema.Struct({ plan_id: PlanId, state: PlanState, stage: Schema.NullOr(Stage) }))
}))
export type ListedSession = typeof ListedSession.Type
