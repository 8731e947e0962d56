import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Cron, DateTime, Option, Result } from "effect"
import { closest, distance } from "fastest-levenshtein"
import { CronTimes } from "./CronTimes.ts"

/** When something is due: at the times of a cron expression in a zone, every so many milliseconds, or once. Instants are RFC 3339. */
export type When =
  | { readonly cron: string; readonly time_zone: string }
  | { readonly every_ms: number; readonly from?: string }
  | { readonly at: string }

/** What is wrong with a `when`. `path` leads to the field. */
interface WhenIssue {
  readonly path: ReadonlyArray<string>
  readonly message: string
}

/** Ten years: longer than anybody waits, and short enough for every date that comes of it. */
const maxEveryMs = 3_660 * 86_400_000

/** The first due time after `after`; undefined if there is none. Of `every_ms` without `from` there is none: whoever stores it says from when it counts. */
export const nextDue = (when: When, after: number): number | undefined => {
  if ("cron" in when) return CronTimes.parse(when.cron, when.time_zone)?.next(after)
  if ("at" in when) return Date.parse(when.at) > after ? Date.parse(when.at) : undefined
  const from = Date.parse(when.from ?? "")
  if (Number.isNaN(from)) return undefined
  return after < from ? from : from + (Math.floor((after - from) / when.every_ms) + 1) * when.every_ms
}

/** The last due time before `before`; undefined if there is none. */
export const previousDue = (when: When, before: number): number | undefined => {
  if ("cron" in when) return CronTimes.parse(when.cron, when.time_zone)?.previous(before)
  if ("at" in when) return Date.parse(when.at) < before ? Date.parse(when.at) : undefined
  const from = Date.parse(when.from ?? "")
  if (Number.isNaN(from) || before <= from) return undefined
  return from + (Math.ceil((before - from) / when.every_ms) - 1) * when.every_ms
}

interface Limits {
  readonly minEveryMs: number
  readonly now: number
}

/** Says why a `when` cannot be kept. `now` is the time of the database; times are in milliseconds since 1970. */
export const validate = (when: When, { minEveryMs, now }: Limits): ReadonlyArray<WhenIssue> => {
  if ("cron" in when) return cronIssues(when.cron, when.time_zone, now)
  if ("at" in when) {
    const issues = instantIssues("at", when.at)
    if (issues.length > 0 || Date.parse(when.at) > now) return issues
    return [{ path: ["at"], message: `Expected a time in the future: it is ${fromMillis(now)}` }]
  }
  const { every_ms, from } = when
  if (Number.isInteger(every_ms) && every_ms >= minEveryMs && every_ms <= maxEveryMs) {
    return from === undefined ? [] : instantIssues("from", from)
  }
  const least = `${minEveryMs} ms (BOWLINE_SCHEDULE_MIN, schedules.min in the file)`
  return [{ path: ["every_ms"], message: `Expected at least ${least} and at most ${maxEveryMs} ms` }]
}

const instantPattern = /^\d{4}-\d\d-(\d\d)T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)$/i

const instantIssues = (field: string, text: string): ReadonlyArray<WhenIssue> => {
  const [, day] = instantPattern.exec(text) ?? []
  // The 30th of February is taken for a day of March.
  const isDay = Option.exists(
    DateTime.make(`${text.slice(0, 10)}T00:00:00Z`),
    (date) => DateTime.getPartUtc(date, "day") === Number(day)
  )
  if (isDay && Date.parse(text) >= 0) return []
  return [{ path: [field], message: "Expected an instant with its offset, such as 2026-01-02T03:04:05Z" }]
}

interface CronField {
  readonly name: string
  readonly takes: string
  readonly example: string
}

const cronFields: ReadonlyArray<CronField> = [
  { name: "minute", takes: "0 to 59", example: "0,30 or 10-20 or */15" },
  { name: "hour", takes: "0 to 23", example: "9,17 or 9-17 or */2" },
  { name: "day of month", takes: "1 to 31", example: "1,15 or 1-7 or */2" },
  { name: "month", takes: "1 to 12 or JAN to DEC", example: "1,7 or JAN-MAR or */3" },
  { name: "day of week", takes: "0 to 7 or SUN to SAT, 0 and 7 for Sunday", example: "1-5 or MON-FRI or 6,7" }
]

const cronIssues = (cron: string, time_zone: string, now: number): ReadonlyArray<WhenIssue> => {
  if (!isZone(time_zone)) {
    const near = closest(time_zone, Intl.supportedValuesOf("timeZone"))
    const example = distance(time_zone, near) <= 3 ? near : "Europe/Berlin"
    return [{ path: ["time_zone"], message: `Expected a name of the IANA time zones, such as ${example}, or UTC` }]
  }
  const parts = cron.trim().split(/\s+/)
  const names = cronFields.map(({ name }) => name).join(", ")
  const message =
    parts.length === cronFields.length
      ? parts.map(partProblem).find((problem) => problem !== undefined)
      : `Expected 5 fields (${names}), such as 0 9 * * 1-5`
  if (message !== undefined) return [{ path: ["cron"], message }]
  if (nextDue({ cron, time_zone }, now) !== undefined) return []
  return [{ path: ["cron"], message: "Expected a day that comes: none of its months has such a day" }]
}

/** An offset such as `+02:00` is no zone: nothing says when its clocks change. */
const isZone = (name: string): boolean => !/^[+-]/.test(name) && Option.isSome(DateTime.zoneMakeNamed(name))

const partProblem = (part: string, at: number): string | undefined => {
  const { example = "", name = "", takes = "" } = cronFields[at] ?? {}
  const alone = cronFields.map((_, index) => (index === at ? part : "*")).join(" ")
  if (Result.isSuccess(Cron.parse(alone, "UTC"))) return undefined
  const rules = "ranges from the smaller to the larger, steps of 1 or more"
  return `Expected * or ${takes} for the ${name}, such as ${example} (${rules}), in place of ${part}`
}
