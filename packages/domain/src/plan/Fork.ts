import { Schema } from "effect"
import { GivenQuestion } from "../file/QuestionPart.ts"
import { ForkTools, GivenPreferences } from "./PlanRequest.ts"

/**
 * How a plan is run again from a step on. What it does not say is as it was. `step` is the last one unless it is given, and `tools` is `recorded`. `question` stands
 * in place of the question, `instructions` in place of those of the request. `model` is short for that preference.
 */
export const GivenFork = Schema.Struct({
  step: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  question: Schema.optionalKey(GivenQuestion),
  model: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 256))),
  preferences: Schema.optionalKey(GivenPreferences),
  instructions: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(200_000))),
  preset: Schema.optionalKey(Schema.String.check(Schema.isBetweenLength(1, 64))),
  tools: Schema.optionalKey(ForkTools.annotate({ default: "recorded" })),
  session: Schema.optionalKey(Schema.Literal("new"))
})
export type GivenFork = typeof GivenFork.Type
