import type { AbortReason, Stage } from "./Wire.ts"

export interface Issue {
  /** The field, such as `agents[0].name`. Empty for the whole body. */
  readonly path: string
  readonly message: string
}

interface Details {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly status?: number | undefined
  readonly requestId?: string | undefined
  readonly planId?: string | undefined
  readonly lastEventId?: number | undefined
  readonly stage?: Stage | null | undefined
  readonly reason?: AbortReason | undefined
  readonly issues?: ReadonlyArray<Issue> | undefined
  readonly data?: object | undefined
  readonly retryAfterMs?: number | undefined
  readonly cause?: unknown
}

/**
 * Why there is no answer. `code` is one of the gateway's, or one of the client's own: `incomplete` (the stream of a plan broke, and could not
 * be resumed: attach to `planId` after `lastEventId` later), `frame_too_large`, `network`, `timeout`, and `unexpected_response` (what
 * answers is no gateway). `retryable` says whether the same may succeed later.
 */
export class BowlineError extends Error {
  override readonly name = "BowlineError"
  readonly _tag = "BowlineError"
  readonly code: string
  readonly retryable: boolean
  /** Of the answer, if the gateway refused a request. */
  readonly status: number | undefined
  readonly requestId: string | undefined
  readonly planId: string | undefined
  /** The last frame that came. */
  readonly lastEventId: number | undefined
  /** What the plan waited for when it ended. */
  readonly stage: Stage | null | undefined
  /** Why the plan was aborted. */
  readonly reason: AbortReason | undefined
  /** The wrong fields of a request. */
  readonly issues: ReadonlyArray<Issue> | undefined
  readonly data: object | undefined
  /** When the gateway wants to be asked again. */
  readonly retryAfterMs: number | undefined

  constructor(details: Details) {
    super(details.message, details.cause === undefined ? undefined : { cause: details.cause })
    this.code = details.code
    this.retryable = details.retryable
    this.status = details.status
    this.requestId = details.requestId
    this.planId = details.planId
    this.lastEventId = details.lastEventId
    this.stage = details.stage
    this.reason = details.reason
    this.issues = details.issues
    this.data = details.data
    this.retryAfterMs = details.retryAfterMs
  }
}

const codes: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  413: "payload_too_large",
  429: "rate_limited",
  502: "unavailable",
  503: "unavailable",
  504: "unavailable"
}

/** Answers that say nothing of the request: it may be sent again as it is. */
export const isPassing = (status: number | undefined): boolean =>
  status === 429 || status === 502 || status === 503 || status === 504

/** `Retry-After`: seconds, or a date. */
const retryAfter = (headers: Headers, now: number): number | undefined => {
  const text = headers.get("retry-after")?.trim()
  if (text === undefined || text === "") return undefined
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0)
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const toIssues = (value: unknown): ReadonlyArray<Issue> | undefined =>
  Array.isArray(value)
    ? value.filter(isObject).map(({ message, path }) => ({ path: text(path) ?? "", message: text(message) ?? "" }))
    : undefined

/** The error that an answer stands for. What stands between may answer in the gateway's place, without a problem document. */
export const fromResponse = (response: Response, body: unknown, now: number): BowlineError => {
  const { headers, status } = response
  const problem = isObject(body) ? body : {}
  const issues = toIssues(problem["issues"])
  const said = text(problem["detail"]) ?? `The answer is ${status}`
  return new BowlineError({
    code: text(problem["code"]) ?? codes[status] ?? (status >= 500 ? "internal" : "unexpected_response"),
    message: issues?.length ? `${said}: ${issues.map(({ message, path }) => `${path}: ${message}`).join("; ")}` : said,
    retryable: typeof problem["retryable"] === "boolean" ? problem["retryable"] : isPassing(status),
    status,
    requestId: text(problem["request_id"]) ?? headers.get("x-request-id") ?? undefined,
    planId: text(problem["plan_id"]),
    issues,
    data: problem,
    retryAfterMs: retryAfter(headers, now)
  })
}
