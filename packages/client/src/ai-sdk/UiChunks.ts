import type { Json, StopReason, Usage } from "../Wire.ts"
import { type Dialect, errorOf, neverMade, type Segment } from "../ui/Dialect.ts"
import { type Leg, UiFold } from "../ui/UiFold.ts"

interface Tool {
  readonly toolCallId: string
  /** A tool of the page's own is neither executed elsewhere nor dynamic, unless its call had to be approved before. */
  readonly providerExecuted?: boolean
  readonly dynamic?: true
}

/** The plan that answers. */
interface Asked {
  readonly planId: string
  readonly sessionId: string
  readonly model: string | null
}

/** A chunk of the AI SDK's UI message stream (version 7), as far as plans have them. */
export type UiChunk =
  | {
      readonly type: "start"
      readonly messageId: string
      readonly messageMetadata: Asked
    }
  | { readonly type: "message-metadata"; readonly messageMetadata: Asked }
  | { readonly type: "start-step" | "finish-step" | "reset-step" }
  | { readonly type: "text-start" | "text-end" | "reasoning-start" | "reasoning-end"; readonly id: string }
  | { readonly type: "text-delta" | "reasoning-delta"; readonly id: string; readonly delta: string }
  | (Tool & {
      readonly type: "tool-input-available"
      readonly toolName: string
      readonly input: Json
      readonly title?: string
    })
  | (Tool & { readonly type: "tool-output-available"; readonly output: Json })
  | (Tool & { readonly type: "tool-output-error"; readonly errorText: string })
  | { readonly type: "tool-output-denied"; readonly toolCallId: string }
  | {
      readonly type: "tool-approval-request"
      readonly approvalId: string
      readonly toolCallId: string
      readonly reason: string
      readonly approvalDescriptor: { readonly expiresAt: string }
    }
  | {
      readonly type: "tool-approval-response"
      readonly approvalId: string
      readonly approved: boolean
      readonly reason?: string
      readonly providerExecuted: true
    }
  | { readonly type: "file"; readonly url: string; readonly mediaType: string }
  | {
      readonly type: "data-task"
      readonly id: string
      readonly data: { readonly state: string; readonly message?: string }
    }
  | {
      readonly type: "finish"
      readonly finishReason: "stop" | "length" | "content-filter" | "tool-calls"
      readonly messageMetadata?: { readonly stopReason: StopReason; readonly usage: Usage; readonly output?: Json }
    }
  | { readonly type: "abort"; readonly reason: string }
  | { readonly type: "error"; readonly errorText: string }

const finishReasons: Readonly<Record<StopReason, "stop" | "length" | "content-filter">> = {
  stop: "stop",
  pause: "stop",
  max_steps: "length",
  max_tool_calls: "length",
  max_total_tokens: "length",
  max_cost: "length",
  max_tokens: "length",
  loop: "length",
  content_filter: "content-filter",
  refusal: "content-filter"
}

const idOf = ({ attempt, step }: Segment): string => `${step}.${attempt}`

const tool = (toolCallId: string) => ({ toolCallId, providerExecuted: true, dynamic: true }) as const

/** The client drops all parts of the step, so what is kept comes again. */
const whole = (segment: Segment): ReadonlyArray<UiChunk> => {
  const id = idOf(segment)
  return [
    { type: `${segment.kind}-start`, id },
    { type: `${segment.kind}-delta`, id, delta: segment.text },
    { type: `${segment.kind}-end`, id }
  ]
}

/** `decided` are the calls whose decisions the message has already. */
const dialect = (messageId: string | undefined, decided: ReadonlySet<string>): Dialect<UiChunk> => ({
  begin: ({ model, plan_id, session_id }) => [
    {
      type: "start",
      messageId: messageId ?? plan_id,
      messageMetadata: { planId: plan_id, sessionId: session_id, model }
    }
  ],
  follow: ({ model, plan_id, session_id }) => [
    { type: "message-metadata", messageMetadata: { planId: plan_id, sessionId: session_id, model } }
  ],
  startStep: () => [{ type: "start-step" }],
  endStep: () => [{ type: "finish-step" }],
  open: (segment) => [{ type: `${segment.kind}-start`, id: idOf(segment) }],
  add: (segment, delta) => [{ type: `${segment.kind}-delta`, id: idOf(segment), delta }],
  close: (segment) => [{ type: `${segment.kind}-end`, id: idOf(segment) }],
  retract: (_, kept) => [{ type: "reset-step" }, ...kept.flatMap(whole)],
  show: (call, _, isOwn) => {
    const { agent = null, skill = null } = "skill" in call ? call : {}
    const title = agent === null || skill === null ? {} : { title: `${agent}.${skill}` }
    const { input, task_id, tool: toolName } = call
    return [
      { type: "tool-input-available", ...(isOwn ? { toolCallId: task_id } : tool(task_id)), toolName, input, ...title }
    ]
  },
  start: () => [],
  hand: ({ input, task_id, tool: toolName }) => [
    { type: "tool-input-available", ...tool(task_id), providerExecuted: false, toolName, input }
  ],
  progress: ({ message, state, task_id }) => [
    { type: "data-task", id: task_id, data: { state, ...(message !== undefined && { message }) } }
  ],
  finish: ({ data, hasProgress, isOwn, isRejected, output }) => {
    const { state, task_id } = data
    const own = isOwn ? { toolCallId: task_id } : tool(task_id)
    const last: ReadonlyArray<UiChunk> = hasProgress ? [{ type: "data-task", id: task_id, data: { state } }] : []
    if (state === "completed") return [...last, { type: "tool-output-available", ...own, output }]
    if (isRejected) return [...last, { type: "tool-output-denied", toolCallId: task_id }]
    return [...last, { type: "tool-output-error", ...own, errorText: errorOf(data) }]
  },
  file: (file) => [{ type: "file", ...file }],
  request: ({ expires_at, task_id, why }) => [
    {
      type: "tool-approval-request",
      approvalId: task_id,
      toolCallId: task_id,
      reason: why,
      approvalDescriptor: { expiresAt: expires_at }
    }
  ],
  resolve: ({ decision, note, task_id }) =>
    // Version 6 does not know this chunk, and needs none.
    decided.has(task_id)
      ? []
      : [
          {
            type: "tool-approval-response",
            approvalId: task_id,
            approved: decision === "approve",
            ...(note !== undefined && { reason: note }),
            providerExecuted: true
          }
        ],
  settle: ({ task_id }) => [{ type: "tool-output-error", ...tool(task_id), errorText: neverMade }],
  pause: (_, why) => [{ type: "finish", finishReason: why === "waits" ? "tool-calls" : "stop" }],
  complete: ({ output, stop_reason: stopReason, usage }) => [
    {
      type: "finish",
      finishReason: finishReasons[stopReason],
      messageMetadata: { stopReason, usage, ...(output !== undefined && { output }) }
    }
  ],
  fail: ({ code, message, reason }) => {
    // Clients take a message that ends with `abort` alone for a whole one: only who has cancelled knows better.
    const error = { type: "error", errorText: `${code}: ${message}` } as const
    if (reason === undefined) return [error]
    return reason === "cancelled" ? [{ type: "abort", reason }] : [{ type: "abort", reason }, error]
  }
})

/**
 * Turns the frames of a plan into the chunks of the AI SDK's UI message stream. Approvals and data parts have the id of their call. The message has
 * the plan's id, unless it is given another one: what goes on with a message has that of the message, and what the plan answers to a text has one of its own.
 */
export const make = (leg?: Leg, messageId = leg?.entry): UiFold<UiChunk> =>
  new UiFold(dialect(messageId, new Set(leg?.decided)), leg)
