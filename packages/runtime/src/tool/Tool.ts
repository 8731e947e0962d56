import type { TaskError } from "@bowline/domain/plan/PlanEvent"
import type { TaskId } from "@bowline/domain/tool/TaskId"
import type { TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import type { Effect, Schema } from "effect"
import type { PeerEvent } from "../peer/PeerClient.ts"

/** A JSON Schema 2020-12. */
export type JsonSchema = { readonly [key: string]: Schema.Json }

export type ToolInput = { readonly [key: string]: Schema.Json }

/** How a task ended; `content` is all of what the model may read. */
export interface ToolResult {
  readonly state: Exclude<TaskState, "interrupted">
  readonly content: string
  readonly error?: TaskError
}

/** Anything the planner may call. It is found by its name in a map; the name is never parsed. */
export interface Tool {
  readonly name: string
  readonly kind: ToolKind
  readonly agent: string | null
  readonly skill: string | null
  readonly description: string
  readonly inputSchema: JsonSchema
  /** The tool's own limit in milliseconds, besides the request's. */
  readonly timeoutMs: number | undefined
  /** The input has matched the schema. What goes wrong is a result, too. Time is bounded by whoever calls. */
  readonly call: (
    input: ToolInput,
    taskId: TaskId,
    onEvent: (event: PeerEvent) => Effect.Effect<void>
  ) => Effect.Effect<ToolResult>
}
