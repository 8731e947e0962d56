import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanId, type Plan } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { MessageId, type Message } from "@bowline/domain/session/Message"
import { SessionId } from "@bowline/domain/session/Session"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { toFrame } from "@bowline/runtime/unstable/store/EventRow"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { Schema } from "effect"
import { configOf } from "../../src/simulation/replica/Replica.ts"
import type { Observed, ObservedPlan } from "../../src/simulation/scenario/Observed.ts"

const uuid = (digit: number) => `${String(digit).repeat(8)}-0000-4000-8000-000000000000`

const plan_id = PlanId.make(`plan_${uuid(1)}`)
const session_id = SessionId.make(`session_${uuid(2)}`)
const task_id = TaskId.make(uuid(3))
const at = "2026-01-01T00:00:00.000Z"

const request = Schema.decodeUnknownSync(PlanRequest)({ question: "FACT-p0 ask?", preferences: { max_steps: 3 } })
const usage = { input_tokens: 4, output_tokens: 2, cached_input_tokens: 0, reasoning_tokens: 0 }
const final = {
  stop_reason: "stop",
  text: "to p0",
  usage: { ...usage, input_tokens: 8, output_tokens: 4 },
  steps: 2,
  tool_calls: 1,
  duration_ms: 900
} as const

export const events: ReadonlyArray<PlanEvent> = [
  { event: "session", data: { external_session_id: null, created: true } },
  { event: "plan", data: { model: "scripted/model", deadline_at: "2026-01-01T00:01:00.000Z" } },
  { event: "step", data: { step: 1, attempt: 1 } },
  { event: "usage", data: { step: 1, attempt: 1, ...usage, cost_usd: null } },
  {
    event: "task.started",
    data: {
      task_id,
      tool: "ask",
      kind: "local",
      agent: null,
      skill: null,
      agent_did: null,
      agent_did_source: null,
      input: { key: "p0.0" }
    }
  },
  {
    event: "task.finished",
    data: { task_id, state: "completed", remote_task_id: null, remote_context_id: null, duration_ms: 300 }
  },
  { event: "step", data: { step: 2, attempt: 1 } },
  { event: "text.delta", data: { step: 2, attempt: 1, delta: "to " } },
  { event: "text.delta", data: { step: 2, attempt: 1, delta: "p0" } },
  { event: "usage", data: { step: 2, attempt: 1, ...usage, cost_usd: null } },
  { event: "final", data: final },
  { event: "done", data: {} }
]

/** The frames of these events, stored at one time. */
export const framesOf = (events: ReadonlyArray<PlanEvent>) =>
  events.map((event, index) => toFrame(index + 1, at, event))

/** What is on the row of a plan with these events. */
export const gistOf = (events: ReadonlyArray<PlanEvent>): Schema.Json =>
  Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))(
    PlanGist.encode(PlanGist.add(PlanGist.upTo(0), events, at)) ?? ""
  )

const message = (seq: number, role: Message["role"], parts: Message["parts"]): Message => ({
  message_id: MessageId.make(`msg_${uuid(seq)}`),
  seq,
  role,
  parts,
  plan_id,
  created_at: at,
  compacted: false
})
const messages = [
  message(1, "user", [{ type: "text", text: "FACT-p0 ask?" }]),
  message(2, "assistant", [{ type: "tool_call", task_id, tool: "ask", input: { key: "p0.0" } }]),
  message(3, "tool", [{ type: "tool_result", task_id, state: "completed", content: "did p0.0" }]),
  message(4, "assistant", [{ type: "text", text: "to p0" }])
]

const stored: Plan = {
  plan_id,
  session_id,
  external_session_id: null,
  state: "completed",
  stage: null,
  model: "scripted/model",
  caller: anonymous,
  trace_id: null,
  preset: null,
  created_at: at,
  deadline_at: "2026-01-01T00:01:00.000Z",
  finished_at: at,
  steps: 2,
  tool_calls: 1,
  retries: 0,
  usage: final.usage,
  cost_usd: null,
  error: null,
  metadata: {},
  question: request.question,
  final,
  request: null
}

const plan: ObservedPlan = {
  name: "p0",
  replica: "a",
  plan: stored,
  request,
  budget: {},
  toolTimeoutMs: Infinity,
  created: { at: 0, order: 1 },
  parked: [],
  deadline: 60_000,
  frames: framesOf(events),
  gist: gistOf(events),
  told: ["plan.completed"],
  tasks: [],
  inbox: []
}

const asked = {
  model: "model",
  system: "",
  tools: [],
  toolChoice: "auto",
  messages: [{ role: "user", text: "FACT-p0 ask?" }]
} as const
const attempt = {
  plan: "p0",
  session_id,
  replica: "a",
  credential: "key-1",
  model: "scripted/model",
  asked,
  began: { at: 10, order: 10 },
  ended: { at: 100, order: 19 },
  result: "finished",
  isUnexplained: false,
  finish: "stop",
  calls: 0,
  quiet: 0,
  said: "",
  usage,
  usedAt: { at: 100, order: 18.5 },
  usageMs: 0
} as const satisfies Observed["attempts"][number]

const commit = (
  order: number,
  [first, last]: readonly [number, number],
  ...changes: Observed["commits"][number]["changes"]
): Observed["commits"][number] => ({
  at: order * 10,
  order,
  replica: "a",
  plan_id,
  session_id,
  fence: 1,
  changes,
  events: { first, last }
})
const intent = {
  _tag: "TaskStarted",
  task_id,
  tool: "ask",
  kind: "local",
  agent: null,
  endpoint: null,
  skill: null,
  input: {},
  state: "running",
  at
} as const
const finished = { _tag: "TaskFinished", task_id, state: "completed", result: "did p0.0", error: null, at } as const
const progress = { model: "scripted/model", steps: 2, tool_calls: 1, retries: 0, usage: final.usage, cost_usd: null }
const settled = { _tag: "Settled", outcome: { state: "completed", final }, progress, at } as const

const replica = {
  started: { at: 0, order: 0 },
  ended: undefined,
  pauses: [],
  cutOff: [],
  deaf: []
}

/** A run in which nothing is wrong: one plan of two steps with one call, read from its beginning to its end. */
export const sound: Observed = {
  replicas: [
    { replica: "a", ...replica },
    { replica: "b", ...replica }
  ],
  plans: [plan],
  sessions: [{ session_id, messages, summary: { text: null, covered_seq: 0, priors: [], prior_seq: 0 } }],
  readers: [
    {
      reader: "r0",
      plan_id,
      replica: "a",
      after: 0,
      began: { at: 0, order: 2 },
      frames: plan.frames.map((frame, index) => ({ frame, at: 600, order: 60 + index })),
      readMs: 0,
      pings: [],
      ended: { at: 600, order: 80, how: "done" }
    }
  ],
  commits: [commit(5, [2, 3]), commit(20, [4, 5], intent), commit(40, [6, 7], finished), commit(50, [8, 12], settled)],
  firings: [],
  takeOvers: [],
  requests: [{ what: "ask", plan: "p0", replica: "a", began: { at: 0, order: 0.5 }, ended: { at: 0, order: 1.5 } }],
  calls: [
    {
      key: "p0.0",
      plan: "p0",
      replica: "a",
      task_id,
      tool: "ask",
      isIdempotent: false,
      isFree: false,
      ms: 0,
      result: { state: "completed", content: "did p0.0" },
      began: { at: 210, order: 21 },
      ended: { at: 300, order: 30 },
      cancels: [],
      remote_task_id: null,
      named: undefined
    }
  ],
  paid: [],
  said: [],
  answers: [],
  uploads: [
    { at: 5, order: 1, plan: "p0", sha256: "whole", isCut: false, file_id: FileId.make(`file_${"1".repeat(36)}`) },
    { at: 6, order: 2, plan: "p0", sha256: "half", isCut: true, file_id: undefined }
  ],
  files: [
    { file_id: FileId.make(`file_${"1".repeat(36)}`), replica: "a.1", isKept: true, sha256: "whole" },
    { file_id: FileId.make(`file_${"2".repeat(36)}`), replica: "a.1", isKept: false, sha256: undefined }
  ],
  given: [],
  decisions: [],
  faults: [],
  attempts: [
    { ...attempt, finish: "tool_calls", calls: 1 },
    {
      ...attempt,
      began: { at: 410, order: 41 },
      ended: { at: 450, order: 45 },
      said: "to p0",
      asked: {
        ...asked,
        messages: [
          ...asked.messages,
          { role: "assistant", text: "", calls: [{ id: task_id, name: "ask", input: {} }] },
          { role: "tool", id: task_id, content: "did p0.0" }
        ]
      }
    }
  ],
  windows: [],
  resets: [],
  storeAway: [],
  lostAnswers: [],
  probes: ["p0"],
  day: undefined,
  config: configOf({}),
  silence: 120_000,
  faultsEnd: 0,
  end: 90_000,
  left: []
}
