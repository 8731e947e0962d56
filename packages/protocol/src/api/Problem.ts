import { PlanId } from "@bowline/domain/plan/Plan"
import { Schema } from "effect"
import { HttpApiSchema } from "effect/http-api"

/** The codes of refusals, each with its status, its meaning, and whether the same request may succeed later. */
export const problems = {
  invalid_request: { status: 400, retryable: false, title: "The request is not valid" },
  invalid_file: { status: 400, retryable: false, title: "The file is not valid" },
  unsupported_input: { status: 400, retryable: false, title: "No model takes this file" },
  unauthorized: { status: 401, retryable: false, title: "A valid key is required" },
  forbidden: { status: 403, retryable: false, title: "Not for this caller" },
  not_found: { status: 404, retryable: false, title: "Not found" },
  model_not_found: { status: 404, retryable: false, title: "There is no such model" },
  method_not_allowed: { status: 405, retryable: false, title: "The route does not have this method" },
  request_timeout: { status: 408, retryable: true, title: "The request did not come in time" },
  session_busy: { status: 409, retryable: true, title: "The session is busy" },
  approval_conflict: { status: 409, retryable: false, title: "The call is decided, or waits no longer" },
  plan_over: { status: 409, retryable: false, title: "The plan is over" },
  task_settled: { status: 409, retryable: false, title: "The call is settled" },
  entry_taken: { status: 409, retryable: false, title: "The entry was taken" },
  inbox_full: { status: 409, retryable: true, title: "The inbox is full" },
  idempotency_conflict: { status: 409, retryable: false, title: "The Idempotency-Key is another request's" },
  file_in_use: { status: 409, retryable: true, title: "A plan has the file" },
  quota_exceeded: { status: 409, retryable: false, title: "The files are too large together" },
  name_taken: { status: 409, retryable: false, title: "The name is taken" },
  too_many_schedules: { status: 409, retryable: false, title: "The caller has too many schedules" },
  events_expired: { status: 410, retryable: false, title: "The events are no longer kept" },
  payload_too_large: { status: 413, retryable: false, title: "The body is too large" },
  unsupported_media_type: { status: 415, retryable: false, title: "The gateway does not take such a body" },
  media_type_mismatch: { status: 415, retryable: false, title: "The file is not of the type that it was sent as" },
  range_not_satisfiable: { status: 416, retryable: false, title: "The file has no such part" },
  rate_limited: { status: 429, retryable: true, title: "The caller has made too many requests" },
  head_too_large: { status: 431, retryable: false, title: "The head of the request is too large" },
  internal: { status: 500, retryable: false, title: "The gateway failed" },
  hops_exceeded: { status: 508, retryable: false, title: "The plan has come through too many gateways" },
  draining: { status: 503, retryable: true, title: "The gateway is shutting down" },
  unavailable: { status: 503, retryable: true, title: "The gateway cannot do this now" }
} as const
export type ProblemCode = keyof typeof problems

/** A wrong field, such as `agents[0].skills[2].id`. An empty path means the whole body. */
export const Issue = Schema.Struct({ path: Schema.String, message: Schema.String })
export type Issue = typeof Issue.Type

const fields = {
  type: Schema.String,
  title: Schema.String,
  detail: Schema.String,
  retryable: Schema.Boolean,
  request_id: Schema.String,
  issues: Schema.optionalKey(Schema.Array(Issue)),
  issues_left_out: Schema.optionalKey(Schema.Int),
  failed: Schema.optionalKey(Schema.Array(Schema.String)),
  plan_id: Schema.optionalKey(PlanId)
}

/**
 * A problem document of RFC 9457 with members of our own: `code`, `retryable` and `request_id`; `issues` of a rejected
 * request (100 at most; `issues_left_out` counts the others); `failed`, the failed checks of a gateway that is not ready; and `plan_id` of a plan that may still run although
 * its caller can no longer wait for it, or whose events are no longer kept.
 */
export const Problem = Schema.Struct({ ...fields, status: Schema.Int, code: Schema.String })
export type Problem = typeof Problem.Type

export const make = (
  code: ProblemCode,
  rest: Pick<Problem, "detail" | "request_id" | "issues" | "issues_left_out" | "failed" | "plan_id">
): Problem => ({ type: `urn:bowline:problem:${code}`, ...problems[code], code, ...rest })

export const contentType = "application/problem+json"

const of = <const Code extends ProblemCode>(
  identifier: string,
  description: string,
  codes: readonly [Code, ...Array<Code>]
) =>
  Schema.Struct({
    ...fields,
    status: Schema.Literal(problems[codes[0]].status),
    code: Schema.Literals(codes)
  })
    .annotate({ identifier, description })
    .pipe(HttpApiSchema.asJson({ contentType }), HttpApiSchema.status(problems[codes[0]].status))

export const InvalidRequest = of("InvalidRequest", "The request is not valid: `issues` name each field", [
  "invalid_request"
])
export const Unauthorized = of("Unauthorized", "No key, or one that the gateway does not know", ["unauthorized"])
export const Forbidden = of("Forbidden", "For callers marked `admin`", ["forbidden"])
export const NotFound = of("NotFound", "No such thing, or somebody else's", ["not_found"])
export const SessionBusy = of("SessionBusy", "Another plan has the session", ["session_busy"])
export const IdempotencyConflict = of("IdempotencyConflict", "The `Idempotency-Key` came with another body before", [
  "idempotency_conflict"
])
export const ApprovalConflict = of("ApprovalConflict", "Another decision stands, or the plan is over", [
  "approval_conflict"
])
export const EntryRefused = of("EntryRefused", "The plan does not take the entry, or no longer", [
  "plan_over",
  "task_settled",
  "entry_taken",
  "inbox_full",
  "session_busy",
  "idempotency_conflict"
])
export const NameTaken = of("NameTaken", "Another schedule of the caller has the name, or there are too many", [
  "name_taken",
  "too_many_schedules"
])
export const EventsExpired = of("EventsExpired", "The plan is over for longer than its events are kept", [
  "events_expired"
])
export const InvalidQuestion = of("InvalidQuestion", "The request is not valid, or no model takes its files", [
  "invalid_request",
  "unsupported_input"
])
export const FileInUse = of("FileInUse", "A plan that is not over has the file", ["file_in_use"])
export const InvalidFile = of("InvalidFile", "The request is not valid, or the file is not", [
  "invalid_request",
  "invalid_file"
])
export const QuotaExceeded = of("QuotaExceeded", "The caller's files would be too large together", ["quota_exceeded"])
export const MediaTypeMismatch = of("MediaTypeMismatch", "The bytes are not what the `Content-Type` says", [
  "media_type_mismatch",
  "unsupported_media_type"
])
export const RangeNotSatisfiable = of("RangeNotSatisfiable", "The file ends before the `Range` begins", [
  "range_not_satisfiable"
])
export const PayloadTooLarge = of("PayloadTooLarge", "The body is larger than the gateway takes", ["payload_too_large"])
export const UnsupportedMediaType = of("UnsupportedMediaType", "The body is not `application/json`", [
  "unsupported_media_type"
])
export const RateLimited = of("RateLimited", "The caller's requests are used up: `Retry-After` says until when", [
  "rate_limited"
])
export const HopsExceeded = of("HopsExceeded", "Too many gateways, or this one for a second time", ["hops_exceeded"])
export const Internal = of("Internal", "A bug. The log has the cause under the `request_id`", ["internal"])
export const Unavailable = of(
  "Unavailable",
  "Shutting down, at its limit, or without its database: `Retry-After` says when to try again. With a `plan_id` the plan is there: read it, here or at another replica",
  ["draining", "unavailable"]
)
