import { Schema } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { PlanId } from "./Plan.ts"

/** A word by which plans are found again: 1 to 64 characters, none of them a control character. */
export const FeedbackLabel = Schema.String.check(
  Schema.isPattern(/^[^\p{Cc}\p{Cs}]{1,64}$/u, { message: "Expected 1 to 64 characters without control characters" })
)

/** What somebody says of a plan: from -1 (bad) to 1 (good), why, and labels. */
export const GivenFeedback = Schema.Struct({
  score: Schema.Finite.check(Schema.isBetween({ minimum: -1, maximum: 1 })),
  comment: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(10_000))),
  labels: Schema.optionalKey(Schema.Array(FeedbackLabel).check(Schema.isMaxLength(16)))
})
export type GivenFeedback = typeof GivenFeedback.Type

/** What a caller has said of a plan last. `at` is ISO 8601 in UTC. */
export const Feedback = Schema.Struct({
  plan_id: PlanId,
  caller: CallerName,
  score: Schema.Finite,
  comment: Schema.NullOr(Schema.String),
  labels: Schema.Array(Schema.String),
  at: Schema.String
})
export type Feedback = typeof Feedback.Type

/** What the latest feedback of a plan is, whoever gave it: a score below 0, above 0, or there is none. A score of 0 is neither. */
export const FeedbackSign = Schema.Literals(["negative", "positive", "none"])
export type FeedbackSign = typeof FeedbackSign.Type
