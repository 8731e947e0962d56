import { assert, describe, it } from "@effect/vitest"
import { active, asked, filtersOf } from "../../src/list/Filters.ts"

const read = (query: string) => filtersOf(new URLSearchParams(query))

describe("Filters", () => {
  it("asks the API for what the URL says, and for nothing that is not set", () => {
    assert.deepStrictEqual(asked(read("state=failed&state=aborted&q=+rope+&model=&error_code=loop_detected&row=x")), {
      q: "rope",
      error_code: "loop_detected",
      state: ["failed", "aborted"]
    })
    assert.deepStrictEqual(asked(read("")), {})
  })

  it("reads minutes by the reader's clock, and asks in UTC", () => {
    const since = asked(read("since=2026-05-01T10:00&until=never"))
    assert.deepStrictEqual(since, { since: new Date(2026, 4, 1, 10, 0).toISOString() })
  })

  it("takes only states that there are, each one once", () => {
    assert.deepStrictEqual(read("state=failed&state=failed&state=lost").state, ["failed"])
  })

  it("counts what is set", () => {
    assert.strictEqual(active(read("")), 0)
    assert.strictEqual(active(read("state=failed&state=queued&q=a&caller=bob")), 3)
  })
})
