import { Schema } from "effect"
import { CallerName } from "../caller/CallerName.ts"
import { ToolKind } from "../tool/TaskState.ts"
import { Stage } from "./Outcome.ts"
import { PlanState } from "./Plan.ts"
import { Cost } from "./Usage.ts"

/** Half of them took so many milliseconds at most, and 95 % of them. */
const Percentiles = Schema.Struct({ p50: Schema.Int, p95: Schema.Int })

/** How many plans are in each state now. */
const ByState = Schema.Record(PlanState, Schema.Int)

/** Plans that were created from `at` on, until the next one begins. */
const OverviewStretch = Schema.Struct({
  at: Schema.String,
  plans: ByState,
  first_token_p95: Schema.NullOr(Schema.Int),
  duration_p95: Schema.NullOr(Schema.Int)
})

/** `cost_usd` is the sum of the known prices, null where none is known; `unpriced` counts the plans whose price is not known. */
const spent = { plans: Schema.Int, cost_usd: Cost, unpriced: Schema.Int }

/**
 * What has become of the plans that were created from `since` until `until`, whoever asked if `caller` is null. Times are ISO 8601 in UTC.
 * `failures`, `models`, `callers` and `tools` have the largest entries only. A plan without a text has no first token, and one that is not over no
 * duration. `failures` of a tool are its calls that failed, came back too late or were invalid. `open` has all plans that are not over, whenever
 * they were created, and `replicas` who runs them: null where that is not the caller's business.
 */
export const Overview = Schema.Struct({
  since: Schema.String,
  until: Schema.String,
  step_ms: Schema.Int,
  caller: Schema.NullOr(CallerName),
  plans: ByState,
  first_token_ms: Schema.NullOr(Percentiles),
  duration_ms: Schema.NullOr(Percentiles),
  stretches: Schema.Array(OverviewStretch),
  failures: Schema.Array(
    Schema.Struct({ error_code: Schema.String, reason: Schema.NullOr(Schema.String), plans: Schema.Int })
  ),
  models: Schema.Array(Schema.Struct({ model: Schema.String, ...spent })),
  callers: Schema.Array(Schema.Struct({ caller: CallerName, ...spent })),
  tools: Schema.Array(
    Schema.Struct({
      tool: Schema.String,
      kind: ToolKind,
      calls: Schema.Int,
      failures: Schema.Int,
      duration_ms: Schema.NullOr(Percentiles)
    })
  ),
  open: Schema.Array(
    Schema.Struct({ state: PlanState, stage: Schema.NullOr(Stage), plans: Schema.Int, oldest_at: Schema.String })
  ),
  replicas: Schema.NullOr(
    Schema.Array(
      Schema.Struct({ replica: Schema.String, alive: Schema.Boolean, queued: Schema.Int, running: Schema.Int })
    )
  )
})
export type Overview = typeof Overview.Type

/** The calls of a peer or an MCP server within a stretch of time, and the newest of them that failed, came back too late or was invalid. */
export const PeerCalls = Schema.Struct({
  calls: Schema.Int,
  failures: Schema.Int,
  duration_ms: Schema.NullOr(Percentiles),
  last_error: Schema.NullOr(Schema.Struct({ at: Schema.String, message: Schema.String }))
})
export type PeerCalls = typeof PeerCalls.Type
