import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { empty } from "@bowline/domain/plan/Usage"
import { TaskId } from "@bowline/domain/tool/TaskState"
import type { ResponseEcho } from "../../../src/edge/response/ResponseEcho.ts"

export const session: PlanEvent = { event: "session", data: { external_session_id: null, created: true } }
export const queued: PlanEvent = { event: "queued", data: { position: 1, reason: "session_busy" } }
export const planned: PlanEvent = { event: "plan", data: { model: "a/b", deadline_at: "2026-01-01T00:00:00.000Z" } }
export const begin = [session, planned]
export const step = (step: number): PlanEvent => ({ event: "step", data: { step, attempt: 1 } })
export const say = (delta: string, step = 1, attempt = 1): PlanEvent => ({
  event: "text.delta",
  data: { step, attempt, delta }
})
export const think = (delta: string, step = 1, attempt = 1): PlanEvent => ({
  event: "reasoning.delta",
  data: { step, attempt, delta }
})
export const retract = (attempt: number, step = 1): PlanEvent => ({ event: "text.retract", data: { step, attempt } })
const usage = { ...empty, input_tokens: 10, output_tokens: 4, cached_input_tokens: 3, reasoning_tokens: 1 }
export const used: PlanEvent = { event: "usage", data: { step: 1, attempt: 1, ...usage, cost_usd: null } }
type StopReason = Extract<PlanEvent, { event: "final" }>["data"]["stop_reason"]
export const final = (stop_reason: StopReason = "stop"): PlanEvent => ({
  event: "final",
  data: { stop_reason, text: "last", usage, steps: 1, tool_calls: 0, duration_ms: 2_500 }
})
export const failed = (data: Partial<Extract<PlanEvent, { event: "error" }>["data"]> = {}): PlanEvent => ({
  event: "error",
  data: { code: "internal", message: "why", retryable: false, stage: null, ...data }
})
export const task_id = TaskId.make("00000000-0000-4000-8000-000000000001")
export const started: PlanEvent = {
  event: "task.started",
  data: {
    task_id,
    tool: "weather_forecast",
    kind: "peer",
    agent: "weather",
    skill: "forecast",
    agent_did: null,
    agent_did_source: null,
    input: { city: "Kiel" }
  }
}
export const artifact = (content: string | object): PlanEvent => ({
  event: "task.artifact",
  data: { task_id, content: content as string, media_type: "text/plain", truncated: false }
})
export const finished = (error?: { readonly code: string; readonly message: string }): PlanEvent => ({
  event: "task.finished",
  data: {
    task_id,
    state: error === undefined ? "completed" : "timed-out",
    remote_task_id: null,
    remote_context_id: null,
    duration_ms: 7,
    ...(error !== undefined && { error })
  }
})
export const approved: PlanEvent = {
  event: "approval.resolved",
  data: { task_id, decision: "approve", by: anonymous }
}

/** The plan waits for the client. */
export const called: ReadonlyArray<PlanEvent> = [
  {
    event: "task.started",
    data: {
      task_id,
      tool: "pick",
      kind: "client",
      agent: null,
      skill: null,
      agent_did: null,
      agent_did_source: null,
      input: {}
    }
  },
  {
    event: "waiting",
    data: {
      task_id,
      kind: "result",
      round: 1,
      tool: "pick",
      agent: null,
      input: {},
      expires_at: "2026-01-01T00:00:00.000Z"
    }
  }
]

export const requested = (tool: string): PlanEvent => ({
  event: "approval.requested",
  data: { task_id, tool, agent: null, input: { a: 1 }, expires_at: "2026-01-01T00:00:00.000Z", why: "always" }
})

export const echo: ResponseEcho = {
  type: "response",
  created_at: 100,
  model: "bowline",
  background: false,
  store: true,
  instructions: "Say it.",
  metadata: { k: "v" },
  previous_response_id: null,
  conversation: null,
  max_output_tokens: null,
  max_tool_calls: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: null,
  temperature: null,
  text: { format: { type: "text" } },
  tools: [],
  top_p: null,
  user: null,
  labels: ["weather", "weather_station"],
  input: []
}
