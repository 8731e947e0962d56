import type { Cost, Usage } from "@bowline/domain/plan/Usage"
import type { ProviderError, ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Effect } from "effect"
import type { ProviderPart } from "../provider/Provider.ts"
import type { AttemptRecord } from "../record/AttemptRecord.ts"
import type { Target } from "./Target.ts"

/** What an attempt has used of a model (`provider/model`), and what that costs. */
export interface Used {
  readonly attempt: number
  readonly model: string
  readonly usage: Usage
  readonly cost_usd: Cost
}

/** Counts what attempts use, and keeps what they were. */
export interface Account {
  /** An attempt is over: of one that was interrupted the record may come late. */
  readonly recorded?: (record: Omit<AttemptRecord, "step">) => void
  /** The provider has reported what the running attempt has used so far. */
  readonly reported: (used: Used) => void
  /** The running attempt is over, however it ended. */
  readonly ended: () => void
}

/** An attempt that follows a failed one. */
export interface Retry {
  /** The number and the model of the failed one. */
  readonly attempt: number
  readonly model: string
  readonly error: ProviderError
  readonly next: Target
  readonly delayMs: number
}

/** Learns what the attempts at an answer do. A step shows it to the plan's readers; a summary only counts the usage. */
export interface Listener extends Account {
  /** Whether readers see its text. */
  readonly isShown: boolean
  /** Parts of the attempt have come. The timers of silence stand still until the listener is done with them. */
  readonly heard: (attempt: number, parts: ReadonlyArray<ProviderPart>) => Effect.Effect<void, StorageError>
  /** An attempt with that credential has failed. */
  readonly failed: (reason: ProviderErrorReason, credential: string) => void
  readonly retrying: (retry: Retry) => Effect.Effect<void>
  /** The provider refused the request as too long: makes it shorter, and says whether it is. Called once at most. */
  readonly shorten: Effect.Effect<boolean, StorageError>
  /** Marks the stage of the plan for as long as it waits. */
  readonly within: (stage: "provider" | "backoff") => <A, E, R>(wait: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Whether the attempt is interrupted because the time of the plan is over, and for no other reason. */
  readonly isDeadline: () => boolean
}

/** A listener that ignores everything. */
export const silent: Listener = {
  isShown: false,
  reported: () => undefined,
  ended: () => undefined,
  heard: () => Effect.void,
  failed: () => undefined,
  retrying: () => Effect.void,
  shorten: Effect.succeed(false),
  within: () => (wait) => wait,
  isDeadline: () => false
}
