import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import type { EffectState } from "@bowline/domain/unstable/tool/EffectState"
import { Context, type Effect } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** Which effects a list has: those of this tool, claimed then or later (ISO 8601 in UTC). */
export interface EffectFilter {
  readonly tool?: string | undefined
  readonly since?: string | undefined
}

/** The id of the effect that this call has. */
export const effectId = (task: TaskId): string => `effect_${task}`

/** The effects that calls have claimed, for people: commits of `PlanStore` claim and end them. Nothing is listed that is kept no longer. */
export class EffectStore extends Context.Service<
  EffectStore,
  {
    /** Those of the owner, the newest first. */
    readonly list: (
      owner: CallerName,
      filter: EffectFilter,
      page: PageRequest
    ) => Effect.Effect<Page<EffectState>, StorageError>
    /** The effect of this call, whoever its owner is, may be claimed as if nobody had. Whether it was there. */
    readonly forget: (task: TaskId) => Effect.Effect<boolean, StorageError>
  }
>()("@bowline/runtime/store/EffectStore") {}

/**
 * Where a page of effects goes on: behind `skip` of those that were claimed in this millisecond. They have no number, and a page may end between two of one
 * millisecond.
 */
export const placeOf = (cursor: number | undefined): { readonly at: number; readonly skip: number } =>
  cursor === undefined ? { at: 8_640_000_000_000, skip: 0 } : { at: Math.floor(cursor / 1_000), skip: cursor % 1_000 }

/** The page of these effects, which were read from this place on: one more than `limit` if there are more. */
export const pageOf = (found: ReadonlyArray<EffectState>, { cursor, limit }: PageRequest): Page<EffectState> => {
  const items = found.slice(0, limit)
  const last = items.at(-1)
  if (found.length <= limit || last === undefined) return { items, next: null }
  const at = Date.parse(last.claimed_at)
  const before = placeOf(cursor)
  const same = items.filter(({ claimed_at }) => Date.parse(claimed_at) === at).length
  return { items, next: at * 1_000 + same + (before.at === at ? before.skip : 0) }
}
