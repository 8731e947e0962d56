import { assert, expect, it } from "@effect/vitest"
import { Cron } from "croner"
import { CronTimes } from "../../src/schedule/CronTimes.ts"

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour
const year = [Date.UTC(2027, 0, 1), Date.UTC(2028, 0, 1)] as const

// Each time of each zone by itself: `BOWLINE_CALENDAR=year`.
const isWhole = process.env.BOWLINE_CALENDAR === "year"
const timeout = isWhole ? hour : 30_000

interface Change {
  readonly at: number
  readonly before: number
  readonly behind: number
}

interface Zone {
  readonly name: string
  readonly offset: number
  readonly changes: ReadonlyArray<Change>
}

const offsetIn = (name: string): ((instant: number) => number) => {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: name, dateStyle: "short", timeStyle: "medium" })
  return (instant) => Date.parse(`${format.format(instant).replace(" ", "T")}Z`) - instant
}

const zoneOf = (name: string): Zone => {
  const offsetAt = offsetIn(name)
  const changes: Array<Change> = []
  for (let at = year[0]; at < year[1]; at += day) {
    let [low, high] = [at, at + day]
    const [before, behind] = [offsetAt(low), offsetAt(high)]
    while (before !== behind && high - low > minute) {
      const middle = low + Math.floor((high - low) / minute / 2) * minute
      if (offsetAt(middle) === before) low = middle
      else high = middle
    }
    if (before !== behind) changes.push({ at: high, before, behind })
  }
  return { name, offset: offsetAt(year[0]), changes }
}

const changing = Intl.supportedValuesOf("timeZone")
  .map(zoneOf)
  .filter(({ changes }) => changes.length > 0)

const rules = [...new Map(changing.map((zone) => [JSON.stringify([zone.offset, zone.changes]), zone])).values()]
const zones = isWhole ? changing : rules

const offsetAt = ({ changes, offset }: Zone, instant: number): number =>
  changes.findLast(({ at }) => at <= instant)?.behind ?? offset

/** What is looked at of a zone: the days around each change, or all of the year. */
const spansOf = ({ changes }: Zone): ReadonlyArray<readonly [number, number]> =>
  isWhole ? [year] : changes.map(({ at }) => [at - 6 * hour, at + 6 * hour])

const fixed = ["30 2 * * *", "0 0 * * *", "15,45 0-3,22,23 * * *", "30 23 * * 6", "0 2 28 3 7", "59 1 1-7 * MON-FRI,7"]
const elapsed = ["*/30 * * * *", "30 * * * *", "*/15 2 * * *", "0 */2 * * *", "*/20 23 * * 6,0", "5-50/15 0-3 * 3,10 *"]

/** The minutes that a clock shows when an expression is due, told by another library on a clock that nobody sets. */
const wallsOf = (cron: string): Set<number> => {
  const clock = new Cron(cron, { mode: "5-part", timezone: "UTC" })
  const walls = new Set<number>()
  for (
    let at = clock.nextRun(new Date(year[0] - 2 * day));
    at && at.getTime() < year[1] + 2 * day;
    at = clock.nextRun(at)
  ) {
    walls.add(at.getTime())
  }
  return walls
}

/** The daemon of cron(8): each minute it looks at the clock. Fixed jobs also get what the clock has leapt over, and nothing a second time. */
const daemon = (walls: Set<number>, isFixed: boolean, zone: Zone, [from, to]: readonly [number, number]) => {
  const fired: Array<number> = []
  let latest = from - minute + offsetAt(zone, from - minute)
  for (let now = from; now < to; now += minute) {
    const wall = now + offsetAt(zone, now)
    let isDue = !isFixed && walls.has(wall)
    for (let leapt = latest + minute; isFixed && leapt <= wall; leapt += minute) isDue ||= walls.has(leapt)
    if (isDue) fired.push(now)
    latest = Math.max(latest, wall)
  }
  return fired
}

/** The same times, from the last to the first. */
const timesBack = (previous: (before: number) => number | undefined, [from, to]: readonly [number, number]) => {
  const times: Array<number> = []
  for (let at = previous(to); at !== undefined && at >= from; at = previous(at)) times.unshift(at)
  return times
}

const timesOf = (next: (after: number) => number | undefined, [from, to]: readonly [number, number]) => {
  const times: Array<number> = []
  for (let at = next(from - 1); at !== undefined && at < to; at = next(at)) times.push(at)
  return times
}

const show = (times: ReadonlyArray<number>) => times.map((time) => new Date(time).toISOString().slice(0, 16))

const parse = (cron: string, zone: string): CronTimes => {
  const times = CronTimes.parse(cron, zone)
  if (times === undefined) throw new Error(`${cron} in ${zone} is no schedule`)
  return times
}

it("looks at every rule of daylight saving that the zones of Intl have", () => {
  expect(changing.length).toBeGreaterThan(100)
  expect(rules.length).toBeGreaterThan(20)
})

it.each([...fixed, ...elapsed])("fires %s when the daemon of cron(8) does, in every zone", { timeout }, (cron) => {
  const walls = wallsOf(cron)
  for (const zone of zones) {
    const times = parse(cron, zone.name)
    for (const span of spansOf(zone)) {
      const expected = daemon(walls, fixed.includes(cron), zone, span)
      assert.deepStrictEqual(show(timesOf((after) => times.next(after), span)), show(expected), zone.name)
      assert.deepStrictEqual(show(timesBack((before) => times.previous(before), span)), show(expected), zone.name)
    }
  }
})

/** croner drops what a gap skips where the gap ends at midnight, as in Nuuk: the clock shows another day then. */
const isDropped = ({ changes }: Zone, time: number): boolean =>
  changes.some(({ at, before, behind }) => time === at && behind > before && (at + behind) % day === 0)

it.each([...fixed, ...elapsed])("fires %s when croner does, but where a gap ends at midnight", { timeout }, (cron) => {
  for (const zone of zones) {
    const times = parse(cron, zone.name)
    const other = new Cron(cron, { mode: "5-part", timezone: zone.name, fixedTimeRule: "no-wildcard" })
    for (const span of spansOf(zone)) {
      const ours = timesOf((after) => times.next(after), span)
      const theirs = timesOf((after) => other.nextRun(new Date(after))?.getTime(), span)
      const dropped = ours.filter((time) => isDropped(zone, time) && !theirs.includes(time))
      assert.deepStrictEqual(show(ours.filter((time) => !dropped.includes(time))), show(theirs), zone.name)
    }
  }
})

it.each([
  ["30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", "2027-03-28T01:00", "the end of the skipped hour"],
  ["0,30 2,3 * * *", "Europe/Berlin", "2027-03-28T00:59Z", "2027-03-28T01:00", "once for all that is skipped"],
  ["0,30 2,3 * * *", "Europe/Berlin", "2027-03-28T01:00Z", "2027-03-28T01:30", "what comes behind the gap"],
  ["30 23 * * *", "America/Nuuk", "2027-03-27T12:00Z", "2027-03-28T01:00", "a gap that ends at midnight"],
  ["30 2 * * *", "Europe/Berlin", "2027-10-30T12:00Z", "2027-10-31T00:30", "the first one of two"],
  ["30 2 * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-11-01T01:30", "not the second one of two"],
  ["30 2 * * *", "Europe/Berlin", "2027-10-31T01:10Z", "2027-11-01T01:30", "not the second one, asked between both"],
  ["*/30 * * * *", "Europe/Berlin", "2027-10-31T00:30Z", "2027-10-31T01:00", "both hours of a step"],
  [
    "*/30 * * * *",
    "Europe/Berlin",
    "2027-03-28T00:30Z",
    "2027-03-28T01:00",
    "half an hour later, whatever the clock shows"
  ],
  ["*/30 2 * * *", "Europe/Berlin", "2027-03-27T12:00Z", "2027-03-29T00:00", "no step of an hour that does not come"],
  ["0 0 29 2 *", "UTC", "2096-03-01T00:00Z", "2104-02-29T00:00", "a leap day eight years later"],
  ["0 0 13 * 5", "UTC", "2027-01-01T00:00Z", "2027-01-08T00:00", "the day of month or of week"],
  ["0 0 * * 7", "UTC", "2027-01-01T00:00Z", "2027-01-03T00:00", "7 is Sunday"]
])("%s in %s behind %s is due at %s: %s", (cron, zone, after, due) => {
  expect(show([parse(cron, zone).next(Date.parse(after)) ?? 0])).toEqual([due])
})
