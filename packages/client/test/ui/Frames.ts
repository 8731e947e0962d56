import type { Frame } from "../../src/Bowline.ts"
import type { FrameData } from "../../src/ui/Dialect.ts"
import type { PlanFrame } from "../../src/Wire.ts"

const head = { plan_id: "plan_1", session_id: "ses_1", at: "2026-01-01T00:00:00.000Z" }

type Own<Event extends PlanFrame["event"]> = Omit<FrameData<Event>, keyof typeof head>

let count = 0

/** A frame of one plan. */
export const frame = <Event extends PlanFrame["event"]>(event: Event, data: Own<Event>): Frame => ({
  id: ++count,
  event,
  data: { ...head, ...data }
})

export const usage = { input_tokens: 10, output_tokens: 4, cached_input_tokens: 2, reasoning_tokens: 1 }

export const plan = frame("plan", { model: "p/m", deadline_at: "2026-01-01T00:30:00.000Z" })
export const step = (step: number): Frame => frame("step", { step, attempt: 1 })
export const say = (delta: string, step = 1, attempt = 1): Frame => frame("text.delta", { step, attempt, delta })
export const think = (delta: string, step = 1, attempt = 1): Frame => frame("reasoning.delta", { step, attempt, delta })
export const retract = (attempt: number, step = 1): Frame => frame("text.retract", { step, attempt })

export const started = (task_id: string, kind: "peer" | "local" | "client" = "peer"): Frame =>
  frame("task.started", {
    task_id,
    tool: "rigger_ask",
    kind,
    agent: kind === "peer" ? "rigger" : null,
    skill: kind === "peer" ? "ask" : null,
    agent_did: null,
    agent_did_source: null,
    input: { input: "?" }
  })

export const waiting = (task_id: string): Frame =>
  frame("waiting", {
    task_id,
    kind: "result",
    round: 1,
    tool: "rigger_ask",
    agent: null,
    input: { input: "?" },
    expires_at: "2026-01-01T00:30:00.000Z"
  })

/** A call that waits for its user to connect an account. */
export const unconnected = (task_id: string): Frame =>
  frame("waiting", {
    task_id,
    kind: "account",
    round: 1,
    tool: "rigger_ask",
    agent: "rigger",
    input: { input: "?" },
    message: "Connect books",
    url: "https://gateway.test/connect",
    expires_at: "2026-01-01T00:30:00.000Z"
  })

/** A plan that waits for its user to connect the account of a server, which lists no tools before. */
export const unlisted = (agent: string): Frame =>
  frame("waiting", {
    task_id: null,
    kind: "account",
    round: 1,
    tool: null,
    agent,
    input: {},
    message: "Connect books",
    url: "https://gateway.test/connect",
    expires_at: "2026-01-01T00:30:00.000Z"
  })

export const artifact = (task_id: string, content: string): Frame =>
  frame("task.artifact", { task_id, content, media_type: "text/plain", truncated: false })

export const finished = (task_id: string, state: Own<"task.finished">["state"], message?: string): Frame =>
  frame("task.finished", {
    task_id,
    state,
    remote_task_id: null,
    remote_context_id: null,
    duration_ms: 1,
    ...(message !== undefined && { error: { code: "task_failed", message } })
  })

export const requested = (task_id: string): Frame =>
  frame("approval.requested", {
    task_id,
    tool: "rigger_ask",
    agent: "rigger",
    input: { input: "?" },
    expires_at: "2026-01-01T00:30:00.000Z",
    why: "skill"
  })

export const resolved = (task_id: string, decision: "approve" | "reject", note?: string): Frame =>
  frame("approval.resolved", { task_id, decision, by: "ann", ...(note !== undefined && { note }) })

export const final = (text: string, stop_reason: Own<"final">["stop_reason"] = "stop"): Frame =>
  frame("final", { stop_reason, text, usage, steps: 1, tool_calls: 0, duration_ms: 1 })

export const error = (code: string, reason?: Own<"error">["reason"]): Frame =>
  frame("error", {
    code,
    message: "It is over",
    retryable: false,
    stage: null,
    ...(reason !== undefined && { reason })
  })
