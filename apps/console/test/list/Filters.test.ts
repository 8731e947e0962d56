import { assert, describe, it } from "@effect/vitest"
import { active, asked, filtersOf } from "../../src/list/Filters.ts"

const now = Date.parse("2026-05-02T10:00:00Z")
const at = (filters: ReturnType<typeof filtersOf>) => asked(filters, now)

const read = (query: string) => filtersOf(new URLSearchParams(query))

describe("Filters", () => {
  it("asks the API for what the URL says, and for nothing that is not set", () => {
    assert.deepStrictEqual(at(read("state=failed&state=aborted&q=+rope+&model=&error_code=loop_detected&row=x")), {
      q: "rope",
      error_code: "loop_detected",
      state: ["failed", "aborted"]
    })
    assert.deepStrictEqual(at(read("")), {})
  })

  it("reads minutes by the reader's clock, and asks in UTC", () => {
    const since = at(read("since=2026-05-01T10:00&until=never"))
    assert.deepStrictEqual(since, { since: new Date(2026, 4, 1, 10, 0).toISOString() })
  })

  it("looks back from now where the URL says how far, and takes no other time then", () => {
    assert.deepStrictEqual(at(read("last=24h&since=2026-05-01T10:00&tool=search&metadata=a%3Db")), {
      tool: "search",
      metadata: "a=b",
      since: "2026-05-01T10:00:00.000Z"
    })
    assert.deepStrictEqual(at(read("last=9d&until=2026-05-01T10:00:00.123Z")), { until: "2026-05-01T10:00:00.123Z" })
  })

  it("takes only states that there are, each one once", () => {
    assert.deepStrictEqual(read("state=failed&state=failed&state=lost").state, ["failed"])
  })

  it("counts what is set", () => {
    assert.strictEqual(active(read("")), 0)
    assert.strictEqual(active(read("state=failed&state=queued&q=a&caller=bob")), 3)
  })
})
