import { assert, describe, it } from "@effect/vitest"
import { scrolledTo, windowOf } from "../../src/plan/RowWindow.ts"

describe("windowOf", () => {
  it("draws the rows in view and a few around them, however many there are", () => {
    assert.deepStrictEqual(windowOf(10_000, 28, 0, 448), { first: 0, end: 33 })
    assert.deepStrictEqual(windowOf(10_000, 28, 28_000, 448), { first: 992, end: 1_025 })
    assert.deepStrictEqual(windowOf(10_000, 28, 279_552, 448), { first: 9_967, end: 10_000 })
    assert.deepStrictEqual(windowOf(3, 28, 0, 84), { first: 0, end: 3 })
    assert.deepStrictEqual(windowOf(0, 28, 0, 0), { first: 0, end: 0 })
  })

  it("scrolls no further than it takes to see a row", () => {
    assert.strictEqual(scrolledTo(5, 28, 0, 448), 0)
    assert.strictEqual(scrolledTo(16, 28, 0, 448), 28)
    assert.strictEqual(scrolledTo(2, 28, 280, 448), 56)
  })
})
