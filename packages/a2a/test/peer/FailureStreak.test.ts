import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { failed, type FailureStreak, isStale, isTooMany } from "../../src/peer/FailureStreak.ts"

const seconds = (from: number, to: number) => Schema.Int.check(Schema.isBetween({ minimum: from, maximum: to }))

const streakOf = (times: ReadonlyArray<number>, generation = 1) =>
  times.reduce<FailureStreak | undefined>((streak, now) => failed(streak, generation, now), undefined)

describe("FailureStreak", () => {
  it.prop(
    "is too long when its last five failures came within 60 s, and only then",
    { waits: Schema.Array(seconds(0, 40)).check(Schema.isBetweenLength(1, 12)) },
    ({ waits }) => {
      let now = 0
      const times = waits.map((wait) => (now += wait * 1_000))
      const streak = streakOf(times)
      const [fifthLast] = times.slice(-5)
      const expected = times.length >= 5 && now - (fifthLast ?? 0) <= 60_000
      assert.strictEqual(streak !== undefined && isTooMany(streak), expected)
    }
  )

  it("forgets the failures of an older generation, and does not count one that comes late", () => {
    const streak = streakOf([1, 2, 3, 4])
    assert.deepStrictEqual(failed(streak, 2, 5), { generation: 2, times: [5] })
    assert.strictEqual(failed(streak, 0, 5), streak)
  })

  it("is stale when its last failure is older than 60 s", () => {
    assert.isFalse(isStale({ generation: 1, times: [0, 10_000] }, 70_000))
    assert.isTrue(isStale({ generation: 1, times: [0, 10_000] }, 70_001))
  })
})
