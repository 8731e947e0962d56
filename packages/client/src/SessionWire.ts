// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

import type { Skill, MessagePart } from "./Wire.ts"

export interface Session {
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
}

export interface Message {
  readonly message_id: string
  readonly seq: number
  readonly role: "user" | "assistant" | "tool"
  readonly parts: ReadonlyArray<MessagePart>
  readonly plan_id: string
  readonly created_at: string
  readonly compacted: boolean
}
