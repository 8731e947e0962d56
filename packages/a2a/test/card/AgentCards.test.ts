import { assert, describe, it } from "@effect/vitest"
import { Duration } from "effect"
import { maxAgeOf } from "../../src/card/AgentCards.ts"

describe("the age of a card", () => {
  it.each([
    [undefined, 300],
    ["public", 300],
    ["max-age=60", 60],
    ["public, Max-Age=60, must-revalidate", 60],
    ['max-age="60"', 60],
    ["s-maxage=60", 300],
    ["max-age=0", 0],
    ["no-cache", 0],
    ["max-age=60, no-store", 0],
    ["max-age=soon", 300],
    ["max-age=31536000", 86_400],
    [`max-age=${"9".repeat(400)}`, 86_400]
  ])("with Cache-Control %s is %i seconds", (header, seconds) => {
    assert.strictEqual(Duration.toSeconds(maxAgeOf(header)), seconds)
  })
})
