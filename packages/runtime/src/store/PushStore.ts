import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Data, type Effect, type Option } from "effect"
import type { ReplicaId } from "./LeaseStore.ts"

/** How many places to notify a task may have. */
export const maxTargets = 8

/** The task has as many places to notify as it may have. */
export class TooManyPushTargets extends Data.TaggedError("TooManyPushTargets") {}

/**
 * A place that is notified about a task. `wire` is the dialect in which it was named, and is notified. `scheme` is that of the
 * `Authorization` header. `secrets` are the sealed credentials.
 */
export interface PushTarget {
  readonly id: string
  readonly url: string
  readonly wire: string
  readonly scheme: string | null
  readonly secrets: string | null
}

/** How far a target has been notified: of so many plans of the task in full, and of the next one up to the event `seq`. */
export interface PushCursor {
  readonly plan: number
  readonly seq: number
}

/** The progress of a target. `failing_since` is when the next notification failed for the first time, in epoch milliseconds. */
export interface PushProgress {
  readonly cursor: PushCursor
  readonly failing_since: number | null
}

/** A target that this replica notifies. Each claim gives it a new fence, which guards what the replica writes. */
export interface ClaimedTarget extends PushProgress {
  readonly owner: CallerName
  readonly task_id: PlanId
  readonly target: PushTarget
  readonly fence: number
}

export type TargetKey = Pick<ClaimedTarget, "task_id"> & Pick<PushTarget, "id">

/**
 * The places that are notified about tasks, and how far. A replica claims a target, notifies it, and keeps it for as long as the replica
 * is alive. Deleted with the session.
 */
export class PushStore extends Context.Service<
  PushStore,
  {
    /**
     * Adds the target, which is told what comes after `cursor`, or puts it in the place of the task's target with that id. The replica that asks is the one that
     * has it: `claim` gives it to that replica first.
     */
    readonly put: (
      owner: CallerName,
      task: PlanId,
      target: PushTarget,
      place: { readonly replica: ReplicaId; readonly cursor: PushCursor }
    ) => Effect.Effect<void, NotFound | TooManyPushTargets | StorageError>
    /** The targets of the owner's task, the oldest first. */
    readonly list: (owner: CallerName, task: PlanId) => Effect.Effect<ReadonlyArray<PushTarget>, StorageError>
    /** Whether it was there. */
    readonly remove: (owner: CallerName, key: TargetKey) => Effect.Effect<boolean, StorageError>
    /**
     * Claims targets for which the task has more plans than they were notified of, at most `limit`: those of this replica that are not
     * `running` there, and those of replicas that are not recorded alive. Of two that ask at once, one gets the target.
     */
    readonly claim: (
      replica: ReplicaId,
      running: ReadonlyArray<TargetKey>,
      limit: number
    ) => Effect.Effect<ReadonlyArray<ClaimedTarget>, StorageError>
    /**
     * Writes how far a claimed target is; none if its task is over, so that nothing comes any more. Returns false, and writes nothing, if
     * the claim no longer holds.
     */
    readonly progress: (
      claimed: ClaimedTarget,
      progress: Option.Option<PushProgress>
    ) => Effect.Effect<boolean, StorageError>
    /** Deletes a claimed target, if the claim still holds. */
    readonly drop: (claimed: ClaimedTarget) => Effect.Effect<void, StorageError>
  }
>()("@bowline/runtime/store/PushStore") {}
