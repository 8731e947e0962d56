import { assert, describe, it } from "@effect/vitest"
import { rateLimitReset, retryAfter } from "../../src/provider/RetryAfter.ts"

/** Wed, 21 Oct 2015 07:28:00 GMT */
const now = 1_445_412_480_000

describe("retryAfter", () => {
  it.each([
    [{ "retry-after": "20" }, 20_000],
    [{ "retry-after": " 1.5 " }, 1_500],
    [{ "retry-after": "0.0001" }, 1],
    [{ "retry-after-ms": "250", "retry-after": "20" }, 250],
    [{ "retry-after-ms": "x", "retry-after": "20" }, 20_000],
    [{ "retry-after": "Wed, 21 Oct 2015 07:28:30 GMT" }, 30_000],
    [{ "retry-after": "Wednesday, 21-Oct-15 07:28:30 GMT" }, 30_000],
    [{ "retry-after": "Wed Oct 21 07:28:30 2015" }, 30_000],
    [{ "retry-after": "2592000" }, 86_400_000],
    [{ "retry-after": "9".repeat(400) }, 86_400_000],
    [{ "retry-after-ms": "9".repeat(400) }, 86_400_000],
    [{ "retry-after": "Wed, 21 Oct 2115 07:28:30 GMT" }, 86_400_000],
    [{ "retry-after": "Wed, 21 Oct 2015 07:27:30 GMT" }, undefined],
    [{ "retry-after": "0" }, undefined],
    [{ "retry-after": "-5" }, undefined],
    [{ "retry-after": "" }, undefined],
    [{ "retry-after": "soon 1" }, undefined],
    [{ "retry-after": "1e9" }, undefined],
    [{ "retry-after": "Infinity" }, undefined],
    [{ "retry-after": "NaN" }, undefined],
    [{}, undefined]
  ] as const)("reads %j as %s ms, in every format that the standard has", (headers, millis) => {
    assert.strictEqual(retryAfter(headers, now), millis)
  })
})

describe("rateLimitReset", () => {
  it.each([
    [{ "x-ratelimit-reset-requests": "6m0s" }, 360_000],
    [{ "x-ratelimit-reset-tokens": "17ms" }, 17],
    [{ "x-ratelimit-reset-tokens": "2m59.56s" }, 179_560],
    [{ "x-ratelimit-reset": "30" }, 30_000],
    [{ "x-ratelimit-reset": "999999" }, 86_400_000],
    [{ "x-ratelimit-reset-requests": "720h0m0s" }, 86_400_000],
    [{ "x-ratelimit-reset": String(now + 5_000) }, 5_000],
    [{ "x-ratelimit-reset": String(now / 1_000 + 5) }, 5_000],
    [{ "x-ratelimit-reset": "2015-10-21T07:28:05Z" }, 5_000],
    [{ "x-ratelimit-reset": String(now - 5_000) }, undefined],
    [{ "x-ratelimit-reset": "" }, undefined],
    [{ "x-ratelimit-reset": "later" }, undefined]
  ] as const)("reads %j as %s ms", (headers, millis) => {
    assert.strictEqual(rateLimitReset(headers, now), millis)
  })

  it("waits for the limits that are used up, and for the last of them", () => {
    const headers = {
      "x-ratelimit-remaining-requests": "99",
      "x-ratelimit-reset-requests": "23h",
      "x-ratelimit-remaining-tokens": "0",
      "x-ratelimit-reset-tokens": "4s"
    }
    assert.strictEqual(rateLimitReset(headers, now), 4_000)
    assert.strictEqual(rateLimitReset({ ...headers, "x-ratelimit-reset-input": "9s" }, now), 9_000)
  })
})
