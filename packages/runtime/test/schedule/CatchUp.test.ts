import type { CatchUp } from "@bowline/domain/unstable/schedule/Schedule"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { expect, it } from "@effect/vitest"
import { behind, catchUp } from "../../src/schedule/CatchUp.ts"

const minute = 60_000
const start = Date.parse("2026-01-02T03:00:00.000Z")
const at = (minutes: number) => start + minutes * minute
const when = { every_ms: minute, from: fromMillis(start) }

/** What becomes of a schedule of every minute that nobody has looked at from minute 1 until half past `now`. */
const left = (catch_up: CatchUp, now: number, lookAt = 1) => {
  const found = catchUp({ catch_up, when }, { course: { next: at(1) }, lookAt: at(lookAt), now: at(now) + 30_000 })
  if (found === undefined) return undefined
  const { course, missed } = found
  const fired: Array<number> = []
  let next: typeof course = course
  while (next.next !== null && next.left > 0) {
    fired.push((next.next - start) / minute)
    next = behind(when, { ...next, next: next.next })
  }
  const minutes = missed.map(({ due }) => (due - start) / minute)
  return { missed: minutes, fired, next: next.next === null ? null : (next.next - start) / minute }
}

it("takes what came within the last minute, or what somebody has looked at, for on time", () => {
  expect(left("all", 1)).toBeUndefined()
  expect(left("all", 10, 10)).toBeUndefined()
  expect(left("all", 10, 9.7)).toBeUndefined()
})

it("catches up nothing, the last one, or all, and leaves the last minute to be on time", () => {
  expect(left("none", 5)).toEqual({ missed: [1, 2, 3, 4], fired: [], next: 5 })
  expect(left("last", 5)).toEqual({ missed: [1, 2, 3], fired: [4], next: 5 })
  expect(left("all", 5)).toEqual({ missed: [], fired: [1, 2, 3, 4], next: 5 })
})

it("catches up one hundred, the oldest first, and lists the newest hundred of those that are missed", () => {
  const all = left("all", 1_000)
  expect(all?.fired).toEqual(Array.from({ length: 100 }, (_, index) => index + 1))
  expect(all?.missed).toEqual(Array.from({ length: 100 }, (_, index) => 900 + index))
  expect(all?.next).toBe(1_000)
  expect(left("none", 1_000)?.missed).toHaveLength(100)
  const found = catchUp({ catch_up: "none", when }, { course: { next: at(1) }, lookAt: at(1), now: at(1_000) })
  expect(found?.missed.map(({ reason }) => reason.includes("not listed")).indexOf(true)).toBe(0)
  expect(found?.missed.filter(({ reason }) => reason.includes("not listed"))).toHaveLength(1)
})

it("begins again when nobody has looked while it caught up", () => {
  const course = { next: at(3), left: 5, until: at(8) }
  const found = catchUp({ catch_up: "last", when }, { course, lookAt: at(4), now: at(20) })
  expect(found?.course).toEqual({ next: at(19), left: 1, until: at(19) })
})

it("has nothing more behind a time that comes once", () => {
  const once = { at: fromMillis(at(1)) }
  const found = catchUp({ catch_up: "last", when: once }, { course: { next: at(1) }, lookAt: at(1), now: at(9) })
  expect(found).toEqual({ missed: [], course: { next: at(1), left: 1, until: at(8) } })
  expect(behind(once, { next: at(1), left: 1, until: at(8) }).next).toBeNull()
  expect(behind(once, { next: at(1), left: 0, until: null }).next).toBeNull()
})
