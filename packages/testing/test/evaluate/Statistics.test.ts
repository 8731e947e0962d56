import { assert, describe, it } from "@effect/vitest"
import { differenceOf, meanOf, quantileOf, quantileOfT } from "../../src/evaluate/Statistics.ts"
import { SeededRandom } from "../../src/simulation/scenario/SeededRandom.ts"

/** How many of so many drawn evaluations have the true difference in their interval. */
const covered = (
  evaluations: number,
  cases: number,
  truth: number,
  bounded: boolean,
  draw: (random: SeededRandom) => number
): number => {
  const random = new SeededRandom(`${cases} cases, ${truth}`)
  let count = 0
  for (let index = 0; index < evaluations; index++) {
    const difference = differenceOf(
      Array.from({ length: cases }, () => draw(random)),
      bounded
    )
    if (difference !== undefined && difference.low <= truth && truth <= difference.high) count++
  }
  return count / evaluations
}

const pass = (share: number, random: SeededRandom) => (random.next() < share ? 1 : 0)

describe("the statistics of an evaluation", () => {
  it("takes quantiles between two values, in proportion", () => {
    assert.strictEqual(quantileOf([4, 1, 3, 2], 0.5), 2.5)
    assert.closeTo(quantileOf([10, 20, 30, 40, 50], 0.95), 48, 1e-9)
    assert.strictEqual(quantileOf([7], 0.95), 7)
  })

  it("has the quantiles of Student's t", () => {
    // From the tables of NIST.
    const table = { 1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 100: 1.984 }
    for (const [degrees, quantile] of Object.entries(table)) {
      assert.closeTo(quantileOfT(Number(degrees)), quantile, 0.005, degrees)
    }
  })

  it.each([
    [50, 0.6, 0.8],
    [50, 0.9, 0.98],
    [50, 1, 1],
    [10, 0.5, 0.5],
    [10, 0.3, 0.9]
  ])("has the true difference of shares in 95 of 100 intervals: %d cases, %d and %d", (cases, one, other) => {
    const draw = (random: SeededRandom) => pass(other, random) - pass(one, random)
    assert.isAbove(covered(2_000, cases, other - one, true, draw), 0.94)
  })

  it("has the true difference in 95 of 100 intervals where each case is asked several times", () => {
    const three = (share: number, random: SeededRandom) => meanOf([1, 2, 3].map(() => pass(share, random)))
    const draw = (random: SeededRandom) => three(0.8, random) - three(0.6, random)
    assert.isAbove(covered(2_000, 30, 0.2, true, draw), 0.94)
  })

  it("has the true difference of times in 95 of 100 intervals, also where a few take long", () => {
    const time = (mean: number, random: SeededRandom) => -mean * Math.log(1 - random.next())
    const draw = (random: SeededRandom) => time(300, random) - time(200, random)
    assert.isAbove(covered(2_000, 50, 100, false, draw), 0.93)
  })

  it("says how many cases it takes, and that no difference was seen", () => {
    const half = Array.from({ length: 40 }, (_, index) => (index % 4 === 0 ? 1 : index % 4 === 1 ? -1 : 0))
    assert.isNull(differenceOf(half, true)?.needed)
    const few = [1, 1, 0, 0, 0, 0, 0, 0, -1, 0]
    const many = Array.from({ length: 40 }, () => few).flat()
    const seen = differenceOf(few, true)
    assert(seen !== undefined && seen.needed !== null)
    assert.isBelow(seen.low, 0)
    assert.isAbove(differenceOf(many, true)?.low ?? 0, 0)
    assert.isTrue(seen.needed > 10 && seen.needed < 400, `${seen.needed}`)
  })

  it("has no interval of times where there is one case, and none of no case", () => {
    assert.isUndefined(differenceOf([3], false))
    assert.isUndefined(differenceOf([], true))
    assert.deepInclude(differenceOf([1], true), { mean: 1, high: 1, cases: 1 })
  })
})
