// Made of the schemas of the API by `node packages/client/test/wire/makeWire.ts`. A test says when it has to be made again.

import type { Json } from "./Wire.ts"

export interface GivenFork {
  readonly step?: number
  readonly question?: 
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
  readonly model?: string
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
  readonly instructions?: string
  readonly preset?: string
  readonly tools?: "recorded" | "live" | "ask"
  readonly session?: "new"
}
