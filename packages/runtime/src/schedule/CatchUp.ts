import type { CatchUp, When } from "@bowline/domain/unstable/schedule/Schedule"
import { type Course, type FiringEnd, onTime } from "../store/ScheduleStore.ts"
import { nextDue, previousDue } from "./Calendar.ts"

/** A due time is missed when it came so many milliseconds ago, and nobody has looked since. */
const quietFor = 60_000

/** How many due times are caught up at most, and how many missed ones are listed. */
const atMost = 100

/** The missed due times between the two, without the first one: the newest of them, the oldest one first. */
const missedIn = (when: When, behind: number, end: number): ReadonlyArray<FiringEnd> => {
  const dues: Array<number> = []
  let due = previousDue(when, end + 1)
  for (; due !== undefined && due > behind && dues.length < atMost; due = previousDue(when, due)) dues.push(due)
  const isCut = due !== undefined && due > behind
  return dues.toReversed().map((due, index) => ({
    due,
    outcome: "missed",
    reason:
      isCut && index === 0 ? "no replica ran, nor at the due times before, which are not listed" : "no replica ran"
  }))
}

/** What is done with the due times that came while no replica ran: those that are missed, and how the schedule goes on. */
interface CaughtUp {
  readonly missed: ReadonlyArray<FiringEnd>
  readonly course: Course
}

/**
 * Looks whether due times came while no replica ran: nobody has looked at the schedule since `lookAt`, for more than a minute, and its next due time is
 * older than that, too. Undefined if there are none.
 */
export const catchUp = (
  { catch_up, when }: { readonly catch_up: CatchUp; readonly when: When },
  {
    course: { next },
    lookAt,
    now
  }: { readonly course: { readonly next: number }; readonly lookAt: number; readonly now: number }
): CaughtUp | undefined => {
  const until = now - quietFor
  if (lookAt >= until || next > until) return undefined
  switch (catch_up) {
    case "none":
      return { missed: missedIn(when, next - 1, until), course: onTime(nextDue(when, until)) }
    case "last": {
      const last = previousDue(when, until + 1) ?? next
      return { missed: missedIn(when, next - 1, last - 1), course: { next: last, left: 1, until } }
    }
    case "all": {
      let left = 1
      let last = next
      for (let due = nextDue(when, last); due !== undefined && due <= until && left < atMost; left++) {
        last = due
        due = nextDue(when, due)
      }
      return { missed: missedIn(when, last, until), course: { next, left, until } }
    }
  }
}

/** How a schedule goes on behind its next due time. */
export const behind = (when: When, { left, next, until }: Course & { readonly next: number }): Course => {
  if (left > 1) return { next: nextDue(when, next) ?? null, left: left - 1, until }
  return onTime(nextDue(when, left === 1 && until !== null ? until : next))
}
