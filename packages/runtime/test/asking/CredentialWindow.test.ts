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
import { windowFor } from "../../src/asking/CredentialChoice.ts"

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
