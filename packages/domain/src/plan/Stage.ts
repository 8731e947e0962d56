import { Schema } from "effect"

/** What a plan is waiting for: every abort, timeout and crash is blamed on it. */
export const Stage = Schema.Literals(["queue", "provider", "backoff", "tool", "approval", "compaction"])
export type Stage = typeof Stage.Type
