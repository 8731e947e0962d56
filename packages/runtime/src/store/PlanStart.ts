import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { ResolvedRequest } from "@bowline/domain/plan/PlanRequest"
import type { Cost } from "@bowline/domain/plan/Usage"
import type { Route } from "../remote/PeerClient.ts"

/** What a plan starts with. It never changes, whichever process runs the plan. Times in milliseconds since 1970. */
export interface PlanStart {
  readonly plan_id: PlanId
  readonly caller: CallerName
  readonly request: ResolvedRequest
  /** The model that the plan asks first, as `provider/model`. */
  readonly model: string
  /** What it has cost before it runs: 0, or null where nobody knows the price of `model`. */
  readonly cost_usd: Cost
  /** The way on which the plan calls peers. */
  readonly route: Route
  readonly createdAt: number
  /** As the plan's caller is told. What ends the plan is measured: the time of day may change, or differ between replicas. */
  readonly deadline: number
}
