import { type Frame, initialView, type PlanView, reduce } from "@bowline/client"

const start = Date.UTC(2026, 0, 1)

/** Frames of a plan out of what each one says and how many milliseconds after the start. */
export const framesOf = (
  entries: ReadonlyArray<readonly [at: number, event: string, data?: object]>
): ReadonlyArray<Frame> =>
  entries.map(([at, event, data], index) => ({
    id: index + 1,
    event,
    data: { plan_id: "plan_1", session_id: "session_1", at: new Date(start + at).toISOString(), ...data }
  }))

export const viewOf = (entries: Parameters<typeof framesOf>[0]): PlanView =>
  framesOf(entries).reduce(reduce, initialView)

/** Milliseconds since the plan's start. */
export const since = (time: number | null): number | null => (time === null ? null : time - start)

export const begun = [
  [0, "session", { external_session_id: null, created: true }],
  [0, "queued", { position: 1, reason: "session_busy" }],
  [500, "plan", { model: "demo/demo", deadline_at: new Date(start + 60_000).toISOString() }],
  [500, "step", { step: 1, attempt: 1 }]
] as const

export const task = (task_id: string, input: object = {}) => ({
  task_id,
  tool: "weather_forecast",
  kind: "peer",
  agent: "weather",
  skill: "forecast",
  agent_did: null,
  agent_did_source: null,
  input
})
