import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Delivery } from "@bowline/domain/unstable/plan/Webhook"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { NewPlan, PlanChange } from "../../store/PlanStore.ts"
import { webhookWire } from "../../store/PushStore.ts"
import { toldBy } from "../../store/ToldWebhooks.ts"
import type { Memory } from "./Memory.ts"
import type { DeliveryRecord, PushRecord } from "./MemoryRecords.ts"

export const isWebhook = ({ target }: PushRecord): boolean => target.wire === webhookWire

/** A delivery, as the owner of its plan sees it. */
export const shownOf =
  ({ target }: PushRecord) =>
  ({ delivery_id, event, last_status, nextTryAt, state, tries }: DeliveryRecord): Delivery => {
    const next_try_at = state === "pending" ? fromMillis(nextTryAt) : null
    return { delivery_id, url: target.url, event, state, tries, last_status, next_try_at }
  }

/** Adds the webhooks of a plan that is created. */
export const addWebhooks = (memory: Memory, plan: NewPlan, before?: PlanId): void => {
  const { caller: owner, plan_id: task_id, replica } = plan
  const former = Array.from(memory.pushes.get(before ?? task_id)?.values() ?? []).filter(isWebhook)
  const added = plan.webhooks.map(({ events, secrets, settings, url }, index) => {
    const target = { id: `webhook_${former.length + index}`, url, wire: webhookWire, scheme: null, secrets }
    return { events, target: { ...target, webhook: settings } }
  })
  if (former.length + added.length === 0) return
  const place = { owner, task_id, replica, cursor: { plan: 0, seq: 0 }, failing_since: null, fence: 0, isOver: true }
  const targets = [...former, ...added].map(({ events, target }): readonly [string, PushRecord] => [
    target.id,
    { ...place, target, events, deliveries: [] }
  ])
  memory.pushes.set(task_id, new Map(targets))
}

/** Adds what the webhooks of a plan are told with its changes. Returns whether there is anything. */
export const tellWebhooks = (
  memory: Memory,
  plan: PlanId,
  changes: ReadonlyArray<PlanChange>,
  now: number
): boolean => {
  let isAny = false
  const told = toldBy(changes)
  for (const { deliveries, events } of memory.pushes.get(plan)?.values() ?? []) {
    for (const { at = fromMillis(now), event, wait } of told.filter(({ event }) => events.includes(event))) {
      const delivery_id = `delivery_${plan.replace(/^plan_/, "")}_${memory.nextOrdinal()}`
      const untried = { tries: 0, last_status: null, failing_since: null, nextTryAt: now }
      deliveries.push({ delivery_id, event, at, wait, state: "pending", ...untried })
      isAny = true
    }
  }
  return isAny
}
