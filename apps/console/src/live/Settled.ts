import { type Plan, type PlanView, reduce } from "@bowline/client"

export const isOver = ({ state }: Pick<Plan, "state">): boolean =>
  state !== "queued" && state !== "running" && state !== "waiting"

/**
 * The view with the end that the gateway's record of the plan tells of, where its stream has not: nothing in it runs on. The record is
 * the truth; what the stream brings later takes its place.
 */
export const settled = (view: PlanView, plan: Plan | undefined): PlanView => {
  if (plan === undefined || !isOver(plan) || view.outcome !== null) return view
  const [event, payload] = plan.error === null ? ["final", plan.final] : ["error", plan.error]
  const head = { plan_id: plan.plan_id, session_id: plan.session_id, at: plan.finished_at ?? plan.created_at }
  const ended = reduce(view, { id: view.lastId + 1, event, data: { ...payload, ...head } })
  // The record knows when the plan began, also where no event has come.
  return { ...ended, startedAt: view.startedAt ?? Date.parse(plan.created_at) }
}
