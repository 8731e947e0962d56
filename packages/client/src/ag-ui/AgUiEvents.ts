import type { Json } from "../Wire.ts"
import { type Dialect, errorOf, neverMade, type Segment, type ShownFile } from "../ui/Dialect.ts"
import { type Leg, UiFold } from "../ui/UiFold.ts"
import type { AgUiContent, AgUiEvent } from "./AgUiEvent.ts"
import { type AgUiMessage, AgUiThread } from "./AgUiThread.ts"

export type { AgUiMessage }

/** What the events of a run repeat of its input. */
export interface AgUiRun {
  readonly threadId: string
  readonly runId: string
  readonly messages: ReadonlyArray<AgUiMessage>
}

/** The version of AG-UI whose events these are. */
export const protocolVersion = "1.0"

/** What an agent of AG-UI whose runs are plans can do, as that protocol says it. */
export const capabilities = {
  tools: { supported: true, parallelCalls: true, clientProvided: true },
  output: { structuredOutput: true, supportedMimeTypes: ["text/plain", "application/json"] },
  state: { snapshots: false, deltas: false, persistentState: true },
  multiAgent: { supported: true, delegation: true, handoffs: false },
  reasoning: { supported: true, streaming: true, encrypted: false },
  humanInTheLoop: { supported: true, approvals: true, interventions: true, interrupts: true, approveWithEdits: false }
}

/** What an answer to an interrupt has as its `payload`. */
const decision = {
  type: "object",
  properties: { decision: { enum: ["approve", "reject"] }, note: { type: "string", maxLength: 4_096 } },
  required: ["decision"],
  additionalProperties: false
}

const textOf = (output: Json): string => (typeof output === "string" ? output : JSON.stringify(output))

/** A file as a part of what a tool has given. */
const partOf = ({ mediaType: mimeType, url }: ShownFile): Exclude<AgUiContent, string>[number] => {
  const [, family = ""] = /^(image|audio|video)\//.exec(mimeType) ?? []
  const inline = `data:${mimeType};base64,`
  const isInline = url.startsWith(inline)
  return {
    type: family === "image" || family === "audio" || family === "video" ? family : "document",
    source: { type: isInline ? "data" : "url", value: isInline ? url.slice(inline.length) : url, mimeType }
  }
}

const dialect = ({ messages, runId, threadId }: AgUiRun): Dialect<AgUiEvent> => {
  const thread = new AgUiThread(messages)
  let planId = ""
  let model: string | null = null

  const idOf = ({ attempt, kind, part, step }: Segment): string =>
    `${planId}.${step}.${attempt}${kind === "text" ? "" : ".reasoning"}${part === 0 ? "" : `.${part + 1}`}`
  const resultId = (call: string): string => `${call}.result`

  const result = (call: string, content: AgUiContent): ReadonlyArray<AgUiEvent> => {
    const message = { id: resultId(call), role: "tool" as const, toolCallId: call, content }
    if (thread.has(message.id)) return []
    thread.addResult(message)
    return [{ type: "TOOL_CALL_RESULT", messageId: message.id, toolCallId: call, role: "tool", content }]
  }
  const activity = (call: string, content: object): AgUiEvent => ({
    type: "ACTIVITY_SNAPSHOT",
    messageId: `${call}.activity`,
    activityType: "task",
    content
  })

  return {
    begin: (head, step) => {
      planId = head.plan_id
      model = head.model
      const metadata = { planId, sessionId: head.session_id, model }
      const started = { type: "RUN_STARTED", threadId, runId, protocolVersion, metadata } as const
      return step === undefined ? [started] : [started, { type: "STEP_STARTED", stepName: String(step) }]
    },
    follow: (head) => {
      planId = head.plan_id
      model = head.model
      return []
    },
    startStep: (step) => [{ type: "STEP_STARTED", stepName: String(step) }],
    endStep: (step) => [{ type: "STEP_FINISHED", stepName: String(step) }],
    open: (segment) => {
      const messageId = idOf(segment)
      thread.add(messageId, segment)
      return segment.kind === "text"
        ? [{ type: "TEXT_MESSAGE_START", messageId, role: "assistant" }]
        : [
            { type: "REASONING_START", messageId },
            { type: "REASONING_MESSAGE_START", messageId, role: "reasoning" }
          ]
    },
    add: (segment, delta) => [
      {
        type: segment.kind === "text" ? "TEXT_MESSAGE_CONTENT" : "REASONING_MESSAGE_CONTENT",
        messageId: idOf(segment),
        delta
      }
    ],
    close: (segment) => {
      const messageId = idOf(segment)
      return segment.kind === "text"
        ? [{ type: "TEXT_MESSAGE_END", messageId }]
        : [
            { type: "REASONING_MESSAGE_END", messageId },
            { type: "REASONING_END", messageId }
          ]
    },
    retract: (removed) => {
      thread.remove(removed, removed.map(idOf))
      return [{ type: "MESSAGES_SNAPSHOT", messages: thread.all }]
    },
    show: ({ input, task_id: toolCallId, tool: toolCallName }, parent) => {
      if (thread.has(toolCallId)) return []
      const parentMessageId = parent === undefined ? `${toolCallId}.call` : idOf(parent)
      const delta = JSON.stringify(input)
      const called = { name: toolCallName, arguments: delta }
      thread.addCall(parentMessageId, { id: toolCallId, type: "function", function: called })
      return [
        { type: "TOOL_CALL_START", toolCallId, toolCallName, parentMessageId },
        { type: "TOOL_CALL_ARGS", toolCallId, delta },
        { type: "TOOL_CALL_END", toolCallId }
      ]
    },
    start: ({ agent, kind, task_id, tool }) =>
      kind === "peer"
        ? [{ type: "SUBAGENT_STARTED", subagentRunId: task_id, name: agent ?? tool, parentToolCallId: task_id }]
        : [],
    progress: ({ message, state, task_id: toolCallId }, { tool }) => [
      activity(toolCallId, { toolCallId, tool, state, ...(message !== undefined && { message }) })
    ],
    finish: ({ data, files, hasProgress, output, started }) => {
      const { error, state, task_id: toolCallId } = data
      const { kind, tool } = started
      const isGood = state === "completed"
      const text = isGood ? textOf(output) : errorOf(data)
      const ended: AgUiEvent = isGood
        ? { type: "SUBAGENT_FINISHED", subagentRunId: toolCallId }
        : {
            type: "SUBAGENT_ERROR",
            subagentRunId: toolCallId,
            message: errorOf(data),
            ...(error !== undefined && { code: error.code })
          }
      return [
        ...(hasProgress ? [activity(toolCallId, { toolCallId, tool, state })] : []),
        ...(kind === "peer" ? [ended] : []),
        ...result(toolCallId, files.length === 0 ? text : [{ type: "text", text }, ...files.map(partOf)])
      ]
    },
    hand: () => [],
    request: () => [],
    resolve: () => [],
    settle: ({ task_id }) => result(task_id, neverMade),
    pause: (waiting) => [
      {
        type: "RUN_FINISHED",
        threadId,
        runId,
        // Whoever gives the results of its own tools asks again with them.
        outcome:
          waiting.length === 0
            ? { type: "success" }
            : {
                type: "interrupt",
                interrupts: waiting.map(({ expires_at, input, task_id, tool, why }) => ({
                  id: task_id,
                  reason: "tool_call",
                  message: `${tool} waits for an approval`,
                  toolCallId: task_id,
                  responseSchema: decision,
                  expiresAt: expires_at,
                  metadata: { tool, input, why }
                }))
              }
      }
    ],
    complete: ({ output, stop_reason: stopReason, text, usage }) => [
      {
        type: "RUN_FINISHED",
        threadId,
        runId,
        outcome: { type: "success" },
        result: { text, ...(output !== undefined && { output }), stopReason },
        usage: [
          {
            ...(model !== null && { model }),
            inputTokens: usage.input_tokens,
            outputTokens: usage.output_tokens,
            totalTokens: usage.input_tokens + usage.output_tokens,
            cachedInputTokens: usage.cached_input_tokens,
            reasoningTokens: usage.reasoning_tokens
          }
        ]
      }
    ],
    fail: ({ code, message, reason }) =>
      reason === "cancelled"
        ? [{ type: "RUN_FINISHED", threadId, runId, outcome: { type: "cancelled" } }]
        : [{ type: "RUN_ERROR", message, code }]
  }
}

/** Turns the frames of a plan into the events of an AG-UI run. Tool calls have the ids of their tasks, interrupts as well. */
export const make = (run: AgUiRun, leg?: Leg): UiFold<AgUiEvent> => new UiFold(dialect(run), leg)
