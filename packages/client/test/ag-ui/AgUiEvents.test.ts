import { assert, describe, it } from "vitest"
import * as AgUiEvents from "../../src/ag-ui/AgUiEvents.ts"
import type { Frame } from "../../src/Bowline.ts"
import {
  artifact,
  error,
  final,
  finished,
  frame,
  plan,
  requested,
  resolved,
  retract,
  say,
  started,
  step,
  think
} from "../ui/Frames.ts"

const none: ReadonlySet<string> = new Set()
const run = { threadId: "thread", runId: "run" }
const question = { id: "q", role: "user", content: "?" }

const fold = (
  frames: ReadonlyArray<Frame>,
  messages: ReadonlyArray<AgUiEvents.AgUiMessage> = [question],
  behind = ""
) => {
  const events = AgUiEvents.make({ ...run, messages }, { decided: behind })
  return frames.flatMap((frame): ReadonlyArray<unknown> => events.next(frame))
}

const begun = {
  type: "RUN_STARTED",
  ...run,
  protocolVersion: "1.0",
  metadata: { planId: "plan_1", sessionId: "ses_1", model: "p/m" }
}
const stepStarted = (step: number) => ({ type: "STEP_STARTED", stepName: String(step) })
const stepFinished = (step: number) => ({ type: "STEP_FINISHED", stepName: String(step) })
const text = (messageId: string, ...deltas: ReadonlyArray<string>) => [
  { type: "TEXT_MESSAGE_START", messageId, role: "assistant" },
  ...deltas.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId, delta })),
  { type: "TEXT_MESSAGE_END", messageId }
]
const reasoning = (messageId: string, ...deltas: ReadonlyArray<string>) => [
  { type: "REASONING_START", messageId },
  { type: "REASONING_MESSAGE_START", messageId, role: "reasoning" },
  ...deltas.map((delta) => ({ type: "REASONING_MESSAGE_CONTENT", messageId, delta })),
  { type: "REASONING_MESSAGE_END", messageId },
  { type: "REASONING_END", messageId }
]
const call = (toolCallId: string, parentMessageId: string) => [
  { type: "TOOL_CALL_START", toolCallId, toolCallName: "rigger_ask", parentMessageId },
  { type: "TOOL_CALL_ARGS", toolCallId, delta: `{"input":"?"}` },
  { type: "TOOL_CALL_END", toolCallId }
]
const subagent = (id: string) => ({ type: "SUBAGENT_STARTED", subagentRunId: id, name: "rigger", parentToolCallId: id })
const result = (toolCallId: string, content: string) => ({
  type: "TOOL_CALL_RESULT",
  messageId: `${toolCallId}.result`,
  toolCallId,
  role: "tool",
  content
})
const completed = (text: string) => ({
  type: "RUN_FINISHED",
  ...run,
  outcome: { type: "success" },
  result: { text, stopReason: "stop" },
  usage: [{ model: "p/m", inputTokens: 10, outputTokens: 4, totalTokens: 14, cachedInputTokens: 2, reasoningTokens: 1 }]
})
const activity = (content: object) => ({
  type: "ACTIVITY_SNAPSHOT",
  messageId: "t.activity",
  activityType: "task",
  content: { toolCallId: "t", tool: "rigger_ask", ...content }
})

const cases: Readonly<Record<string, readonly [ReadonlyArray<Frame>, ReadonlyArray<unknown>]>> = {
  "show reasoning and text in messages of their own, each stretch once": [
    [plan, step(1), think("H"), think("m"), say("a"), think("so"), say("b"), final("ab")],
    [
      begun,
      stepStarted(1),
      ...reasoning("plan_1.1.1.reasoning", "H", "m"),
      ...text("plan_1.1.1", "a"),
      ...reasoning("plan_1.1.1.reasoning.2", "so"),
      ...text("plan_1.1.1.2", "b"),
      stepFinished(1),
      completed("ab")
    ]
  ],
  "take a retracted attempt back with all messages but its own": [
    [plan, step(1), started("t", "local"), finished("t", "completed"), step(2), say("bad", 2), retract(1, 2)],
    [
      begun,
      stepStarted(1),
      ...call("t", "t.call"),
      result("t", "null"),
      stepFinished(1),
      stepStarted(2),
      ...text("plan_1.2.1", "bad"),
      {
        type: "MESSAGES_SNAPSHOT",
        messages: [
          question,
          {
            id: "t.call",
            role: "assistant",
            toolCalls: [{ id: "t", type: "function", function: { name: "rigger_ask", arguments: `{"input":"?"}` } }]
          },
          { id: "t.result", role: "tool", toolCallId: "t", content: "null" }
        ]
      }
    ]
  ],
  "show a call under the text of its step, a peer as a subagent, and its progress": [
    [
      plan,
      step(1),
      say("a"),
      started("t"),
      frame("task.progress", { task_id: "t", state: "working" }),
      artifact("t", "1"),
      finished("t", "completed"),
      started("u"),
      finished("u", "failed", "No rope")
    ],
    [
      begun,
      stepStarted(1),
      ...text("plan_1.1.1", "a"),
      ...call("t", "plan_1.1.1"),
      subagent("t"),
      activity({ state: "working" }),
      activity({ state: "completed" }),
      { type: "SUBAGENT_FINISHED", subagentRunId: "t" },
      result("t", "1"),
      ...call("u", "plan_1.1.1"),
      subagent("u"),
      { type: "SUBAGENT_ERROR", subagentRunId: "u", message: "No rope", code: "task_failed" },
      result("u", "No rope")
    ]
  ],
  "finish a run that was cancelled, also before it ran": [
    [error("aborted", "cancelled")],
    [
      { ...begun, metadata: { ...begun.metadata, model: null } },
      { type: "RUN_FINISHED", ...run, outcome: { type: "cancelled" } }
    ]
  ],
  "end with an error what was aborted otherwise, and a call that waits": [
    [plan, step(1), requested("t"), error("aborted", "deadline"), frame("done", {})],
    [
      begun,
      stepStarted(1),
      ...call("t", "t.call"),
      result("t", "The plan ended before the call was made"),
      stepFinished(1),
      { type: "RUN_ERROR", message: "It is over", code: "aborted" }
    ]
  ]
}

describe("events of AG-UI", () => {
  it.each(Object.entries(cases))("%s", (_, [frames, events]) => assert.deepStrictEqual(fold(frames), events))

  it("interrupt the run where only a decision is waited for", () => {
    const events = AgUiEvents.make({ ...run, messages: [] })
    for (const frame of [plan, step(1), requested("t")]) events.next(frame)
    assert.isTrue(events.waits(none))
    const [ended, finished]: ReadonlyArray<unknown> = events.pause(none)
    assert.deepStrictEqual(ended, stepFinished(1))
    assert.deepNestedInclude(finished, { type: "RUN_FINISHED", "outcome.type": "interrupt" })
    assert.deepNestedInclude(finished, {
      "outcome.interrupts[0].id": "t",
      "outcome.interrupts[0].toolCallId": "t",
      "outcome.interrupts[0].expiresAt": "2026-01-01T00:30:00.000Z",
      "outcome.interrupts[0].metadata": { tool: "rigger_ask", input: { input: "?" }, why: "skill" }
    })
  })

  it("go on behind a decision in another run, without the call that the client has", () => {
    const sent = [question, { id: "plan_1.1.1", role: "assistant", content: "a", toolCalls: [{ id: "t" }] }]
    const frames = [
      plan,
      step(1),
      say("a"),
      requested("t"),
      resolved("t", "approve"),
      started("t"),
      finished("t", "completed")
    ]
    const behind = [step(2), say("bad", 2), retract(1, 2), say("b", 2, 2), final("b")]
    assert.deepStrictEqual(fold([...frames, ...behind], sent, "t"), [
      begun,
      stepStarted(1),
      subagent("t"),
      { type: "SUBAGENT_FINISHED", subagentRunId: "t" },
      result("t", "null"),
      stepFinished(1),
      stepStarted(2),
      ...text("plan_1.2.1", "bad"),
      {
        type: "MESSAGES_SNAPSHOT",
        messages: [...sent, { id: "t.result", role: "tool", toolCallId: "t", content: "null" }]
      },
      ...text("plan_1.2.2", "b"),
      stepFinished(2),
      completed("b")
    ])
  })
})
