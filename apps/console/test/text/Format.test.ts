import { assert, describe, it } from "@effect/vitest"
import { cost, cutMiddle, duration, elapsed, firstLine, relative, shortId, span } from "../../src/text/Format.ts"

describe("Format", () => {
  it.each([
    [0, "0 ms"],
    [999, "999 ms"],
    [4_240, "4.2 s"],
    [59_949, "59.9 s"],
    [59_950, "1 min 0 s"],
    [192_000, "3 min 12 s"],
    [3_900_000, "1 h 5 min"],
    [172_800_000, "2 days"],
    [-5, "0 ms"]
  ])("writes %d ms as %s", (ms, words) => {
    assert.strictEqual(duration(ms), words)
  })

  it("leaves out what is 0 behind a whole number within a sentence", () => {
    assert.deepStrictEqual([3_000, 10_000, 4_240, 600_000, 610_000, 7_200_000].map(span), [
      "3 s",
      "10 s",
      "4.2 s",
      "10 min",
      "10 min 10 s",
      "2 h"
    ])
  })

  it("changes a running clock once a second", () => {
    assert.deepStrictEqual([0, 900, 1_000, 1_999, 2_000, 61_500].map(elapsed), [
      "0 s",
      "0 s",
      "1 s",
      "1 s",
      "2 s",
      "1 min 1 s"
    ])
  })

  it.each([
    [0, "just now"],
    [-12_000, "12 s ago"],
    [200_000, "in 3 min"],
    [-7_200_000, "2 h ago"],
    [86_400_000 * 3, "in 3 days"]
  ])("says of an instant %d ms from now that it is %s", (distance, words) => {
    assert.strictEqual(relative(1_000_000_000 + distance, 1_000_000_000), words)
  })

  it.each([
    [null, "price unknown"],
    [0, "$0.00"],
    [1.239, "$1.24"],
    [0.0123, "$0.0123"],
    [0.000_004_2, "$0.0000042"],
    [0.000_000_1, "under $0.000001"]
  ])("writes a cost of %s dollars as %s, and never an unknown one as 0", (usd, words) => {
    assert.strictEqual(cost(usd), words)
  })

  it("cuts ids and texts where they can still be told apart", () => {
    assert.strictEqual(shortId("plan_0123456789abcdef"), "plan_01234567")
    assert.strictEqual(shortId("my session"), "my sessi")
    assert.strictEqual(firstLine("\n one\ntwo"), "one")
    assert.strictEqual(firstLine("abcdef", 3), "abc…")
  })

  it("cuts a long name in its middle", () => {
    assert.strictEqual(cutMiddle("openai/gpt-5-mini"), "openai/gpt-5-mini")
    assert.strictEqual(cutMiddle("warehouse_of_the_north_find_order", 12), "wareho…order")
    assert.strictEqual(cutMiddle("warehouse_of_the_north_find_order", 11), "wareh…order")
  })
})
