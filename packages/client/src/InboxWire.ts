// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

import type { Json } from "./Wire.ts"

export interface PendingApproval {
  readonly plan_id: string
  readonly session_id: string
  readonly task_id: string
  readonly tool: string
  readonly agent: string | null
  readonly input: Json
  readonly why: "sensitive" | "always" | "skill" | "description_changed" | "maybe_done" | "fork"
  readonly expires_at: string
  readonly caller: string
}

export interface Approval {
  readonly plan_id: string
  readonly task_id: string
  readonly decision: "approve" | "reject"
  readonly note?: string
  readonly by: string
}

export type NewEntry =
  | {
    readonly type: "text"
    readonly text: string
    readonly files?: ReadonlyArray<string>
    readonly when?: "boundary" | "now"
    readonly else?: "ask" | "reject"
  }
  | {
    readonly type: "result"
    readonly task_id: string
    readonly content: Json
    readonly is_error?: boolean
  }
  | {
    readonly type: "answer"
    readonly task_id: string
    readonly round?: number
    readonly text?: string
    readonly data?: Json
    readonly action?: "accept" | "decline" | "cancel"
  }
  | {
    readonly type: "decision"
    readonly task_id: string
    readonly decision: "approve" | "reject"
    readonly note?: string
    readonly input?: { readonly [key: string]: Json }
    readonly remember?: "plan" | "session"
  }

export interface AcceptedEntry { readonly entry_id: string; readonly plan_id: string; readonly moved: boolean }

export interface Waiting {
  readonly plan_id: string
  readonly session_id: string
  readonly task_id: string
  readonly kind: "approval" | "result" | "answer" | "account"
  readonly tool: string
  readonly agent: string | null
  readonly input: Json
  readonly why: "sensitive" | "always" | "skill" | "description_changed" | "maybe_done" | "fork" | null
  readonly message: string | null
  readonly data: Json | null
  readonly url: string | null
  readonly since: string
  readonly expires_at: string
  readonly caller: string
}
