import type { PendingApproval } from "@bowline/domain/plan/Approval"
import { isSettled } from "@bowline/domain/plan/Plan"
import { ApprovalConflict, NotFound } from "@bowline/domain/plan/Refusal"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect } from "effect"
import { type ApprovalStore, type KnownToolId, knownUntil } from "../../store/ApprovalStore.ts"
import type { Memory } from "./Memory.ts"
import type { Approval } from "./MemoryRecords.ts"
import { newestFirst } from "./NewestFirst.ts"

const shown = ({ plan, request }: Approval): PendingApproval => ({
  plan_id: plan.plan.plan_id,
  session_id: plan.plan.session_id,
  task_id: request.task_id,
  tool: request.tool,
  agent: request.agent,
  input: request.input,
  why: request.why,
  expires_at: plan.plan.deadline_at,
  caller: plan.owner
})

export const makeApprovalStore = (memory: Memory): ApprovalStore["Service"] => ({
  decide: ({ plan_id, task_id }, decision, owner) =>
    Effect.gen(function* () {
      const approval = memory.approvals.get(task_id)
      const plan = memory.plans.get(plan_id)
      if (approval === undefined || approval.plan !== plan || (owner ?? plan.owner) !== plan.owner) {
        return yield* new NotFound({ what: "approval" })
      }
      if (approval.decision === undefined && isSettled(plan.plan)) {
        return yield* new ApprovalConflict({ standing: undefined })
      }
      if (approval.decision === undefined) {
        approval.decision = decision
        const { known_tool, tool_digest } = approval.request
        if (decision.decision === "approve" && known_tool !== null && tool_digest !== null) {
          memory.know(plan.owner, known_tool, tool_digest, fromMillis(yield* Clock.currentTimeMillis))
        }
      }
      return approval.decision
    }),
  decisions: (approvals) =>
    Effect.sync(() =>
      approvals.flatMap(({ task_id }) => {
        const { decision, request } = memory.approvals.get(task_id) ?? {}
        return decision === undefined ? [] : [{ task_id, decision, tool_digest: request?.tool_digest ?? null }]
      })
    ),
  pending: (owner, page) =>
    Effect.sync(() => {
      const waiting = Array.from(memory.approvals.values()).filter(
        ({ decision, plan }) => decision === undefined && plan.owner === owner && memory.open.has(plan.plan.plan_id)
      )
      return newestFirst(waiting, page, shown)
    }),
  ofPlan: (owner, id) =>
    Effect.sync(() => {
      const of = Array.from(memory.open.has(id) ? memory.approvals.values() : []).filter(
        ({ decision, plan }) => decision === undefined && plan.owner === owner && plan.plan.plan_id === id
      )
      return of.toReversed().map(shown)
    }),
  meetTools: (owner, digests, now) =>
    Effect.sync(() => {
      const standing = new Map<KnownToolId, string>()
      for (const [tool, given] of digests) {
        const known = memory.knownTool(owner, tool)
        const digest = known?.digest ?? given
        if (known === undefined || known.expires_at < knownUntil(now).least) memory.know(owner, tool, digest, now)
        standing.set(tool, digest)
      }
      return standing
    })
})
