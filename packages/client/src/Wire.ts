// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

/** Any value of JSON. */
export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }

export type AbortReason = "disconnect" | "deadline" | "cancelled" | "superseded" | "shutdown"

export type Stage = "queue" | "provider" | "backoff" | "tool" | "client" | "approval" | "compaction"

export type StopReason =
  | "stop"
  | "max_steps"
  | "max_tool_calls"
  | "max_total_tokens"
  | "max_cost"
  | "max_tokens"
  | "content_filter"
  | "refusal"
  | "pause"
  | "loop"

export type PlanState = "queued" | "running" | "waiting" | "completed" | "failed" | "aborted"

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

export interface TaskError { readonly code: string; readonly message: string }

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
  readonly moved?: ReadonlyArray<{ readonly entry_id: string; readonly plan_id: string }>
  readonly untaken?: ReadonlyArray<string>
}

export interface Failure {
  readonly code: string
  readonly message: string
  readonly retryable: boolean
  readonly stage: Stage | null
  readonly reason?: AbortReason
  readonly data?: { readonly [key: string]: Json }
  readonly untaken?: ReadonlyArray<string>
}

export type AgentAuth =
  | { readonly type: "none" }
  | { readonly type: "bearer"; readonly token: string }
  | { readonly type: "bearer_env"; readonly env_var: string }
  | { readonly type: "did_signed"; readonly token_env_var?: string }
  | {
    readonly type: "oauth2_client_credentials"
    readonly token_url: string
    readonly client_id: string
    readonly client_secret_env_var: string
    readonly scope?: string
  }
  | {
    readonly type: "token_exchange"
    readonly token_url: string
    readonly client_id?: string
    readonly client_secret_env_var?: string
    readonly audience?: string
    readonly resource?: string
    readonly scope?: string
    readonly actor_token_env_var?: string
  }
  | { readonly type: "account"; readonly account: string }

export interface ToolEffect {
  readonly key: "arguments" | ReadonlyArray<string>
  readonly scope: "session" | "caller"
  readonly keep?: string
}

export interface Skill {
  readonly id: string
  readonly description?: string
  readonly input_schema?: { readonly [key: string]: Json }
  readonly output_modes?: ReadonlyArray<string>
  readonly tags?: ReadonlyArray<string>
  readonly timeout_ms?: number
  readonly idempotent?: boolean
  readonly polling?: boolean
  readonly approval?: "never" | "always"
  readonly effect?: ToolEffect
  readonly fetch_files?: boolean
}

export interface Agent {
  readonly name: string
  readonly endpoint: string
  readonly auth?: AgentAuth
  readonly dialect?: "auto" | "a2a-1.0" | "a2a-0.3" | "bindu"
  readonly trust?: { readonly verify_did?: boolean; readonly pinned_did?: string }
  readonly streaming?: boolean
  readonly context_id?: string
  readonly reference_task_ids?: ReadonlyArray<string>
  readonly skills?: ReadonlyArray<Skill>
}

export type MessagePart =
  | {
    readonly type: "text"
    readonly text: string
    readonly partial?: boolean
    readonly phase?: string
  }
  | {
    readonly type: "reasoning"
    readonly text: string
    readonly provider?: string
    readonly signature?: string
  }
  | {
    readonly type: "tool_call"
    readonly task_id: string
    readonly call_id?: string
    readonly tool: string
    readonly input: { readonly [key: string]: Json }
    readonly raw_input?: string
  }
  | {
    readonly type: "tool_result"
    readonly task_id: string
    readonly call_id?: string
    readonly state: TaskState
    readonly content: string
  }
  | {
    readonly type: "file"
    readonly media_type: string
    readonly name?: string
    readonly data: string
  }
  | {
    readonly type: "file"
    readonly media_type: string
    readonly name?: string
    readonly url: string
  }
  | {
    readonly type: "file"
    readonly file_id: string
    readonly media_type: string
    readonly name: string
    readonly bytes: number
    readonly width: number | null
    readonly height: number | null
    readonly pages?: number
  }

export interface Compacted {
  readonly summary: string
  readonly tokens_before: number
  readonly tokens_after: number
  readonly messages_compacted: number
}

export interface PlanRequest {
  readonly question: 
    | string
    | ReadonlyArray<
      | { readonly type: "text"; readonly text: string }
      | { readonly type: "file"; readonly file_id: string }
      | {
        readonly type: "file"
        readonly data: string
        readonly media_type: string
        readonly name?: string
      }
      | { readonly type: "file"; readonly url: string }>
  readonly session_id?: string
  readonly preset?: string
  readonly call?: {
    readonly agent: string
    readonly skill: string
    readonly input: { readonly [key: string]: Json }
  }
  readonly agents?: ReadonlyArray<Agent>
  readonly mcp_servers?: ReadonlyArray<{
    readonly name: string
    readonly allowed_tools?: ReadonlyArray<string>
    readonly approval?: "never" | "always"
    readonly tool_timeout_ms?: number
    readonly pinned_tools?: { readonly [key: string]: string }
    readonly effects?: { readonly [key: string]: ToolEffect }
    readonly required?: boolean
    readonly fetch_files?: boolean
    readonly url: string
    readonly auth?: AgentAuth
    readonly headers?: { readonly [key: string]: string }
  }>
  readonly tools?: ReadonlyArray<{
    readonly name: string
    readonly description?: string
    readonly input_schema: { readonly [key: string]: Json }
    readonly output_schema?: { readonly [key: string]: Json }
    readonly approval?: "never" | "always"
    readonly wait_timeout_ms?: number
    readonly effect?: ToolEffect
  }>
  readonly history?: ReadonlyArray<{ readonly role: "user" | "assistant"; readonly content: string }>
  readonly prior_summary?: string
  readonly webhooks?: ReadonlyArray<{
    readonly url: string
    readonly events?: ReadonlyArray<"plan.completed" | "plan.failed" | "plan.aborted" | "plan.waiting" | "approval.requested">
    readonly secret?: string
    readonly secret_env_var?: string
    readonly headers?: { readonly [key: string]: string }
    readonly include?: ReadonlyArray<"final">
  }>
  readonly metadata?: { readonly [key: string]: string }
  readonly preferences?: {
    readonly timeout_ms?: number
    readonly tool_timeout_ms?: number
    readonly max_steps?: number
    readonly max_hops?: number
    readonly max_tool_calls?: number
    readonly max_total_tokens?: number
    readonly max_cost_usd?: number
    readonly model?: string
    readonly response_format?: "text" | { readonly type: "json_schema"; readonly schema: { readonly [key: string]: Json } }
    readonly on_disconnect?: "cancel" | "continue"
    readonly disconnect_grace_ms?: number
    readonly on_busy?: "queue" | "reject" | "interrupt" | "steer"
    readonly approval?: "never" | "sensitive" | "always"
    readonly wait_timeout_ms?: number
    readonly on_input_required?: "end" | "wait"
    readonly may_wait?: boolean
  }
}

export interface Plan {
  readonly plan_id: string
  readonly session_id: string
  readonly external_session_id: string | null
  readonly state: PlanState
  readonly stage: Stage | null
  readonly model: string
  readonly caller: string
  readonly trace_id: string | null
  readonly preset: string | null
  readonly created_at: string
  readonly deadline_at: string | null
  readonly finished_at: string | null
  readonly steps: number
  readonly tool_calls: number
  readonly retries: number
  readonly usage: Usage
  readonly cost_usd: number | null
  readonly error: Failure | null
  readonly metadata: { readonly [key: string]: string }
  readonly question: string
  readonly final: Final | null
  readonly request: { readonly [key: string]: Json } | null
  readonly forked_from?: { readonly plan_id: string; readonly step: number }
}

export interface PlanSummary {
  readonly plan_id: string
  readonly session_id: string
  readonly external_session_id: string | null
  readonly state: PlanState
  readonly stage: Stage | null
  readonly model: string
  readonly caller: string
  readonly trace_id: string | null
  readonly preset: string | null
  readonly created_at: string
  readonly deadline_at: string | null
  readonly finished_at: string | null
  readonly steps: number
  readonly tool_calls: number
  readonly retries: number
  readonly usage: Usage
  readonly cost_usd: number | null
  readonly error: Failure | null
  readonly metadata: { readonly [key: string]: string }
  readonly question_preview: string
  readonly final: 
    | {
      readonly stop_reason: StopReason
      readonly usage: Usage
      readonly steps: number
      readonly tool_calls: number
      readonly duration_ms: number
      readonly moved?: ReadonlyArray<{ readonly entry_id: string; readonly plan_id: string }>
      readonly untaken?: ReadonlyArray<string>
    }
    | null
}

/** What every payload has. */
export interface FrameHead { readonly plan_id: string; readonly session_id: string; readonly at: string }

export type PlanFrame =
  | { readonly id: number; readonly event: "session"; readonly data: FrameHead & { readonly external_session_id: string | null; readonly created: boolean } }
  | { readonly id: number; readonly event: "plan"; readonly data: FrameHead & { readonly model: string; readonly deadline_at: string } }
  | { readonly id: number; readonly event: "queued"; readonly data: FrameHead & { readonly position: number; readonly reason: "session_busy" } }
  | { readonly id: number; readonly event: "step"; readonly data: FrameHead & { readonly step: number; readonly attempt: number } }
  | { readonly id: number; readonly event: "text.delta"; readonly data: FrameHead & { readonly step: number; readonly attempt: number; readonly delta: string } }
  | { readonly id: number; readonly event: "reasoning.delta"; readonly data: FrameHead & { readonly step: number; readonly attempt: number; readonly delta: string } }
  | { readonly id: number; readonly event: "retry"; readonly data: FrameHead & {
      readonly step: number
      readonly attempt: number
      readonly error: TaskError
      readonly delay_ms: number
      readonly credential: string | null
      readonly model: string
    } }
  | { readonly id: number; readonly event: "text.retract"; readonly data: FrameHead & { readonly step: number; readonly attempt: number; readonly reason?: "steered" } }
  | { readonly id: number; readonly event: "task.started"; readonly data: FrameHead & {
      readonly task_id: string
      readonly tool: string
      readonly kind: "peer" | "mcp" | "local" | "recipe" | "client"
      readonly agent: string | null
      readonly skill: string | null
      readonly agent_did: string | null
      readonly agent_did_source: "pinned" | "observed" | null
      readonly input: Json
    } }
  | { readonly id: number; readonly event: "task.progress"; readonly data: FrameHead & { readonly task_id: string; readonly state: string; readonly message?: string } }
  | { readonly id: number; readonly event: "task.artifact"; readonly data: FrameHead & {
      readonly task_id: string
      readonly content: Json
      readonly media_type: string
      readonly truncated: boolean
      readonly verified?: "yes" | "no" | "unsigned" | "unknown"
      readonly name?: string
      readonly file_id?: string
    } }
  | { readonly id: number; readonly event: "task.finished"; readonly data: FrameHead & {
      readonly task_id: string
      readonly state: TaskState
      readonly remote_task_id: string | null
      readonly remote_context_id: string | null
      readonly duration_ms: number
      readonly error?: TaskError
      readonly repeat_of?: string
    } }
  | { readonly id: number; readonly event: "approval.requested"; readonly data: FrameHead & {
      readonly task_id: string
      readonly tool: string
      readonly agent: string | null
      readonly input: Json
      readonly expires_at: string
      readonly why: "sensitive" | "always" | "skill" | "description_changed" | "maybe_done" | "fork"
      readonly data?: Json
    } }
  | { readonly id: number; readonly event: "approval.resolved"; readonly data: FrameHead & {
      readonly task_id: string
      readonly decision: "approve" | "reject"
      readonly note?: string
      readonly by: string
    } }
  | { readonly id: number; readonly event: "inbox.accepted"; readonly data: FrameHead & { readonly entry_id: string; readonly by: string; readonly text: string } }
  | { readonly id: number; readonly event: "inbox.taken"; readonly data: FrameHead & { readonly entry_id: string; readonly step: number } }
  | { readonly id: number; readonly event: "inbox.moved"; readonly data: FrameHead & { readonly entry_id: string; readonly moved_to: string | null } }
  | { readonly id: number; readonly event: "waiting"; readonly data: FrameHead & {
      readonly task_id: string | null
      readonly kind: "result" | "answer" | "account"
      readonly round: number
      readonly tool: string | null
      readonly agent: string | null
      readonly input: Json
      readonly message?: string
      readonly data?: Json
      readonly url?: string
      readonly expires_at: string
    } }
  | { readonly id: number; readonly event: "parked"; readonly data: FrameHead & { readonly wakes_at: string | null } }
  | { readonly id: number; readonly event: "woken"; readonly data: FrameHead & {
      readonly because: "entry" | "account" | "expired" | "timer" | "abort"
      readonly deadline_at: string
    } }
  | { readonly id: number; readonly event: "notice"; readonly data: FrameHead & { readonly code: string; readonly message: string; readonly data?: Json } }
  | { readonly id: number; readonly event: "compaction"; readonly data: FrameHead & Compacted }
  | { readonly id: number; readonly event: "usage"; readonly data: FrameHead & {
      readonly step: number
      readonly attempt: number
      readonly input_tokens: number
      readonly output_tokens: number
      readonly cached_input_tokens: number
      readonly reasoning_tokens: number
      readonly cost_usd: number | null
    } }
  | { readonly id: number; readonly event: "final"; readonly data: FrameHead & Final }
  | { readonly id: number; readonly event: "error"; readonly data: FrameHead & Failure }
  | { readonly id: number; readonly event: "done"; readonly data: FrameHead }
