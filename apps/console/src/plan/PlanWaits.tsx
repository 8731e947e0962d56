import { WaitCard } from "../approval/WaitCard.tsx"
import type { FollowedPlan } from "../live/FollowedPlan.ts"
import { waitsOf } from "./WaitsFor.tsx"

/** The calls of a plan that wait for a result, an answer or an account. Decisions are cards of their own, which stay. */
export const PlanWaits = ({ live }: { readonly live: FollowedPlan }) => {
  const { planId } = live.view.value
  const plan = live.plan.value
  const waits = waitsOf(planId).filter(({ kind }) => kind !== "approval")
  return plan === undefined || waits.length === 0 ? null : (
    <section class="cards" aria-label="What the plan waits for">
      {waits.map((waiting) => (
        <WaitCard key={`${waiting.task_id} ${waiting.since}`} links={false} plan={plan} waiting={waiting} waits />
      ))}
    </section>
  )
}
