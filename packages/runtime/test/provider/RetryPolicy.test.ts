import * as Reason from "@bowline/domain/provider/ProviderError"
import { assert, describe, it } from "@effect/vitest"
import { delayBeforeNext } from "../../src/provider/RetryPolicy.ts"

const message = ""
const limited = (retryAfterMs?: number) =>
  new Reason.RateLimited({ message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) })
const server = new Reason.ServerError({ message })
const silent = new Reason.IdleTimeout({ message })
const late = new Reason.FirstTokenTimeout({ message })
const rejected = new Reason.HistoryRejected({ message })
const unparsed = new Reason.ToolJson({ message })

const settings = { maxRetries: 3, baseMs: 1_000 }
const delay = (reasons: ReadonlyArray<Reason.ProviderErrorReason>, random = 0, timeLeft = 1e9) =>
  delayBeforeNext(reasons, settings, timeLeft, random)

describe("RetryPolicy", () => {
  it("waits half of a bound to all of it, and doubles the bound, three times", () => {
    const failures = [[server], [server, server], [server, server, server], [server, server, server, server]]
    assert.deepStrictEqual(
      failures.map((reasons) => delay(reasons, 0)),
      [500, 1_000, 2_000, undefined]
    )
    assert.deepStrictEqual(
      failures.map((reasons) => delay(reasons, 0.999_999)),
      [1_000, 2_000, 4_000, undefined]
    )
  })

  it("waits for as long as the provider asks, and up to a tenth more, but not longer than a minute", () => {
    assert.strictEqual(delay([limited(30_000)], 0), 30_000)
    assert.strictEqual(delay([limited(30_000)], 0.999_999), 33_000)
    assert.strictEqual(delay([limited(60_000)], 0), 60_000)
    assert.isUndefined(delay([limited(60_001)], 0))
  })

  it("does not begin a wait that the plan's deadline would cut", () => {
    assert.strictEqual(delay([limited(5_000)], 0, 5_000), 5_000)
    assert.isUndefined(delay([limited(5_000)], 0, 4_999))
    assert.isUndefined(delay([server], 0, 499))
  })

  it("tries again only where that can help, and after silence, a repaired history or a bad call only once", () => {
    const never = [
      new Reason.Auth({ message }),
      new Reason.Billing({ message }),
      new Reason.BadRequest({ message }),
      new Reason.ContextOverflow({ message }),
      new Reason.ModelUnavailable({ message }),
      new Reason.AttemptTimeout({ message }),
      new Reason.Unknown({ message })
    ]
    for (const reason of never) assert.isUndefined(delay([reason]), reason._tag)
    for (const reason of [silent, late, rejected, unparsed]) {
      assert.isNumber(delay([reason]), reason._tag)
      assert.isNumber(delay([server, reason]), reason._tag)
      assert.isUndefined(delay([reason, server, reason]), reason._tag)
    }
    assert.isUndefined(delay([silent, late]))
  })
})
