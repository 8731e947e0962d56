import { useEffect } from "preact/hooks"
import { pending } from "../approval/Pending.ts"
import { WaitCard } from "../approval/WaitCard.tsx"
import { woken } from "../gateway/Gateway.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"

/** The calls of a plan that wait for a result, an answer or an account. Decisions are cards of their own, which stay. */
export const PlanWaits = ({ live }: { readonly live: FollowedPlan }) => {
  const { planId, stage } = live.view.value
  const plan = live.plan.value
  // The list is asked now and then: here it is wanted at once.
  useEffect(() => {
    if (stage === "client") woken.value++
  }, [stage])
  const waits = pending.value?.filter(({ kind, plan_id }) => plan_id === planId && kind !== "approval") ?? []
  return plan === undefined || waits.length === 0 ? null : (
    <section class="cards" aria-label="What the plan waits for">
      {waits.map((waiting) => (
        <WaitCard key={`${waiting.task_id} ${waiting.since}`} links={false} plan={plan} waiting={waiting} waits />
      ))}
    </section>
  )
}
