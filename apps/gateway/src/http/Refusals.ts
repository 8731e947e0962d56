import type { PlanId } from "@bowline/domain/plan/Plan"
import {
  type ApprovalConflict,
  type EntryRefused,
  type EventsExpired,
  type FileRefused,
  type HopsExceeded,
  type IdempotencyConflict,
  type InvalidRequest,
  type NameTaken,
  type NotAccepting,
  NotFound,
  type SessionBusy,
  type TooManySchedules
} from "@bowline/domain/plan/Refusal"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { formatPath } from "@bowline/protocol/unstable/api/Issues"
import {
  contentType,
  type Issue,
  make,
  type Problem,
  type ProblemCode,
  problems
} from "@bowline/protocol/unstable/api/Problem"
import type { BudgetSpent } from "@bowline/runtime/plan/SessionCompaction"
import { counter } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Context, Data, Effect, Schema, Struct } from "effect"
import { HttpServerResponse } from "effect/http"

const refusals = counter({
  name: "bowline.problems",
  description: "Requests that were answered with a problem document, by its code",
  labels: { code: Struct.keys(problems) }
})

/** The id of a request in its response, in problem documents and in the log. */
export const RequestId = Context.Reference<string>("@bowline/gateway/http/RequestId", { defaultValue: () => "" })

/** What the caller is told of a request that the gateway refuses, or that fails. */
export class Refused extends Data.TaggedError("Refused")<{
  readonly code: ProblemCode
  readonly detail: string
  readonly issues?: ReadonlyArray<Issue>
  readonly issues_left_out?: number
  readonly failed?: ReadonlyArray<string>
  readonly plan_id?: PlanId
  readonly headers?: Readonly<Record<string, string>>
}> {}

/** A longer list helps nobody, and a body can have thousands of wrong fields. */
const maxIssues = 100

export const invalid = (
  all: ReadonlyArray<Issue>,
  code: "invalid_request" | "unsupported_input" | "quota_exceeded" = "invalid_request"
): Refused => {
  const issues = all.slice(0, maxIssues)
  const fields = [...new Set(issues.map(({ path }) => path))].filter((path) => path !== "")
  const detail = fields.length === 0 ? issues.map(({ message }) => message).join(". ") : `Wrong: ${fields.join(", ")}`
  const rest = all.length - issues.length
  return new Refused({ code, detail, issues, ...(rest > 0 && { issues_left_out: rest }) })
}

/** What is wrong, in one line: of many issues the first ten. */
export const saidOf = ({ detail, issues = [] }: Refused): string =>
  issues
    .slice(0, 10)
    .map(({ message, path }) => (path === "" ? message : `${path}: ${message}`))
    .join("; ") || detail

/** A bug. The log has its cause; the caller gets the id under which to find it. */
export const internal = new Refused({ code: "internal", detail: "The log has the cause under this request_id" })

/** The caller has to wait until it has something left of its budget. */
export const budgetSpent = ({ message, nextDay }: BudgetSpent): Refused =>
  new Refused({ code: "rate_limited", detail: message, headers: { "retry-after": String(nextDay) } })

/** Seconds after which the caller may send the same request again. */
export const retryAfter = { "retry-after": "2" }

const headersOf = ({ code, headers }: Refused) =>
  code === "draining" || code === "unavailable" ? { ...retryAfter, ...headers } : headers

/** The problem document of a refusal, counted. */
export const count = (refused: Refused) =>
  Effect.zipWith(RequestId, refusals.update(1, { code: refused.code }), (request_id) => {
    const { detail, issues, issues_left_out, failed, plan_id } = refused
    return make(refused.code, {
      detail,
      request_id,
      ...(issues === undefined ? {} : { issues }),
      ...(issues_left_out === undefined ? {} : { issues_left_out }),
      ...(failed === undefined ? {} : { failed }),
      ...(plan_id === undefined ? {} : { plan_id })
    })
  })

/** A refusal as its caller reads it. */
export interface RefusalBody {
  readonly body: object
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
  /** In place of the problem's own. */
  readonly status?: number
}

/** How refusals are written: as problem documents, unless the protocol that the request speaks has a shape of its own. */
export const RefusalShape = Context.Reference<(refused: Refused, problem: Problem) => RefusalBody>(
  "@bowline/gateway/http/RefusalShape",
  { defaultValue: () => (_, body) => ({ body, contentType }) }
)

/** The answer to a request that is refused. */
export const respond = (refused: Refused): Effect.Effect<HttpServerResponse.HttpServerResponse> =>
  Effect.zipWith(count(refused), RefusalShape, (problem, shape) => {
    const { body, contentType, headers, status = problem.status } = shape(refused, problem)
    return HttpServerResponse.text(JSON.stringify(body), {
      status,
      contentType,
      headers: { ...headersOf(refused), ...headers }
    })
  })

export type Refusal =
  | Refused
  | InvalidRequest
  | HopsExceeded
  | SessionBusy
  | ApprovalConflict
  | EntryRefused
  | EventsExpired
  | FileRefused
  | IdempotencyConflict
  | NameTaken
  | NotAccepting
  | NotFound
  | StorageError
  | TooManySchedules

/** Refusals that say no more than their code. */
const codes = {
  HopsExceeded: "hops_exceeded",
  SessionBusy: "session_busy",
  ApprovalConflict: "approval_conflict",
  IdempotencyConflict: "idempotency_conflict",
  NameTaken: "name_taken",
  TooManySchedules: "too_many_schedules",
  NotFound: "not_found"
} as const

/** Why a request is refused, in the words of the gateway. */
export const toRefused = (refusal: Refusal): Refused => {
  switch (refusal._tag) {
    case "Refused":
      return refusal
    case "InvalidRequest":
      return invalid(
        refusal.issues.map(({ path, message }) => ({ path: formatPath(path), message })),
        refusal.code
      )
    case "FileRefused":
      return new Refused({
        code: refusal.code,
        detail: refusal.message,
        // The rest of the body is not read: the connection cannot be used again.
        ...(refusal.code === "payload_too_large" && { headers: { connection: "close" } })
      })
    case "EntryRefused":
    case "NotAccepting":
      return new Refused({ code: refusal.code, detail: refusal.message })
    case "EventsExpired":
      return new Refused({ code: "events_expired", detail: refusal.message, plan_id: refusal.plan_id })
    case "StorageError":
      return refusal.reason.isRetryable ? new Refused({ code: "unavailable", detail: refusal.message }) : internal
    default:
      return new Refused({ code: codes[refusal._tag], detail: refusal.message })
  }
}

/** Takes a part of a path for an id. A text of another shape gets a 404, like an unknown id. */
export const idOf = <Id extends Schema.Constraint>(schema: Id, what: NotFound["what"]) => {
  const isId = Schema.is(schema)
  return (text: string) => (isId(text) ? Effect.succeed(text) : Effect.fail(new NotFound({ what })))
}

/** Logs why the store has failed: its caller is not told. */
export const logFailure = <A, R>(handled: Effect.Effect<A, Refusal, R>) =>
  Effect.tapErrorTag(handled, "StorageError", (error) =>
    Effect.annotateLogs(Effect.logError("storage_failed", error.reason.cause), { reason: error.message })
  )

/** Answers a request with the result of its handler, or with the problem document of its refusal. */
export const answer = <A, R>(handled: Effect.Effect<A, Refusal, R>) =>
  handled.pipe(
    logFailure,
    Effect.catch((refusal) => respond(toRefused(refusal)))
  )
