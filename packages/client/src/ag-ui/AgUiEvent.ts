import type { Json, StopReason } from "../Wire.ts"
import type { AgUiMessage } from "./AgUiThread.ts"

interface Interrupt {
  readonly id: string
  readonly reason: "tool_call"
  readonly message: string
  readonly toolCallId: string
  readonly responseSchema: object
  readonly expiresAt: string
  readonly metadata: { readonly tool: string; readonly input: Json; readonly why: string }
}

interface TokenUsage {
  readonly model?: string
  readonly inputTokens: number
  readonly outputTokens: number
  readonly totalTokens: number
  readonly cachedInputTokens: number
  readonly reasoningTokens: number
}

type Outcome =
  | { readonly type: "success" | "cancelled" }
  | { readonly type: "interrupt"; readonly interrupts: ReadonlyArray<Interrupt> }

/** What a tool has given: a text, or texts and files. */
export type AgUiContent =
  | string
  | ReadonlyArray<
      | { readonly type: "text"; readonly text: string }
      | {
          readonly type: "image" | "audio" | "video" | "document"
          readonly source: { readonly type: "data" | "url"; readonly value: string; readonly mimeType: string }
        }
    >

/** An event of AG-UI 1.0, as far as plans have them. */
export type AgUiEvent =
  | {
      readonly type: "RUN_STARTED"
      readonly threadId: string
      readonly runId: string
      readonly protocolVersion: string
      readonly metadata: object
    }
  | { readonly type: "STEP_STARTED" | "STEP_FINISHED"; readonly stepName: string }
  | { readonly type: "TEXT_MESSAGE_START"; readonly messageId: string; readonly role: "assistant" }
  | { readonly type: "REASONING_MESSAGE_START"; readonly messageId: string; readonly role: "reasoning" }
  | {
      readonly type: "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT"
      readonly messageId: string
      readonly delta: string
    }
  | {
      readonly type: "TEXT_MESSAGE_END" | "REASONING_START" | "REASONING_MESSAGE_END" | "REASONING_END"
      readonly messageId: string
    }
  | { readonly type: "MESSAGES_SNAPSHOT"; readonly messages: ReadonlyArray<AgUiMessage> }
  | {
      readonly type: "TOOL_CALL_START"
      readonly toolCallId: string
      readonly toolCallName: string
      readonly parentMessageId: string
    }
  | { readonly type: "TOOL_CALL_ARGS"; readonly toolCallId: string; readonly delta: string }
  | { readonly type: "TOOL_CALL_END"; readonly toolCallId: string }
  | {
      readonly type: "TOOL_CALL_RESULT"
      readonly messageId: string
      readonly toolCallId: string
      readonly role: "tool"
      readonly content: AgUiContent
    }
  | {
      readonly type: "ACTIVITY_SNAPSHOT"
      readonly messageId: string
      readonly activityType: "task"
      readonly content: object
    }
  | {
      readonly type: "SUBAGENT_STARTED"
      readonly subagentRunId: string
      readonly name: string
      readonly parentToolCallId: string
    }
  | { readonly type: "SUBAGENT_FINISHED"; readonly subagentRunId: string }
  | {
      readonly type: "SUBAGENT_ERROR"
      readonly subagentRunId: string
      readonly message: string
      readonly code?: string
    }
  | {
      readonly type: "RUN_FINISHED"
      readonly threadId: string
      readonly runId: string
      readonly outcome: Outcome
      readonly result?: { readonly text: string; readonly output?: Json; readonly stopReason: StopReason }
      readonly usage?: ReadonlyArray<TokenUsage>
    }
  | { readonly type: "RUN_ERROR"; readonly message: string; readonly code: string }
