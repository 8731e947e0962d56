import { Schema } from "effect"

/**
 * The id of one call of a tool, a UUID. The call carries it as its idempotency key. When a history is sent to a provider, it replaces
 * the provider's own id of the call.
 */
export const TaskId = Schema.String.check(Schema.isPattern(/^[0-9a-f-]{36}$/u)).pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type

/**
 * How a task can end.
 *
 * @example
 * ```ts
 * import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
 *
 * export const waitsForCaller = (state: TaskState): boolean => handedBack.has(state)
 * ```
 */
export const TaskState = Schema.Literals([
  "completed",
  "failed",
  "canceled",
  "rejected",
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required",
  "timed-out",
  "interrupted",
  "invalid"
])
export type TaskState = typeof TaskState.Type

/** The ends of a task in which the peer waits for an answer: the next call of the same skill continues the remote task. */
export const handedBack: ReadonlySet<TaskState> = new Set<TaskState>([
  "input-required",
  "auth-required",
  "payment-required",
  "trust-verification-required"
])

/** Where a tool comes from. */
export const ToolKind = Schema.Literals(["peer", "mcp", "local", "recipe", "client"])
export type ToolKind = typeof ToolKind.Type
