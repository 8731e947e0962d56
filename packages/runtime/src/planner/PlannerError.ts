import { Data, type Schema } from "effect"

/** Why the planner gives a plan up by its own rules. The code stands in the `error` frame; asking again does not help. */
export class PlannerError extends Data.TaggedError("PlannerError")<{
  readonly code: "loop_detected" | "budget_exceeded" | "output_invalid"
  readonly message: string
  readonly data: { readonly [key: string]: Schema.Json }
}> {}
