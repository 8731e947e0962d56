import { NotFound } from "@bowline/domain/plan/Refusal"
import { Clock, Effect, Option } from "effect"
import { type ClaimedTarget, maxTargets, type PushStore, TooManyPushTargets } from "../../store/PushStore.ts"
import type { Memory } from "./Memory.ts"
import type { PushRecord } from "./MemoryRecords.ts"
import { taskOf } from "./MemoryTasks.ts"

const claimedOf = ({ cursor, failing_since, fence, owner, target, task_id }: PushRecord): ClaimedTarget => ({
  owner,
  task_id,
  target,
  cursor,
  failing_since,
  fence
})

export const makePushStore = (memory: Memory): PushStore["Service"] => {
  /** How many plans there are to tell of, and its cancellation. */
  const toldCount = ({ owner, task_id }: PushRecord): number => {
    const plans = Array.from(memory.plans.values()).filter(
      (record) => record.owner === owner && taskOf(record) === task_id
    )
    return plans.length + (plans.at(-1)?.cancelledAt == null ? 0 : 1)
  }
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
      if (before === undefined && targets.size >= maxTargets) return yield* new TooManyPushTargets()
      const fence = (before?.fence ?? 0) + 1
      targets.set(target.id, { owner, task_id, target, cursor, failing_since: null, fence, replica, isOver: false })
      memory.pushes.set(task_id, targets)
    }),
    list: (owner, task_id) =>
      Effect.sync(() =>
        Array.from(memory.pushes.get(task_id)?.values() ?? []).flatMap((record) =>
          record.owner === owner ? [record.target] : []
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
        const due = Array.from(memory.pushes.values())
          .flatMap((targets) => Array.from(targets.values()))
          .filter((record) => !record.isOver && isLeft(record) && toldCount(record) > record.cursor.plan)
          .slice(0, limit)
        return due.map((record) => {
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
      })
  }
}
