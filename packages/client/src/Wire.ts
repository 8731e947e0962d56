// Made by `node packages/client/test/wire/makeWire.ts` of the schemas of the API. A test says when it has to be made again.

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

export type AbortReason = "disconnect" | "deadline" | "cancelled" | "superseded" | "shutdown"

export type Stage = "queue" | "provider" | "backoff" | "tool" | "approval" | "compaction"

export type StopReason =
  | "stop"
  | "max_steps"
  | "max_tool_calls"
  | "max_total_tokens"
  | "max_tokens"
  | "content_filter"
  | "refusal"
  | "pause"
  | "loop"

export type TaskState =
  | "completed"
  | "failed"
  | "canceled"
  | "rejected"
  | "input-required"
  | "auth-required"
  | "payment-required"
  | "trust-verification-required"
  | "timed-out"
  | "interrupted"
  | "invalid"

export interface Usage {
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cached_input_tokens: number
  readonly reasoning_tokens: number
}

export interface Final {
  readonly stop_reason: StopReason
  readonly text: string
  readonly output?: Json
  readonly usage: Usage
  readonly steps: number
  readonly tool_calls: number
  readonly duration_ms: number
}

export interface Failure {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly stage: Stage | null
  readonly reason?: AbortReason
  readonly data?: { readonly [key: string]: Json }
}

export interface TaskError {
  readonly code: string
  readonly message: string
}

/** What every payload has. */
export interface FrameHead {
  readonly plan_id: string
  readonly session_id: string
  readonly at: string
}

export type PlanFrame =
  | {
      readonly id: number
      readonly event: "session"
      readonly data: FrameHead & { readonly external_session_id: string | null; readonly created: boolean }
    }
  | {
      readonly id: number
      readonly event: "plan"
      readonly data: FrameHead & { readonly model: string; readonly deadline_at: string }
    }
  | {
      readonly id: number
      readonly event: "queued"
      readonly data: FrameHead & { readonly position: number; readonly reason: "session_busy" }
    }
  | {
      readonly id: number
      readonly event: "step"
      readonly data: FrameHead & { readonly step: number; readonly attempt: number }
    }
  | {
      readonly id: number
      readonly event: "text.delta" | "reasoning.delta"
      readonly data: FrameHead & { readonly step: number; readonly attempt: number; readonly delta: string }
    }
  | {
      readonly id: number
      readonly event: "retry"
      readonly data: FrameHead & {
        readonly step: number
        readonly attempt: number
        readonly error: TaskError
        readonly delay_ms: number
        readonly credential: string | null
        readonly model: string
      }
    }
  | {
      readonly id: number
      readonly event: "text.retract"
      readonly data: FrameHead & { readonly step: number; readonly attempt: number }
    }
  | {
      readonly id: number
      readonly event: "task.started"
      readonly data: FrameHead & {
        readonly task_id: string
        readonly tool: string
        readonly kind: "peer" | "mcp" | "local" | "recipe"
        readonly agent: string | null
        readonly skill: string | null
        readonly agent_did: string | null
        readonly agent_did_source: "pinned" | "observed" | null
        readonly input: Json
      }
    }
  | {
      readonly id: number
      readonly event: "task.progress"
      readonly data: FrameHead & { readonly task_id: string; readonly state: string; readonly message?: string }
    }
  | {
      readonly id: number
      readonly event: "task.artifact"
      readonly data: FrameHead & {
        readonly task_id: string
        readonly content: Json
        readonly media_type: string
        readonly truncated: boolean
        readonly verified?: "yes" | "no" | "unsigned" | "unknown"
        readonly name?: string
      }
    }
  | {
      readonly id: number
      readonly event: "task.finished"
      readonly data: FrameHead & {
        readonly task_id: string
        readonly state: TaskState
        readonly remote_task_id: string | null
        readonly remote_context_id: string | null
        readonly duration_ms: number
        readonly error?: TaskError
      }
    }
  | {
      readonly id: number
      readonly event: "approval.requested"
      readonly data: FrameHead & {
        readonly task_id: string
        readonly tool: string
        readonly input: Json
        readonly expires_at: string
        readonly why: "sensitive" | "always" | "skill" | "description_changed"
      }
    }
  | {
      readonly id: number
      readonly event: "approval.resolved"
      readonly data: FrameHead & {
        readonly task_id: string
        readonly decision: "approve" | "reject"
        readonly note?: string
        readonly by: string
      }
    }
  | {
      readonly id: number
      readonly event: "notice"
      readonly data: FrameHead & { readonly code: string; readonly message: string; readonly data?: Json }
    }
  | {
      readonly id: number
      readonly event: "compaction"
      readonly data: FrameHead & {
        readonly summary: string
        readonly tokens_before: number
        readonly tokens_after: number
        readonly messages_compacted: number
      }
    }
  | {
      readonly id: number
      readonly event: "usage"
      readonly data: FrameHead & Usage & {
        readonly step: number
        readonly attempt: number
        readonly cost_usd: number | null
      }
    }
  | { readonly id: number; readonly event: "final"; readonly data: FrameHead & Final }
  | { readonly id: number; readonly event: "error"; readonly data: FrameHead & Failure }
  | { readonly id: number; readonly event: "done"; readonly data: FrameHead }
