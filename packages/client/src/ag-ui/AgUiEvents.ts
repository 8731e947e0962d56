import type { Json, StopReason } from "../Wire.ts"
import { type Dialect, errorOf, neverMade, type Segment, UiFold } from "../ui/UiFold.ts"

interface ToolCall {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
}

/** A message of the thread, as far as its events need it. What the client has sent is repeated as it is. */
export interface AgUiMessage {
  readonly id: string
  readonly role: string
  readonly toolCalls?: ReadonlyArray<{ readonly id: string }>
}

/** What the events of a run repeat of its input. */
export interface AgUiRun {
  readonly threadId: string
  readonly runId: string
  readonly messages: ReadonlyArray<AgUiMessage>
}

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

/** An event of AG-UI 1.0, as far as plans have them. */
export type AgUiEvent =
  | { readonly type: "RUN_STARTED"; readonly threadId: string; readonly runId: string; readonly metadata: object }
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
      readonly content: string
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

/** What an answer to an interrupt has as its `payload`. */
const decision = {
  type: "object",
  properties: { decision: { enum: ["approve", "reject"] }, note: { type: "string", maxLength: 4_096 } },
  required: ["decision"],
  additionalProperties: false
}

const textOf = (output: Json): string => (typeof output === "string" ? output : JSON.stringify(output))

/** A message that the run has made. */
interface Made {
  readonly id: string
  readonly role: "assistant" | "reasoning"
  readonly segment?: Segment
  readonly toolCalls: Array<ToolCall>
}

/** The messages that a run has made, to tell the client all messages of the thread where one has to go. */
class Messages {
  readonly #sent: ReadonlyArray<AgUiMessage>
  readonly #sentCalls: ReadonlySet<string>
  readonly #sentIds: ReadonlySet<string>
  #made: Array<Made | (AgUiMessage & { readonly role: "tool" })> = []

  constructor(sent: ReadonlyArray<AgUiMessage>) {
    this.#sent = sent
    this.#sentIds = new Set(sent.map(({ id }) => id))
    this.#sentCalls = new Set(sent.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id)))
  }

  /** Whether the client has sent this message, or this call, itself. */
  has(id: string): boolean {
    return this.#sentIds.has(id) || this.#sentCalls.has(id)
  }

  add(id: string, segment: Segment): void {
    this.#made.push({ id, role: segment.kind === "text" ? "assistant" : "reasoning", segment, toolCalls: [] })
  }

  addCall(parentId: string, call: ToolCall): void {
    const parent = this.#made.find((made): made is Made => made.role === "assistant" && made.id === parentId)
    if (parent === undefined) this.#made.push({ id: parentId, role: "assistant", toolCalls: [call] })
    else parent.toolCalls.push(call)
  }

  addResult(message: AgUiMessage & { readonly role: "tool" }): void {
    this.#made.push(message)
  }

  remove(segments: ReadonlyArray<Segment>): void {
    this.#made = this.#made.filter((made) => !("segment" in made) || !segments.some((one) => one === made.segment))
  }

  get all(): ReadonlyArray<AgUiMessage> {
    const made = this.#made.flatMap((message): ReadonlyArray<AgUiMessage> => {
      if (this.#sentIds.has(message.id)) return []
      if (message.role === "tool") return [message]
      const { id, role, segment, toolCalls } = message
      return [
        {
          id,
          role,
          ...(segment !== undefined && { content: segment.text }),
          ...(toolCalls.length > 0 && { toolCalls })
        }
      ]
    })
    return [...this.#sent, ...made]
  }
}

const dialect = ({ messages, runId, threadId }: AgUiRun): Dialect<AgUiEvent> => {
  const thread = new Messages(messages)
  let planId = ""
  let model: string | null = null

  const idOf = ({ attempt, kind, part, step }: Segment): string =>
    `${planId}.${step}.${attempt}${kind === "text" ? "" : ".reasoning"}${part === 0 ? "" : `.${part + 1}`}`
  const resultId = (call: string): string => `${call}.result`

  const result = (call: string, content: string): ReadonlyArray<AgUiEvent> => {
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
      const started = { type: "RUN_STARTED", threadId, runId, metadata } as const
      return step === undefined ? [started] : [started, { type: "STEP_STARTED", stepName: String(step) }]
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
      thread.remove(removed)
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
    finish: ({ data, hasProgress, output, started }) => {
      const { error, state, task_id: toolCallId } = data
      const { kind, tool } = started
      const isGood = state === "completed"
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
        ...result(toolCallId, isGood ? textOf(output) : errorOf(data))
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

/**
 * Turns the frames of a plan into the events of an AG-UI run. Tool calls have the ids of their tasks, interrupts as well. With `behind` the
 * run goes on with a plan that has waited for decisions about these calls, with `given` with one that has waited for these results.
 */
export const make = (run: AgUiRun, behind: Iterable<string> = [], given: Iterable<string> = []): UiFold<AgUiEvent> =>
  new UiFold(dialect(run), behind, given)
