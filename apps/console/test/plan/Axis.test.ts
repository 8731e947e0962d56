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
    [{ from: 0, to: 1 }, 800, ["0", "1 ms"]],
    [{ from: 0, to: 4_321 }, 800, ["0", "1.0 s", "2.0 s", "3.0 s", "4.0 s"]],
    [{ from: 1_200, to: 5_400 }, 360, ["2.0 s", "4.0 s"]],
    [{ from: 0, to: 1_100 }, 100, ["0"]],
    [{ from: 0, to: 2_000 }, 100, ["0", "2.0 s"]],
    [{ from: 900, to: 1_050 }, 100, ["1.0 s"]],
    [{ from: 0, to: 1_000 }, 20, ["0", ""]],
    [{ from: 0, to: 21_600_000 }, 800, ["0", "1 h 0 min", "2 h 0 min"]]
  ])("marks %o at round times: on %d pixels %o", (range, width, labels) => {
    const shown = marks(range, width)
    assert.deepStrictEqual(shown.map(({ label }) => label).slice(0, labels.length), labels)
  })

  it("cuts no label at the end of the axis, and lays none over another one, whatever its width", () => {
    for (let width = 20; width < 900; width += 7) {
      for (const to of [1, 10, 999, 1_234, 59_999, 3_599_999, 80_000_000]) {
        const labels = marks({ from: 0, to }, width).filter(({ label }) => label !== "")
        const places = labels.map(({ at, isBefore, label }) => {
          const left = (at / 100) * width - (isBefore ? 8 + label.length * 7 : 0)
          return { left, right: left + 8 + label.length * 7 }
        })
        for (const [i, { left, right }] of places.entries()) {
          assert.isAtLeast(left, places[i - 1]?.right ?? 0, `${to} ms on ${width} pixels`)
          assert.isAtMost(right, width, `${to} ms on ${width} pixels`)
        }
      }
    }
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
