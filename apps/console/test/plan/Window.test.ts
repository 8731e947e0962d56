import { assert, describe, it } from "@effect/vitest"
import { mostDrawn, scrolledTo, windowOf } from "../../src/plan/Window.ts"

describe("windowOf", () => {
  it("draws the rows in view and a few around them, however many there are", () => {
    assert.deepStrictEqual(windowOf(10_000, 28, 0, 448), { first: 0, end: 24 })
    assert.deepStrictEqual(windowOf(10_000, 28, 28_000, 448), { first: 992, end: 1_024 })
    assert.deepStrictEqual(windowOf(10_000, 28, 280_000, 448), { first: 9_992, end: 10_000 })
    assert.deepStrictEqual(windowOf(3, 28, 0, 84), { first: 0, end: 3 })
    for (let top = 0; top < 1_000; top++) {
      const { end, first } = windowOf(10_000, 28, top, 448)
      assert.isAtMost(end - first, mostDrawn(28, 448))
    }
  })

  it("scrolls no further than it takes to see a row", () => {
    assert.strictEqual(scrolledTo(5, 28, 0, 448), 0)
    assert.strictEqual(scrolledTo(16, 28, 0, 448), 28)
    assert.strictEqual(scrolledTo(2, 28, 280, 448), 56)
  })
})
