import { Data, type Schema } from "effect"

/** Why the planner gives a plan up by its own rules. The code stands in the `error` frame; asking again helps only where it says so. */
export class PlannerError extends Data.TaggedError("PlannerError")<{
  readonly code:
    | "loop_detected"
    | "budget_exceeded"
    | "output_invalid"
    | "mcp_unreachable"
    | "invalid_request"
    | "tool_failed"
  readonly message: string
  readonly isRetryable?: boolean
  readonly data: { readonly [key: string]: Schema.Json }
}> {}
