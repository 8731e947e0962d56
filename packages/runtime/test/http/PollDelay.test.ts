import { assert, describe, it } from "@effect/vitest"
import { pollDelay } from "../../src/http/PollDelay.ts"

describe("the delay of a poll", () => {
  it("is 50 ms at first, 0.3 × the time waited then, and at most 5 seconds", () => {
    assert.deepStrictEqual(
      [0, 50, 100, 1_000, 10_000, 20_000, 600_000].map((waited) => pollDelay(waited, 0.5)),
      [50, 50, 50, 300, 3_000, 5_000, 5_000]
    )
  })

  it("is spread by 10 % to each side", () => {
    assert.closeTo(pollDelay(10_000, 0), 2_700, 1e-6)
    assert.closeTo(pollDelay(10_000, 1), 3_300, 1e-6)
  })
})
