import { Clock, Effect } from "effect"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { effectId, type EffectStore, pageOf, placeOf } from "../../store/EffectStore.ts"
import type { Memory } from "./Memory.ts"

export const makeEffectStore = (memory: Memory): EffectStore["Service"] => ({
  list: (owner, { since, tool }, page) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const { at, skip } = placeOf(page.cursor)
      const last = page.cursor === undefined ? undefined : fromMillis(at)
      const found = Array.from(memory.effects.values())
        .filter(
          (claim) =>
            claim.owner === owner &&
            claim.expires_at > fromMillis(now) &&
            (tool === undefined || claim.tool === tool) &&
            (since === undefined || claim.at >= since) &&
            (last === undefined || claim.at <= last)
        )
        .toSorted((a, b) => (a.at === b.at ? (a.task_id < b.task_id ? -1 : 1) : a.at < b.at ? 1 : -1))
      const shown = found.slice(skip, skip + page.limit + 1).map((claim) => ({
        effect_id: effectId(claim.task_id),
        tool: claim.tool,
        state: memory.stateOf(claim),
        plan_id: claim.plan_id,
        task_id: claim.task_id,
        claimed_at: claim.at,
        expires_at: claim.expires_at
      }))
      return pageOf(shown, page)
    }),
  forget: (task) =>
    Effect.sync(() => {
      for (const [key, { task_id }] of memory.effects) if (task_id === task) return memory.effects.delete(key)
      return false
    })
})
