import type {
  EntryRefused,
  FileRefused,
  IdempotencyConflict,
  InvalidRequest,
  NameTaken,
  NotFound,
  SessionBusy,
  TooManySchedules
} from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanExists } from "@bowline/runtime/unstable/store/Idempotency"
import type { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import type { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import type { LeaseLost, LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import type { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import type { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import type { OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import type { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import type { AccountStore } from "@bowline/runtime/unstable/store/AccountStore"
import type { EffectStore } from "@bowline/runtime/unstable/store/EffectStore"
import type { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import type { PushStore, TooManyPushTargets } from "@bowline/runtime/unstable/store/PushStore"
import type { ScheduleStore } from "@bowline/runtime/unstable/store/ScheduleStore"
import type { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import type { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { Context, type Duration, type Effect } from "effect"

/** The clock by which leases, replicas and the windows of credentials expire, whosever it is: the process's, or the database's. */
export class LeaseTime extends Context.Service<
  LeaseTime,
  {
    /** Lets that much of a lease's time pass. */
    readonly advance: (duration: Duration.Duration) => Effect.Effect<void>
  }
>()("@bowline/testing/store/LeaseTime") {}

/** One guarantee of the stores, as a test that every implementation runs. */
export interface StoreCase {
  readonly title: string
  readonly test: Effect.Effect<
    void,
    | StorageError
    | SessionBusy
    | InvalidRequest
    | IdempotencyConflict
    | EntryRefused
    | FileRefused
    | PlanExists
    | NotFound
    | TooManyPushTargets
    | NameTaken
    | TooManySchedules
    | LeaseLost,
    | PlanStore
    | TaskStore
    | PushStore
    | ScheduleStore
    | EffectStore
    | FeedbackStore
    | FileStore
    | OverviewStore
    | InboxStore
    | SessionStore
    | LeaseStore
    | CredentialStore
    | KeyStore
    | LoginStore
    | AccountStore
    | LeaseTime
  >
}
