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
 * Why there is no answer. `code` is one of the gateway's, or one of the client's own: `unreachable` (no gateway has ever answered this client:
 * the message has host, port and cause), `incomplete` (the stream of a plan broke, and could not be resumed: attach to `planId` after
 * `lastEventId` later), `frame_too_large`, `network`, `timeout`, and `unexpected_response` (what answers is no gateway). `retryable` says whether
 * the same may succeed later.
 */
export class BowlineError extends Error {
  override readonly name = "BowlineError"
  readonly _tag = "BowlineError"
  declare readonly code: string
  declare readonly retryable: boolean
  /** Of the answer, if the gateway refused a request. */
  declare readonly status: number | undefined
  declare readonly requestId: string | undefined
  declare readonly planId: string | undefined
  /** The last frame that came. */
  declare readonly lastEventId: number | undefined
  /** What the plan waited for when it ended. */
  declare readonly stage: Stage | null | undefined
  /** Why the plan was aborted. */
  declare readonly reason: AbortReason | undefined
  /** The wrong fields of a request. */
  declare readonly issues: ReadonlyArray<Issue> | undefined
  declare readonly data: object | undefined
  /** When the gateway wants to be asked again. */
  declare readonly retryAfterMs: number | undefined

  constructor(details: Details) {
    super(details.message, details)
    Object.assign(this, details)
  }
}

const codes: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not_found",
  413: "payload_too_large",
  429: "rate_limited"
}

const codeOf = (status: number): string =>
  isPassing(status) ? "unavailable" : status >= 500 ? "internal" : "unexpected_response"

/** Answers that say nothing of the request: it may be sent again as it is. */
export const isPassing = (status: number | undefined): boolean =>
  status !== undefined && [429, 502, 503, 504].includes(status)

/**
 * Whether something answered that is no gateway: a page, a stream that is garbage, a status without a problem document. A key that is
 * refused stays refused, whoever says so.
 */
export const isForeign = ({ code, data, status }: BowlineError): boolean =>
  code === "unexpected_response" ||
  (status !== undefined && status !== 401 && status !== 403 && !("code" in (data ?? {})))

/** The message at the bottom of an error: `fetch` itself says no more than that it failed. */
export const reasonOf = (error: unknown): string => {
  const cause: unknown =
    error instanceof AggregateError ? error.errors[0] : error instanceof Error ? error.cause : undefined
  if (cause !== undefined) return reasonOf(cause)
  return error instanceof Error ? error.message : String(error)
}

/** An error of the client's own. */
export const errorOf = (code: string, message: string, retryable = false, more?: Partial<Details>): BowlineError =>
  new BowlineError({ code, message, retryable, ...more })

/** What answers is no gateway. */
export const unexpected = (message: string): BowlineError => errorOf("unexpected_response", message)

/** `Retry-After`: seconds, or a date. */
const retryAfter = (headers: Headers, now: number): number | undefined => {
  const text = headers.get("retry-after") ?? ""
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now
  return Number.isNaN(ms) ? undefined : Math.max(ms, 0)
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null

export const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const toIssues = (value: unknown): ReadonlyArray<Issue> | undefined =>
  Array.isArray(value)
    ? value.filter(isObject).map(({ message, path }) => ({ path: textOf(path) ?? "", message: textOf(message) ?? "" }))
    : undefined

/** The error that an answer stands for. What stands between may answer in the gateway's place, without a problem document. */
export const fromResponse = (response: Response, body: unknown, now: number): BowlineError => {
  const { headers, status } = response
  const problem = isObject(body) ? body : {}
  const issues = toIssues(problem["issues"])
  const said = textOf(problem["detail"]) ?? `The answer is ${status}`
  return new BowlineError({
    code: textOf(problem["code"]) ?? codes[status] ?? codeOf(status),
    message: issues?.length ? `${said}: ${issues.map(({ message, path }) => `${path}: ${message}`).join("; ")}` : said,
    retryable: typeof problem["retryable"] === "boolean" ? problem["retryable"] : isPassing(status),
    status,
    requestId: textOf(problem["request_id"]) ?? headers.get("x-request-id") ?? undefined,
    planId: textOf(problem["plan_id"]),
    issues,
    data: problem,
    retryAfterMs: retryAfter(headers, now)
  })
}
