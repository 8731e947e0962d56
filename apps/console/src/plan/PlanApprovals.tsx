import { ApprovalCard } from "../approval/ApprovalCard.tsx"
import { schemaOf } from "../call/ToolSchemas.ts"
import type { FollowedPlan } from "../live/FollowedPlan.ts"

/** The calls of a plan that wait for a decision, and those that were decided, each with its verdict. */
export const PlanApprovals = ({ live }: { readonly live: FollowedPlan }) => {
  const { approvals, planId } = live.view.value
  if (planId === null || approvals.length === 0) return null
  return (
    <section class="cards" aria-label="Approvals of the plan">
      {approvals.map(({ agent, by, data, decision, endedAt, expiresAt, input, note, taskId, tool, why }) => (
        <ApprovalCard
          key={taskId}
          links={false}
          schema={live.plan.value === undefined ? null : schemaOf(live.plan.value, tool)}
          asked={{ planId, sessionId: null, taskId, tool, agent, input, why, data, expiresAt, caller: null }}
          verdict={endedAt === null ? undefined : { decision, by, note }}
        />
      ))}
    </section>
  )
}
