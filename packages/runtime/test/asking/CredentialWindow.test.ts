import type { Stage } from "@bowline/domain/plan/Outcome"
import {
  AttemptTimeout,
  Auth,
  BadRequest,
  Billing,
  ContextOverflow,
  EmptyAnswer,
  FirstTokenTimeout,
  HistoryRejected,
  IdleTimeout,
  ModelUnavailable,
  Overloaded,
  ProviderError,
  type ProviderErrorReason,
  RateLimited,
  ServerError,
  StreamCorrupt,
  StreamTruncated,
  ToolJson,
  Transport,
  Unknown
} from "@bowline/domain/provider/ProviderError"
import { assert, describe, it } from "@effect/vitest"
import { type Binding, judged, refusal, soonest, windowFor } from "../../src/asking/CredentialWindow.ts"

const message = "It failed"
const minutes = (...all: ReadonlyArray<number>) => all.map((count) => count * 60_000)
const hours = (...all: ReadonlyArray<number>) => minutes(...all.map((count) => count * 60))

const cooldown = { scope: "credential_model", durations: minutes(0.5, 1, 5) }
const never = { provider: undefined, compaction: undefined }

const rows: ReadonlyArray<[ProviderErrorReason, { readonly provider: unknown; readonly compaction: unknown }]> = [
  [new RateLimited({ message }), { provider: cooldown, compaction: cooldown }],
  [
    new RateLimited({ message, retryAfterMs: 7_500 }),
    {
      provider: { scope: "credential_model", durations: [7_500] },
      compaction: { scope: "credential_model", durations: [7_500] }
    }
  ],
  [new FirstTokenTimeout({ message }), { provider: cooldown, compaction: undefined }],
  [new IdleTimeout({ message }), { provider: cooldown, compaction: undefined }],
  [
    new Auth({ message }),
    {
      provider: { scope: "credential", durations: minutes(10, 20, 40, 60) },
      compaction: { scope: "credential", durations: minutes(10, 20, 40, 60) }
    }
  ],
  [
    new Billing({ message }),
    {
      provider: { scope: "credential", durations: hours(5, 10, 20, 24) },
      compaction: { scope: "credential", durations: hours(5, 10, 20, 24) }
    }
  ],
  [
    new Billing({ message, retryAfterMs: 60_000 }),
    {
      provider: { scope: "credential", durations: [60_000] },
      compaction: { scope: "credential", durations: [60_000] }
    }
  ],
  ...[30 * 24 * 3_600_000, Infinity, Number.MAX_VALUE].flatMap((retryAfterMs): typeof rows => [
    [
      new RateLimited({ message, retryAfterMs }),
      {
        provider: { scope: "credential_model", durations: hours(24) },
        compaction: { scope: "credential_model", durations: hours(24) }
      }
    ],
    [
      new Billing({ message, retryAfterMs }),
      {
        provider: { scope: "credential", durations: hours(24) },
        compaction: { scope: "credential", durations: hours(24) }
      }
    ]
  ]),
  ...[0, -1, Number.NaN].map((retryAfterMs): (typeof rows)[number] => [
    new RateLimited({ message, retryAfterMs }),
    { provider: cooldown, compaction: cooldown }
  ]),
  [new ModelUnavailable({ message, isUnexplained: true }), never],
  [
    new ModelUnavailable({ message }),
    {
      provider: { scope: "model", durations: minutes(5) },
      compaction: { scope: "model", durations: minutes(5) }
    }
  ],
  [new Overloaded({ message, retryAfterMs: 1_000 }), never],
  [new ServerError({ message, retryAfterMs: 1_000 }), never],
  [new Transport({ message, kind: "connect" }), never],
  [new Transport({ message, kind: "reset" }), never],
  [new Transport({ message, kind: "abort" }), never],
  [new StreamTruncated({ message }), never],
  [new StreamCorrupt({ message }), never],
  [new BadRequest({ message }), never],
  [new ContextOverflow({ message }), never],
  [new HistoryRejected({ message }), never],
  [new ToolJson({ message }), never],
  [new AttemptTimeout({ message }), never],
  [new EmptyAnswer({ message }), never],
  [new Unknown({ message }), never]
]

const elsewhere: ReadonlyArray<Stage> = ["queue", "backoff", "tool", "approval"]

describe("windowFor", () => {
  for (const [index, [reason, expected]] of rows.entries()) {
    it(`holds a credential to account for its own faults only: ${index + 1}, ${reason._tag}`, () => {
      assert.deepStrictEqual<unknown>(windowFor(reason, "provider"), expected.provider)
      assert.deepStrictEqual<unknown>(windowFor(reason, "compaction"), expected.compaction)
      for (const stage of elsewhere) assert.isUndefined(windowFor(reason, stage), stage)
    })
  }
})

describe("judged", () => {
  const refusals = [Auth, ModelUnavailable].map((Refusal) => new Refusal({ message, status: 403, isUnexplained: true }))

  it("blames the request for a refusal without a code shortly behind a success of the same key, and blocks nothing", () => {
    const reasons = refusals.map((reason) => judged(reason, 10 * 60_000 - 1))
    assert.deepStrictEqual(
      reasons.map(({ _tag }) => _tag),
      ["bad_request", "model_unavailable"]
    )
    for (const reason of reasons) {
      assert.deepInclude(reason, { message, status: 403 })
      assert.isUndefined(windowFor(reason, "provider"))
    }
  })

  it("takes it for what it seems behind no success, or an old one", () => {
    for (const succeededMs of [10 * 60_000, Infinity]) {
      const reasons = refusals.map((reason) => judged(reason, succeededMs))
      assert.deepStrictEqual(reasons, [
        new Auth({ message, status: 403 }),
        new ModelUnavailable({ message, status: 403 })
      ])
      assert.deepStrictEqual(
        reasons.map((reason) => windowFor(reason, "provider")?.scope),
        ["credential", "model"]
      )
    }
  })

  it("leaves a refusal with a code as it is, whatever came before", () => {
    for (const [reason] of rows) if (!("isUnexplained" in reason)) assert.strictEqual(judged(reason, 0), reason)
  })
})

describe("refusal", () => {
  const binding = (reason: string, leftMs: number, credential = "openai-1"): Binding => ({
    credential,
    reason,
    since: Date.UTC(2026, 0, 1, 12),
    until: Date.UTC(2026, 0, 1, 13),
    leftMs
  })

  it.each([
    ["auth", "provider_auth", false],
    ["billing", "provider_billing", false],
    ["model_unavailable", "provider_model_unavailable", false],
    ["rate_limited", "provider_rate_limited", true],
    ["idle_timeout", "provider_rate_limited", true],
    ["first_token_timeout", "provider_rate_limited", true]
  ])("says of a window for %s that it is %s, since when, until when, and what ends it; retryable: %s", (...row) => {
    const [reason, code, isRetryable] = row
    const error = new ProviderError({ reason: refusal(["openai/a", "openai/b"], binding(reason, 5_000)) })
    assert.deepInclude(error, { code, isRetryable })
    assert.deepInclude(error.reason, { retryAfterMs: 5_000 })
    assert.strictEqual(
      error.message,
      `No credential is free for openai/a, openai/b: openai-1 is blocked for ${reason} since 2026-01-01T12:00:00.000Z, until 2026-01-01T13:00:00.000Z. ` +
        "To end this at once: bowline credentials clear openai-1"
    )
  })

  it("leaves out since when, if an earlier version has opened the window", () => {
    const { message } = refusal(["openai/a"], { ...binding("auth", 1), since: null })
    assert.include(message, "openai-1 is blocked for auth, until")
  })

  it("reports the window that waiting outlasts, and only without one a key that stays refused", () => {
    const [auth, billing] = [binding("auth", 1_000, "a"), binding("billing", 500, "b")]
    const [slow, fast] = [binding("rate_limited", 9_000, "c"), binding("idle_timeout", 3_000, "d")]
    assert.strictEqual(soonest([auth, slow, billing, fast])?.credential, "d")
    assert.strictEqual(soonest([auth, billing])?.credential, "b")
    assert.isUndefined(soonest([]))
  })
})
