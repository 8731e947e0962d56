import { Schema } from "effect"

/** How a task can end. */
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

/** Where a tool comes from. */
export const ToolKind = Schema.Literals(["peer", "mcp", "local", "recipe"])
export type ToolKind = typeof ToolKind.Type
