import { assert, describe, it } from "@effect/vitest"
import { bar, formatRange, marks, moved, parseRange, within, zoomed } from "../../src/plan/Axis.ts"

describe("Axis", () => {
  it("puts a bar where its time lies in the range, and cuts what lies outside", () => {
    const range = { from: 1_000, to: 2_000 }
    assert.deepStrictEqual(bar({ from: 1_250, to: 1_500 }, range), { left: 25, width: 25 })
    assert.deepStrictEqual(bar({ from: 0, to: 5_000 }, range), { left: 0, width: 100 })
    assert.deepStrictEqual(bar({ from: 500, to: 1_100 }, range), { left: 0, width: 10 })
    assert.isUndefined(bar({ from: 2_001, to: 3_000 }, range))
    assert.isUndefined(bar({ from: 0, to: 999 }, range))
  })

  it.each([
    [{ from: 0, to: 1 }, 6],
    [{ from: 0, to: 4_321 }, 6],
    [{ from: 1_200, to: 5_400 }, 4],
    [{ from: 0, to: 21_600_000 }, 6]
  ])("marks %o at round times, at most %d and one of them", (range, most) => {
    const shown = marks(range, most)
    assert.isAtLeast(shown.length, 1)
    assert.isAtMost(shown.length, most + 1)
    for (const { at } of shown) assert.isTrue(at >= 0 && at <= 100)
    assert.strictEqual(new Set(shown.map(({ label }) => label)).size, shown.length)
  })

  it("zooms and moves within the plan, and back to all of it", () => {
    const all = { from: 0, to: 1_000 }
    assert.deepStrictEqual(zoomed(all, 0.5, 1_000), { from: 250, to: 750 })
    assert.isUndefined(zoomed({ from: 250, to: 750 }, 2, 1_000))
    assert.deepStrictEqual(moved({ from: 250, to: 750 }, 1, 1_000), { from: 500, to: 1_000 })
    assert.deepStrictEqual(moved({ from: 250, to: 750 }, -1, 1_000), { from: 0, to: 500 })
    assert.deepStrictEqual(within({ from: -50, to: 400 }, 1_000), { from: 0, to: 400 })
  })

  it("stands in the URL, and reads nothing but a range there", () => {
    assert.deepStrictEqual(parseRange(formatRange({ from: 12.4, to: 99 })), { from: 12, to: 99 })
    for (const text of [null, "", "5-5", "9-1", "a-b", "-1-5", "1-2-3"]) assert.isUndefined(parseRange(text))
  })
})
