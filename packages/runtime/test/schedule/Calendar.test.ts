import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { expect, it } from "@effect/vitest"
import { nextDue, previousDue, validate, type When } from "../../src/schedule/Calendar.ts"

const from = "2026-01-02T03:04:05.000Z"
const at = (offset: number) => Date.parse(from) + offset

it("is due every so often from an instant on, whatever the time of the question is", () => {
  const when = { every_ms: 60_000, from }
  expect([at(-1), at(0), at(1), at(59_999), at(60_000)].map((after) => nextDue(when, after))).toEqual([
    at(0),
    at(60_000),
    at(60_000),
    at(60_000),
    at(120_000)
  ])
  expect([at(0), at(1), at(60_000), at(60_001)].map((before) => previousDue(when, before))).toEqual([
    undefined,
    at(0),
    at(0),
    at(60_000)
  ])
})

it("is due once at an instant, in whatever zone it is written", () => {
  const when = { at: "2026-01-02T04:04:05+01:00" }
  expect(nextDue(when, at(-1))).toBe(at(0))
  expect(nextDue(when, at(0))).toBeUndefined()
  expect(previousDue(when, at(1))).toBe(at(0))
  expect(previousDue(when, at(0))).toBeUndefined()
})

it("is due at the times of a cron expression in its zone", () => {
  const when = { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" }
  expect(fromMillis(nextDue(when, at(0)) ?? 0)).toBe("2026-01-02T08:00:00.000Z")
  expect(fromMillis(previousDue(when, at(0)) ?? 0)).toBe("2026-01-01T08:00:00.000Z")
})

const issuesOf = (when: When) => validate(when, { minEveryMs: 60_000, now: at(0) })

it.each([
  [{ cron: "*/0 * * * *", time_zone: "UTC" }, "cron", "for the minute", "in place of */0"],
  [{ cron: "0 5-1 * * *", time_zone: "UTC" }, "cron", "for the hour", "in place of 5-1"],
  [{ cron: "0 0 32 * *", time_zone: "UTC" }, "cron", "1 to 31", "for the day of month"],
  [{ cron: "0 0 * FOO *", time_zone: "UTC" }, "cron", "JAN to DEC", "for the month"],
  [{ cron: "0 0 * * FRI-SUN", time_zone: "UTC" }, "cron", "from the smaller", "for the day of week"],
  [{ cron: "0 0 * * 8", time_zone: "UTC" }, "cron", "0 to 7", "for the day of week"],
  [{ cron: "60 * * * *", time_zone: "UTC" }, "cron", "0 to 59", "in place of 60"],
  [{ cron: "*/90 * * * *", time_zone: "UTC" }, "cron", "0 to 59", "in place of */90"],
  [{ cron: "0 0 L * *", time_zone: "UTC" }, "cron", "for the day of month", "in place of L"],
  [{ cron: "0 0 1, * *", time_zone: "UTC" }, "cron", "for the day of month", "in place of 1,"],
  [{ cron: "0 0 0 * * *", time_zone: "UTC" }, "cron", "5 fields (minute, hour,", "such as 0 9 * * 1-5"],
  [{ cron: "@daily", time_zone: "UTC" }, "cron", "5 fields", "such as"],
  [{ cron: "", time_zone: "UTC" }, "cron", "5 fields", "such as"],
  [{ cron: "0 0 30 2 *", time_zone: "UTC" }, "cron", "a day that comes", "months"],
  [{ cron: "0 0 31 4,6,9,11 *", time_zone: "Europe/Berlin" }, "cron", "a day that comes", "months"],
  [{ cron: "0 9 * * *", time_zone: "Asia/Tokio" }, "time_zone", "such as Asia/Tokyo,", "IANA"],
  [{ cron: "0 9 * * *", time_zone: "Mars/Olympus" }, "time_zone", "such as Europe/Berlin,", "IANA"],
  [{ cron: "0 9 * * *", time_zone: "+02:00" }, "time_zone", "IANA", "UTC"],
  [{ every_ms: 59_999 }, "every_ms", "at least 60000 ms (BOWLINE_SCHEDULE_MIN", "at most"],
  [{ every_ms: Number.MAX_SAFE_INTEGER }, "every_ms", "at most 316224000000 ms", "at least"],
  [{ every_ms: 60_000, from: "tomorrow" }, "from", "such as 2026-01-02T03:04:05Z", "offset"],
  [{ at: from }, "at", `Expected a time in the future: it is ${from}`, ""],
  [{ at: "2027-02-30T00:00:00Z" }, "at", "Expected an instant", ""],
  [{ at: "2027-02-20T09:00:00" }, "at", "with its offset", ""]
] as const)("refuses %o, and names the field and the fix", (when, field, ...parts) => {
  const [issue, ...others] = issuesOf(when)
  expect(others).toEqual([])
  expect(issue?.path).toEqual([field])
  for (const part of parts) expect(issue?.message).toContain(part)
})

it.each([
  { cron: "0 9 * * 1-5", time_zone: "Europe/Berlin" },
  { cron: " 0  9 1,15 jan-MAR mon,FRI-7 ", time_zone: "europe/berlin" },
  { cron: "0 0 29 2 *", time_zone: "UTC" },
  { cron: "0 0 31 2 1", time_zone: "UTC" },
  { every_ms: 60_000 },
  { every_ms: 86_400_000, from: "2020-01-01T09:00:00+01:00" },
  { at: "2026-01-02T04:04:06+01:00" }
])("takes %o", (when) => {
  expect(issuesOf(when)).toEqual([])
})
