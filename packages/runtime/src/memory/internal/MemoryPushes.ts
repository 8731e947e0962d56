import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { NotFound } from "@bowline/domain/plan/Refusal"
import { Clock, Effect, Option, Struct } from "effect"
import { type ClaimedTarget, maxTargets, type PushStore, TooManyPushTargets } from "../../store/PushStore.ts"
import type { Memory } from "./Memory.ts"
import type { DeliveryRecord, PushRecord } from "./MemoryRecords.ts"
import { taskOf } from "./MemoryTasks.ts"
import { isWebhook, shownOf } from "./MemoryWebhooks.ts"

const claimedOf = ({ cursor, failing_since, fence, owner, target, task_id }: PushRecord): ClaimedTarget => ({
  owner,
  task_id,
  target,
  cursor,
  failing_since,
  fence
})

export const makePushStore = (memory: Memory): PushStore["Service"] => {
  const all = () => Array.from(memory.pushes.values()).flatMap((targets) => Array.from(targets.values()))
  /** How many plans there are to tell of, and its cancellation. */
  const toldCount = ({ owner, task_id }: PushRecord): number => {
    const plans = Array.from(memory.plans.values()).filter(
      (record) => record.owner === owner && taskOf(record) === task_id
    )
    return plans.length + (plans.at(-1)?.cancelledAt == null ? 0 : 1)
  }
  const webhooksOf = (owner: CallerName, plan: PlanId) =>
    Array.from(memory.pushes.get(plan)?.values() ?? []).filter((record) => record.owner === owner && isWebhook(record))
  const held = ({ fence, target, task_id }: ClaimedTarget): PushRecord | undefined => {
    const record = memory.pushes.get(task_id)?.get(target.id)
    return record?.fence === fence ? record : undefined
  }
  return {
    put: Effect.fnUntraced(function* (owner, task_id, target, { cursor, replica }) {
      const plan = memory.plans.get(task_id)
      if (plan === undefined || plan.owner !== owner) return yield* new NotFound({ what: "plan" })
      const targets = memory.pushes.get(task_id) ?? new Map<string, PushRecord>()
      const before = targets.get(target.id)
      const count = Array.from(targets.values()).filter((one) => !isWebhook(one)).length
      if (before === undefined && count >= maxTargets) return yield* new TooManyPushTargets()
      const fence = (before?.fence ?? 0) + 1
      const place = { owner, task_id, target, cursor, failing_since: null, fence, replica, isOver: false }
      targets.set(target.id, { ...place, events: [], deliveries: [] })
      memory.pushes.set(task_id, targets)
    }),
    list: (owner, task_id) =>
      Effect.sync(() =>
        Array.from(memory.pushes.get(task_id)?.values() ?? []).flatMap((record) =>
          record.owner === owner && !isWebhook(record) ? [record.target] : []
        )
      ),
    remove: (owner, { id, task_id }) =>
      Effect.sync(() => {
        const targets = memory.pushes.get(task_id)
        return targets?.get(id)?.owner === owner && targets.delete(id)
      }),
    claim: (replica, running, limit) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const isRunning = (record: PushRecord) =>
          running.some(({ id, task_id }) => task_id === record.task_id && id === record.target.id)
        const isLeft = (record: PushRecord) =>
          record.replica === replica ? !isRunning(record) : !memory.isAlive(record.replica, now)
        const left = all().filter(isLeft)
        const tasks = left.filter((record) => !record.isOver && toldCount(record) > record.cursor.plan)
        const isDue = ({ nextTryAt, state }: DeliveryRecord) => state === "pending" && nextTryAt <= now
        const webhooks = left.filter(({ deliveries }) => deliveries.some(isDue))
        return [...tasks.slice(0, limit), ...webhooks.slice(0, limit)].map((record) => {
          record.replica = replica
          record.fence++
          return claimedOf(record)
        })
      }),
    progress: (claimed, progress) =>
      Effect.sync(() => {
        const record = held(claimed)
        if (record === undefined) return false
        if (Option.isNone(progress)) record.isOver = true
        else {
          record.cursor = progress.value.cursor
          record.failing_since = progress.value.failing_since
        }
        return true
      }),
    drop: (claimed) =>
      Effect.sync(() => {
        if (held(claimed) !== undefined) memory.pushes.get(claimed.task_id)?.delete(claimed.target.id)
      }),
    nextDelivery: (claimed) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const next = held(claimed)?.deliveries.find(({ state }) => state === "pending")
        if (next === undefined) return Option.none()
        const told = Struct.pick(next, ["delivery_id", "event", "at", "wait", "tries", "failing_since"])
        return Option.some({ ...told, dueInMs: Math.max(next.nextTryAt - now, 0) })
      }),
    tried: (claimed, id, tried) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const record = held(claimed)
        const delivery = record?.deliveries.find(({ delivery_id }) => delivery_id === id)
        if (record === undefined || delivery === undefined) return false
        const pending = record.deliveries.filter(({ state }) => state === "pending")
        if ("state" in tried) {
          delivery.tries++
          delivery.state = tried.state
          delivery.last_status = tried.status
          delivery.failing_since = tried.failing_since
          if (tried.isGone) {
            record.events = []
            for (const one of pending) one.state = "dropped"
          }
        }
        if (!("state" in tried) || tried.state === "pending") {
          for (const one of pending) one.nextTryAt = now + tried.retryInMs
        }
        return true
      }),
    deliveries: (owner, plan) =>
      Effect.sync(() => webhooksOf(owner, plan).flatMap((record) => record.deliveries.map(shownOf(record)))),
    retry: (owner, plan, id, replica) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        for (const record of webhooksOf(owner, plan)) {
          const delivery = record.deliveries.find(({ delivery_id }) => delivery_id === id)
          if (delivery === undefined) continue
          Object.assign(delivery, { state: "pending", failing_since: null, nextTryAt: now })
          record.replica = replica
          record.fence++
          return Option.some(shownOf(record)(delivery))
        }
        return Option.none()
      })
  }
}
