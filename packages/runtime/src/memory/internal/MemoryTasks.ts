import { NotFound } from "@bowline/domain/plan/Refusal"
import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
import { Array, Effect } from "effect"
import { standingOf, type TaskCursor, type TaskPlan, type TaskStore, type TaskSummary } from "../../store/TaskStore.ts"
import { withdraw } from "./HandedBackCalls.ts"
import { gistOf, type Memory } from "./Memory.ts"
import type { PlanRecord } from "./MemoryRecords.ts"

export const taskOf = ({ message, plan }: PlanRecord) => message?.task_id ?? plan.plan_id

const openCallOf = ({ plan, tasks, waits }: PlanRecord): TaskState | null => {
  if (plan.finished_at === null) {
    const kinds = Array.fromIterable(waits.values()).flatMap(({ request, settlement }) =>
      settlement === undefined && request.kind !== "timer" ? [request.kind] : []
    )
    return kinds.length > 0 && kinds.every((kind) => kind === "account") ? "auth-required" : null
  }
  const newest = new Map<string, TaskState | null>()
  for (const { state, tool } of tasks.values()) {
    newest.delete(tool)
    newest.set(tool, state !== "running" && handedBack.has(state) ? state : null)
  }
  return Array.fromIterable(newest.values()).findLast((state) => state !== null) ?? null
}

const summaryOf = (record: PlanRecord): TaskSummary => ({
  task_id: taskOf(record),
  plan: record.plan,
  standing: standingOf(record.plan, openCallOf(record), record.cancelledAt),
  status_at: record.cancelledAt ?? record.plan.finished_at ?? record.plan.created_at
})

const shown = ({ cancelledAt, message, plan }: PlanRecord): TaskPlan => ({ plan, message, cancelled_at: cancelledAt })

const isBehind = (a: TaskCursor, b: TaskCursor): boolean =>
  a.status_at === b.status_at ? a.task_id < b.task_id : a.status_at < b.status_at

export const makeTaskStore = (memory: Memory): TaskStore["Service"] => ({
  plans: (owner, task) =>
    Effect.suspend(() => {
      const first = memory.plans.get(task)
      if (first === undefined || first.owner !== owner || taskOf(first) !== task) {
        return Effect.fail(new NotFound({ what: "plan" }))
      }
      const later = Array.fromIterable(memory.plans.values()).filter(
        (record) => record !== first && record.owner === owner && taskOf(record) === task
      )
      return Effect.succeed([shown(first), ...later.map(shown)] as const)
    }),
  told: (owner, tasks) =>
    Effect.sync(() => {
      const asked = new Set(tasks)
      return Array.fromIterable(memory.plans.values())
        .filter((record) => record.owner === owner && asked.has(taskOf(record)))
        .map((record) => ({ task_id: taskOf(record), ...shown(record), gist: gistOf(record) }))
    }),
  list: (owner, { session, since, standing }, { cursor, limit }) =>
    Effect.sync(() => {
      const newest = new Map<string, PlanRecord>()
      for (const record of memory.plans.values()) if (record.owner === owner) newest.set(taskOf(record), record)
      const found = Array.fromIterable(newest.values())
        .map(summaryOf)
        .filter(
          (task) =>
            (session === undefined || task.plan.session_id === session) &&
            (standing === undefined || task.standing === standing) &&
            (since === undefined || task.status_at >= since)
        )
        .sort((a, b) => (isBehind(a, b) ? 1 : -1))
      const rest = cursor === undefined ? found : found.filter((task) => isBehind(task, cursor))
      const items = rest.slice(0, limit)
      return { items, next: rest.length > limit ? (items.at(-1) ?? null) : null, total: found.length }
    }),
  cancel: (owner, last, now) =>
    Effect.sync(() => {
      const record = memory.plans.get(last)
      if (record?.owner !== owner || record.plan.state !== "completed" || record.cancelledAt !== null) return []
      record.cancelledAt = now
      const chain = Array.fromIterable(memory.plans.values()).filter(
        (plan) => plan.owner === owner && taskOf(plan) === taskOf(record)
      )
      return withdraw(chain.flatMap(({ tasks }) => Array.fromIterable(tasks.values())))
    })
})
