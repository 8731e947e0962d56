// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

import type { Stage, PlanState, Skill } from "./Wire.ts"

export interface ListedSession {
  readonly session_id: string
  readonly external_session_id: string | null
  readonly created_at: string
  readonly last_active_at: string
  readonly expires_at: string
  readonly summary: string | null
  readonly agents: ReadonlyArray<{
    readonly name: string
    readonly endpoint: string
    readonly auth: { readonly type: string }
    readonly dialect: string
    readonly skills: ReadonlyArray<Skill>
  }>
  readonly message_count: number
  readonly first_question: string | null
  readonly last_plan: { readonly plan_id: string; readonly state: PlanState; readonly stage: Stage | null } | null
}

export interface Preset {
  readonly name: string
  readonly description: string | null
  readonly agents: ReadonlyArray<string>
  readonly mcp_servers: ReadonlyArray<string>
  readonly model: string
}

export interface Credential {
  readonly id: string
  readonly provider: string
  readonly state: "ok" | "cooldown" | "out"
  readonly windows: ReadonlyArray<{ readonly model: string | null; readonly reason: string; readonly until: string }>
  readonly last_used_at: string | null
}

export interface Peer {
  readonly endpoint: string
  readonly dialect: "a2a-1.0" | "a2a-0.3" | "bindu" | null
  readonly card: { readonly name: string | null; readonly fetched_at: string } | null
  readonly breaker: { readonly state: "closed" | "open" | "half-open"; readonly open_until: string | null }
  readonly configured: ReadonlyArray<{ readonly preset: string; readonly name: string }>
  readonly calls: {
    readonly calls: number
    readonly failures: number
    readonly duration_ms: { readonly p50: number; readonly p95: number } | null
    readonly last_error: { readonly at: string; readonly message: string } | null
  }
}

export interface McpServerStatus {
  readonly url: string
  readonly revision: string | null
  readonly error: string | null
  readonly error_at: string | null
  readonly configured: ReadonlyArray<{ readonly preset: string; readonly name: string }>
  readonly calls: {
    readonly calls: number
    readonly failures: number
    readonly duration_ms: { readonly p50: number; readonly p95: number } | null
    readonly last_error: { readonly at: string; readonly message: string } | null
  }
}

export interface Overview {
  readonly since: string
  readonly until: string
  readonly step_ms: number
  readonly caller: string | null
  readonly plans: {
    readonly queued: number
    readonly running: number
    readonly waiting: number
    readonly completed: number
    readonly failed: number
    readonly aborted: number
  }
  readonly first_token_ms: { readonly p50: number; readonly p95: number } | null
  readonly duration_ms: { readonly p50: number; readonly p95: number } | null
  readonly stretches: ReadonlyArray<{
    readonly at: string
    readonly plans: {
      readonly queued: number
      readonly running: number
      readonly waiting: number
      readonly completed: number
      readonly failed: number
      readonly aborted: number
    }
    readonly first_token_p95: number | null
    readonly duration_p95: number | null
  }>
  readonly failures: ReadonlyArray<{ readonly error_code: string; readonly reason: string | null; readonly plans: number }>
  readonly models: ReadonlyArray<{
    readonly model: string
    readonly plans: number
    readonly cost_usd: number | null
    readonly unpriced: number
  }>
  readonly callers: ReadonlyArray<{
    readonly caller: string
    readonly plans: number
    readonly cost_usd: number | null
    readonly unpriced: number
  }>
  readonly tools: ReadonlyArray<{
    readonly tool: string
    readonly kind: "peer" | "mcp" | "local" | "recipe" | "client"
    readonly calls: number
    readonly failures: number
    readonly duration_ms: { readonly p50: number; readonly p95: number } | null
  }>
  readonly open: ReadonlyArray<{
    readonly state: PlanState
    readonly stage: Stage | null
    readonly plans: number
    readonly oldest_at: string
  }>
  readonly replicas: 
    | ReadonlyArray<{
      readonly replica: string
      readonly alive: boolean
      readonly queued: number
      readonly running: number
    }>
    | null
}

export interface NewKey {
  readonly name: string
  readonly admin?: boolean
  readonly expires?: string
  readonly note?: string
}

export interface IssuedKey {
  readonly key_id: string
  readonly name: string
  readonly admin: boolean
  readonly note: string | null
  readonly created_by: string
  readonly created_at: string
  readonly last_used_at: string | null
  readonly expires_at: string | null
}

export interface ShownKey {
  readonly key_id: string
  readonly name: string
  readonly admin: boolean
  readonly note: string | null
  readonly created_by: string
  readonly created_at: string
  readonly last_used_at: string | null
  readonly expires_at: string | null
  readonly key: string
}

export interface ConnectedAccount {
  readonly name: string
  readonly connected_at: string
  readonly scopes: ReadonlyArray<string>
  readonly expires_at: string | null
}

export interface Feedback {
  readonly plan_id: string
  readonly caller: string
  readonly score: number
  readonly comment: string | null
  readonly labels: ReadonlyArray<string>
  readonly at: string
}

export interface Spending {
  readonly day?: string
  readonly caller?: string
  readonly model?: string
  readonly preset?: string | null
  readonly plans: number
  readonly input_tokens: number
  readonly cached_input_tokens: number
  readonly output_tokens: number
  readonly cost_usd: number | null
}
