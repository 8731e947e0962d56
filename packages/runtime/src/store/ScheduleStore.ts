import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { NameTaken, NotFound, TooManySchedules } from "@bowline/domain/plan/Refusal"
import type { Firing, FiringOutcome, Schedule, ScheduleId } from "@bowline/domain/unstable/schedule/Schedule"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, type Effect, type Option } from "effect"
import type { Page, PageRequest } from "./Page.ts"

/** How many schedules a caller may have. */
export const maxSchedules = 1_000

/** How many firings of a schedule in a row may be refused: with the last one it is paused. */
export const maxFailures = 10

/** How long a firing is kept, in milliseconds. */
export const firingsKeptFor = 90 * 86_400_000

/** How long a replica has a schedule for itself that it has claimed, in milliseconds: longer than a statement may take. */
export const claimedFor = 15_000

/**
 * How far a schedule has come. `next` is its next due time; null if there is none. While `left` is above 0 it catches up: so many due times, the next one
 * included, came while no replica ran, and behind them all others up to `until` are missed. Times are in milliseconds since 1970.
 */
export interface Course {
  readonly next: number | null
  readonly left: number
  readonly until: number | null
}

/** The course of a schedule that has nothing to catch up. */
export const onTime = (next: number | null | undefined): Course => ({ next: next ?? null, left: 0, until: null })

/** What a caller sets of a schedule. */
export type ScheduleFields = Pick<Schedule, "name" | "when" | "plan" | "overlap" | "catch_up" | "paused">

/** A schedule that is to be stored. */
export interface NewStoredSchedule extends ScheduleFields {
  readonly schedule_id: ScheduleId
  readonly next: number | null
}

/** A schedule and its version, which each change of its fields counts up. */
export interface StoredSchedule {
  readonly schedule: Schedule
  readonly version: number
}

/**
 * A schedule whose next due time has come, and that this replica has for itself for a while. `lookAt` is since when somebody should have looked at it, and
 * `now` when it was claimed, by the clock of the store. `open` are its plans that are not over.
 */
export interface ClaimedSchedule extends StoredSchedule {
  readonly owner: CallerName
  readonly course: Course & { readonly next: number }
  readonly lookAt: number
  readonly now: number
  readonly open: ReadonlyArray<PlanId>
}

/** What has become of a due time that no plan was created for. */
export interface FiringEnd {
  readonly due: number
  readonly outcome: Exclude<FiringOutcome, "started">
  readonly reason: string
}

/**
 * The due time that a plan is created for. With `claimed` it is the next one of a schedule as it was claimed, which goes on with `course`; without it somebody
 * fires the schedule by hand. The plans `interrupts` are to be aborted in the same write.
 */
export interface NewFiring {
  readonly schedule_id: ScheduleId
  readonly due: number
  readonly claimed?: { readonly version: number; readonly course: Course } | undefined
  readonly interrupts: ReadonlyArray<PlanId>
}

/**
 * Schedules and their firings. `PlanStore.create` writes the firing of a plan with the plan; what is written here besides are the due times that get none. The
 * clock of the store decides what is due. A firing is a row for its schedule and due time, and there is never a second one.
 */
export class ScheduleStore extends Context.Service<
  ScheduleStore,
  {
    /** The time of the store, in milliseconds since 1970. */
    readonly now: Effect.Effect<number, StorageError>
    readonly create: (
      owner: CallerName,
      schedule: NewStoredSchedule
    ) => Effect.Effect<Schedule, NameTaken | TooManySchedules | StorageError>
    /** Another owner's schedule is not found. */
    readonly get: (owner: CallerName, id: ScheduleId) => Effect.Effect<StoredSchedule, NotFound | StorageError>
    /** Those of the owner, the newest first. */
    readonly list: (owner: CallerName, page: PageRequest) => Effect.Effect<Page<Schedule>, StorageError>
    /**
     * Writes the fields of a schedule of this version, and the next due time if it is given. With that, nothing is left to catch up, and no failures count. A claim ends. None
     * if it has another version by now.
     */
    readonly change: (
      owner: CallerName,
      before: Pick<StoredSchedule, "version"> & { readonly schedule: Pick<Schedule, "schedule_id"> },
      fields: ScheduleFields,
      next: number | null | undefined
    ) => Effect.Effect<Option.Option<Schedule>, NameTaken | StorageError>
    /** Deletes the schedule and its firings; its plans stay. Whether it was there. */
    readonly remove: (owner: CallerName, id: ScheduleId) => Effect.Effect<boolean, StorageError>
    /**
     * Claims at most `limit` schedules that are due, the oldest due time first: of two replicas that ask at once, one gets a schedule. `nextInMs` is when the next one
     * is due if none was claimed; null if none is.
     */
    readonly claim: (
      limit: number
    ) => Effect.Effect<
      { readonly claimed: ReadonlyArray<ClaimedSchedule>; readonly nextInMs: number | null },
      StorageError
    >
    /** Ends the claim: the due time has its turn in so many milliseconds. */
    readonly postpone: (claimed: ClaimedSchedule, ms: number) => Effect.Effect<void, StorageError>
    /**
     * Writes what has become of due times, and with what the schedule goes on; the claim ends. A refusal counts, and the last one of `maxFailures` in a row pauses the
     * schedule: returns whether this one did. Nothing is written if the schedule is not as it was claimed any more.
     */
    readonly settle: (
      claimed: ClaimedSchedule,
      course: Course,
      ends: ReadonlyArray<FiringEnd>
    ) => Effect.Effect<{ readonly isPaused: boolean }, StorageError>
    /** The firings of the owner's schedule, the last due time first. */
    readonly firings: (
      owner: CallerName,
      id: ScheduleId,
      page: PageRequest
    ) => Effect.Effect<Page<Firing>, NotFound | StorageError>
  }
>()("@bowline/runtime/store/ScheduleStore") {}
