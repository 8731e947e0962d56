import type { Plan, PlanView, Usage } from "@bowline/client"
import { isOver } from "../live/Settled.ts"

/** What a plan has taken. Null is what nobody knows: it is shown as "–", and never as 0. */
export interface Numbers {
  readonly state: Plan["state"]
  readonly stage: Plan["stage"]
  readonly model: string
  readonly steps: number
  readonly calls: number
  /** Of the calls. Only the events know. */
  readonly failedCalls: number | null
  readonly retries: number
  /** Null where the provider has reported none. */
  readonly usage: Usage | null
  readonly costUsd: number | null
  /** Epoch milliseconds. */
  readonly startedAt: number
  readonly endedAt: number | null
  /** Null while the plan is parked: then its time does not run. */
  readonly deadlineAt: number | null
  /** From the start to the first piece of an answer, in milliseconds. Only the events know. */
  readonly firstTokenMs: number | null
}

const fine = new Set(["running", "completed", "input-required"])

const firstTokenOf = ({ startedAt, steps }: PlanView): number | null => {
  const first = steps.flatMap(({ attempts }) => attempts).find(({ firstTokenAt }) => firstTokenAt !== null)
  return first?.firstTokenAt == null || startedAt === null ? null : first.firstTokenAt - startedAt
}

const reported = (usage: Usage): Usage | null => (Object.values(usage).some((tokens) => tokens > 0) ? usage : null)

/**
 * The record has the last word on a plan that is over, also while its events are still to come. A plan that runs is ahead of the record in
 * its events, unless the tab `isPolling`.
 */
export const numbersOf = (plan: Plan, view: PlanView, isPolling: boolean): Numbers => {
  const { model, retries, stage, state, steps, tool_calls: calls, usage, cost_usd: costUsd } = plan
  const isTold = !isOver(plan) && view.lastId > 0 && !isPolling
  const record = {
    model,
    retries,
    stage,
    state,
    steps,
    calls,
    usage: reported(usage),
    costUsd,
    startedAt: Date.parse(plan.created_at),
    endedAt: plan.finished_at === null ? null : Date.parse(plan.finished_at),
    deadlineAt: plan.deadline_at === null ? null : Date.parse(plan.deadline_at)
  }
  const told = {
    model: view.model ?? model,
    retries: view.retries,
    stage: view.stage,
    state: view.state,
    steps: view.steps.length,
    calls: view.tasks.length,
    usage: reported(view.usage),
    costUsd: view.costUsd,
    startedAt: view.startedAt ?? record.startedAt,
    endedAt: view.endedAt,
    deadlineAt: view.deadlineAt ?? (view.state === "waiting" ? null : record.deadlineAt)
  }
  const numbers = isTold ? told : record
  return {
    ...numbers,
    failedCalls: view.tasks.length < numbers.calls ? null : view.tasks.filter(({ state }) => !fine.has(state)).length,
    firstTokenMs: firstTokenOf(view)
  }
}
