import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { Delivery, DeliveryState, WaitTold, WebhookEvent } from "@bowline/domain/unstable/plan/Webhook"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Data, type Effect, type Option } from "effect"
import type { ReplicaId } from "./LeaseStore.ts"

/** How many places to notify a task may have. */
export const maxTargets = 8

/** The task has as many places to notify as it may have. */
export class TooManyPushTargets extends Data.TaggedError("TooManyPushTargets") {}

/** The `wire` of a webhook: its deliveries are rows, and its task is not read. */
export const webhookWire = "webhook"

/** How a webhook is told. Of one of the configuration the configuration has the secrets. */
export interface WebhookSettings {
  readonly secret_env_var: string | null
  readonly has_final: boolean
  readonly is_configured: boolean
}

/**
 * A place that is notified about a task. `wire` is the dialect in which it was named, and is notified. `scheme` is that of the
 * `Authorization` header. `secrets` are the sealed credentials. `webhook` is null but of a webhook.
 */
export interface PushTarget {
  readonly id: string
  readonly url: string
  readonly wire: string
  readonly scheme: string | null
  readonly secrets: string | null
  readonly webhook: WebhookSettings | null
}

/** A webhook of a plan that is created: it is told of these events of the plan. */
export interface NewWebhook extends Pick<PushTarget, "url" | "secrets"> {
  readonly events: ReadonlyArray<WebhookEvent>
  readonly settings: WebhookSettings
}

/** What a webhook is to be told next. `at` is when it happened, ISO 8601 in UTC; `failing_since` as in `PushProgress`; `dueInMs` is how long to wait for the next try. */
export interface DueDelivery extends Pick<Delivery, "delivery_id" | "event" | "tries"> {
  readonly at: string
  /** The call that begins to wait; null of the end of a plan. */
  readonly wait: WaitTold | null
  readonly failing_since: number | null
  readonly dueInMs: number
}

/**
 * What a try of a delivery has come to. While it is `pending`, it and those behind it are tried again after `retryInMs`. Of a receiver that is `gone`
 * nothing is delivered any more.
 */
export interface Tried {
  readonly state: DeliveryState
  readonly status: number | null
  readonly failing_since: number | null
  readonly retryInMs: number
  readonly isGone: boolean
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
 * The places that are notified about tasks, and how far. Webhooks are created with their plans, which no request changes, and a commit that ends a plan, or opens a wait, adds
 * their deliveries. A replica claims a target, notifies it, and keeps it for as long as the replica
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
     * Claims targets for which the task has more plans than they were notified of, and webhooks with a delivery that is due, at most `limit` of each: those of this replica that are not
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
    /** The oldest delivery of a claimed webhook that is pending. */
    readonly nextDelivery: (claimed: ClaimedTarget) => Effect.Effect<Option.Option<DueDelivery>, StorageError>
    /** Writes what a try has come to, or that none was made yet and those behind wait for it. Returns false, and writes nothing, if the claim no longer holds. */
    readonly tried: (
      claimed: ClaimedTarget,
      delivery: Delivery["delivery_id"],
      tried: Tried | { readonly retryInMs: number }
    ) => Effect.Effect<boolean, StorageError>
    /** All deliveries of the owner's plan, the oldest first. */
    readonly deliveries: (owner: CallerName, plan: PlanId) => Effect.Effect<ReadonlyArray<Delivery>, StorageError>
    /** Has this replica try a delivery once more, whatever has become of it. None if the owner's plan has no such delivery. */
    readonly retry: (
      owner: CallerName,
      plan: PlanId,
      delivery: Delivery["delivery_id"],
      replica: ReplicaId
    ) => Effect.Effect<Option.Option<Delivery>, StorageError>
  }
>()("@bowline/runtime/store/PushStore") {}
