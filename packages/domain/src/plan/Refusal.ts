import { Data } from "effect"
import type { GivenDecision } from "./Approval.ts"
import type { PlanId } from "./Plan.ts"

/** Another plan has the session, and the request asked not to wait, or too many wait already. */
export class SessionBusy extends Data.TaggedError("SessionBusy")<{ readonly message: string }> {}

/** It does not exist, or belongs to another caller: the two look the same. */
export class NotFound extends Data.TaggedError("NotFound")<{
  readonly what:
    | "plan"
    | "response"
    | "completion"
    | "session"
    | "message"
    | "credential"
    | "approval"
    | "entry"
    | "task"
    | "peer"
    | "delivery"
    | "effect"
    | "key"
    | "file"
    | "schedule"
    | "account"
}> {
  override get message(): string {
    return `There is no such ${this.what}`
  }
}

/** A well-formed request that asks for something that does not exist or is not allowed. `path` leads to the field. */
export class InvalidRequest extends Data.TaggedError("InvalidRequest")<{
  readonly issues: ReadonlyArray<{ readonly path: ReadonlyArray<PropertyKey>; readonly message: string }>
  /** Of a question whose files no model takes, or are too large for its session or its caller. */
  readonly code?: "unsupported_input" | "quota_exceeded"
}> {}

/** The caller has sent another body with the same `Idempotency-Key`. */
export class IdempotencyConflict extends Data.TaggedError("IdempotencyConflict") {
  override get message(): string {
    return "The Idempotency-Key came with another body before"
  }
}

/** The caller has a schedule of this name already. */
export class NameTaken extends Data.TaggedError("NameTaken") {
  override get message(): string {
    return "The caller has a schedule of this name already"
  }
}

/** The caller has as many schedules as it may have. */
export class TooManySchedules extends Data.TaggedError("TooManySchedules")<{ readonly limit: number }> {
  override get message(): string {
    return `The caller has ${this.limit} schedules, which is all it may have: delete some`
  }
}

/** The plan is over for longer than its events are kept. What it has come to stays as long as its session. */
export class EventsExpired extends Data.TaggedError("EventsExpired")<{ readonly plan_id: PlanId }> {
  override get message(): string {
    return "The events of the plan are no longer kept: GET /plans/{id} has what it has come to"
  }
}

/** A decision comes too late: another one stands, or the plan is over. */
export class ApprovalConflict extends Data.TaggedError("ApprovalConflict")<{
  readonly standing: GivenDecision | undefined
}> {
  override get message(): string {
    if (this.standing === undefined) return "The plan is over: the call no longer waits for a decision"
    const { by, decision } = this.standing
    return `${by} has ${decision === "approve" ? "approved" : "rejected"} the call already`
  }
}

/** What an entry of an inbox is refused for. Only `inbox_full` may pass. */
export type EntryObstacle = "plan_over" | "task_settled" | "entry_taken" | "inbox_full"

/** The plan does not take the entry, or no longer. */
export class EntryRefused extends Data.TaggedError("EntryRefused")<{
  readonly code: EntryObstacle
  readonly message: string
}> {}

/** The plan has come through too many gateways, or to the same one again. */
export class HopsExceeded extends Data.TaggedError("HopsExceeded")<{ readonly message: string }> {}

/** The gateway takes no more plans: it is shutting down, or has as many as it may have. */
export class NotAccepting extends Data.TaggedError("NotAccepting")<{ readonly code: "draining" | "unavailable" }> {
  override get message(): string {
    return this.code === "draining" ? "The gateway is shutting down" : "The gateway runs as many plans as it may"
  }
}

/** What a file is refused for. Only `file_in_use` may pass. */
export type FileObstacle =
  | "payload_too_large"
  | "quota_exceeded"
  | "media_type_mismatch"
  | "invalid_file"
  | "file_in_use"

/** A file is not taken, or not deleted. */
export class FileRefused extends Data.TaggedError("FileRefused")<{
  readonly code: FileObstacle
  readonly message: string
}> {}
