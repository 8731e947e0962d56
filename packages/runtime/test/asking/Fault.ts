import {
  ProviderError,
  type ProviderErrorReason,
  StreamCorrupt,
  StreamTruncated
} from "@bowline/domain/provider/ProviderError"
import { classify, classifyTransport } from "../../src/provider/Classification.ts"
import * as FailureBody from "../../src/provider/FailureBody.ts"

/**
 * What a failure puts aside by the table of `spec/provider.md`, written down by hand: `for` is the time that the provider
 * names, in milliseconds, or the name of a ladder.
 */
export interface Blame {
  readonly of: "credential" | "model_on_credential" | "model"
  readonly for: number | "cooldown" | "rejected" | "unpaid" | "absent"
}

export interface Fault {
  readonly reason: ProviderErrorReason["_tag"]
  readonly blame: Blame | undefined
  /** No code says why: shortly behind a success of the same key it is the request's fault. */
  readonly isUnexplained?: true
  /** What the provider does; `now` is in milliseconds. */
  readonly happens: (now: number) => ProviderError
}

type Headers = (now: number) => Readonly<Record<string, string>>

const refused =
  (status: number, error: object, headers: Headers) =>
  (now: number): ProviderError =>
    new ProviderError({ reason: classify({ status, headers: headers(now) }, FailureBody.fromJson({ error }), now) })

const none: Headers = () => ({})

const of =
  (reason: Fault["reason"], blame?: Blame) =>
  (status: number, message = "no", headers: Headers = none, code?: string): Fault => ({
    reason,
    blame,
    happens: refused(status, { message, code }, headers)
  })

const until = (of: Blame["of"], time: Blame["for"]): Blame => ({ of, for: time })
const innocent = (reason: Fault["reason"]) => of(reason)
const limited = (time: number | "cooldown", headers: Headers): Fault =>
  of("rate_limited", until("model_on_credential", time))(429, "slow down", headers)
const auth = of("auth", until("credential", "rejected"))
const billing = of("billing", until("credential", "unpaid"))
const absent = of("model_unavailable", until("model", "absent"))
const lost = (code: string, isAnswering: boolean): Fault => ({
  reason: "transport",
  blame: undefined,
  happens: () => new ProviderError({ reason: classifyTransport({ code }, isAnswering) })
})

const date = (now: number, seconds: number): string => new Date(now + seconds * 1_000).toUTCString()

/** Of every row of the table of classification that a provider can bring about, and of every way to say how long. */
export const faults: ReadonlyArray<Fault> = [
  innocent("context_overflow")(400, "context_length_exceeded"),
  innocent("context_overflow")(429, "prompt is too long: maximum context length"),
  billing(402),
  billing(429, "insufficient_quota"),
  of("billing", until("credential", 90_000))(403, "no credits left", () => ({ "retry-after": "90" })),
  auth(401),
  { ...auth(403, "go away"), isUnexplained: true },
  auth(403, "go away", none, "key_revoked"),
  absent(404),
  { ...absent(403, "your plan does not have this model"), isUnexplained: true },
  absent(403, "your plan does not have this model", none, "not_in_plan"),
  innocent("bad_request")(403, "the input was flagged"),
  innocent("bad_request")(400, "the tool 'stripe_list_billing_meters' is defined twice"),
  innocent("history_rejected")(400, "tool_calls must be followed by tool messages"),
  innocent("tool_json")(400, "tool_use_failed"),
  innocent("bad_request")(400),
  innocent("bad_request")(413),
  innocent("bad_request")(422),
  limited("cooldown", none),
  limited(2_000, () => ({ "retry-after": "2" })),
  limited(1_500, () => ({ "retry-after": "1.5" })),
  limited(750, () => ({ "retry-after-ms": "750" })),
  limited(3_000, () => ({ "x-ratelimit-reset-requests": "3s" })),
  limited(90_000, () => ({ "retry-after": "90" })),
  limited(24 * 60 * 60_000, () => ({ "retry-after": "2592000" })),
  limited("cooldown", () => ({ "retry-after": "" })),
  limited("cooldown", () => ({ "retry-after": "-5" })),
  limited("cooldown", () => ({ "retry-after": "soon" })),
  limited("cooldown", (now) => ({ "retry-after": date(now, -60) })),
  innocent("overloaded")(529),
  innocent("overloaded")(503, "overloaded", () => ({ "retry-after": "4" })),
  innocent("server_error")(408),
  innocent("server_error")(409),
  innocent("server_error")(500),
  innocent("server_error")(502, "bad gateway", (now) => ({ "retry-after": date(now, 5) })),
  lost("ECONNREFUSED", false),
  lost("ECONNRESET", true),
  lost("ABORT_ERR", true),
  {
    reason: "stream_truncated",
    blame: undefined,
    happens: () => new ProviderError({ reason: new StreamTruncated({ message: "" }) })
  },
  {
    reason: "stream_corrupt",
    blame: undefined,
    happens: () => new ProviderError({ reason: new StreamCorrupt({ message: "" }) })
  },
  innocent("unknown")(418)
]
