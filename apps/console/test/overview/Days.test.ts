import { assert, describe, it } from "@effect/vitest"
import { daysOf, totalOf } from "../../src/overview/Days.ts"

const row = (day: string, cost_usd: number | null) => ({
  day,
  plans: 1,
  input_tokens: 2,
  cached_input_tokens: 1,
  output_tokens: 1,
  cost_usd
})

describe("the days of the usage", () => {
  it("are a line each, the last one first, also where nothing was used, over the end of a year", () => {
    const days = daysOf("2027-12-30", "2028-01-02", [row("2027-12-31", 0.5), row("2028-01-02", 1)])
    assert.deepStrictEqual(
      days.map(({ cost_usd, day, plans }) => [day, plans, cost_usd]),
      [
        ["2028-01-02", 1, 1],
        ["2028-01-01", 0, 0],
        ["2027-12-31", 1, 0.5],
        ["2027-12-30", 0, 0]
      ]
    )
    assert.deepStrictEqual(daysOf("2028-01-02", "2028-01-01", []), [])
  })

  it("add up to a cost that is not known where one of them is not", () => {
    assert.deepInclude(totalOf([row("a", 0.5), row("b", 1)]), { plans: 2, cost_usd: 1.5 })
    assert.deepInclude(totalOf([row("a", 0.5), row("b", null)]), { plans: 2, cost_usd: null })
  })
})
