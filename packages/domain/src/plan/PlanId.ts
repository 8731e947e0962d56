import { Schema } from "effect"

/** `plan_` and a UUID. */
export const PlanId = Schema.String.check(Schema.isPattern(/^plan_[0-9a-f-]{36}$/u)).pipe(Schema.brand("PlanId"))
export type PlanId = typeof PlanId.Type
