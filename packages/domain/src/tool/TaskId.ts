import { Schema } from "effect"

/**
 * A UUID: one call of a tool. It travels with the call as its idempotency key, and stands for the provider's own id of
 * the call when a history is replayed.
 */
export const TaskId = Schema.String.check(Schema.isPattern(/^[0-9a-f-]{36}$/u)).pipe(Schema.brand("TaskId"))
export type TaskId = typeof TaskId.Type
