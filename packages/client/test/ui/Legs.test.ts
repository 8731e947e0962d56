import { assert, describe, it } from "vitest"
import * as AgUiEvents from "../../src/ag-ui/AgUiEvents.ts"
import * as UiChunks from "../../src/ai-sdk/UiChunks.ts"
import type { Frame } from "../../src/Bowline.ts"
import {
  artifact,
  error,
  final,
  finished,
  frame,
  plan,
  requested,
  retract,
  say,
  started,
  step,
  unconnected,
  unlisted
} from "./Frames.ts"

const accepted = (entry_id: string): Frame => frame("inbox.accepted", { entry_id, by: "ann", text: "b" })

const chunksOf = (frames: ReadonlyArray<Frame>, leg: Parameters<typeof UiChunks.make>[0]): ReadonlyArray<unknown> => {
  const chunks = UiChunks.make(leg)
  return frames.flatMap((frame) => chunks.next(frame))
}

const typesOf = (chunks: ReadonlyArray<unknown>) => chunks.map((chunk) => (chunk as { readonly type: string }).type)

const begun = {
  type: "start",
  messageId: "entry_1",
  messageMetadata: { planId: "plan_1", sessionId: "ses_1", model: "p/m" }
}

describe("what a plan answers to a text", () => {
  const frames = [plan, step(1), say("one, "), accepted("entry_0"), accepted("entry_1"), say("two."), final("two.")]

  it("begins at its entry, in a message of its own, where the answer before ends", () => {
    assert.deepStrictEqual(typesOf(chunksOf(frames, { until: "entry_1" })), [
      "start",
      "start-step",
      "text-start",
      "text-delta",
      "text-end",
      "finish-step",
      "finish"
    ])
    assert.deepStrictEqual(chunksOf(frames, { until: "entry_1" }).at(-1), { type: "finish", finishReason: "stop" })
    const rest = chunksOf(frames, { entry: "entry_1", until: "entry_2" })
    assert.deepStrictEqual(rest.slice(0, 4), [
      begun,
      { type: "start-step" },
      { type: "text-start", id: "1.1" },
      { type: "text-delta", id: "1.1", delta: "two." }
    ])
    assert.strictEqual(typesOf(rest).at(-1), "finish")
  })

  it("has the calls that run, and those that wait for a decision", () => {
    const calls = [started("t"), requested("u"), accepted("entry_1"), artifact("t", "paid"), finished("t", "completed")]
    const rest = chunksOf([plan, step(1), ...calls], { entry: "entry_1" })
    assert.deepStrictEqual(typesOf(rest), [
      "start",
      "start-step",
      "tool-input-available",
      "tool-approval-request",
      "tool-input-available",
      "tool-output-available"
    ])
    const messages = [{ id: "m", role: "assistant", toolCalls: [{ id: "t" }, { id: "u" }] }]
    const agent = AgUiEvents.make({ threadId: "t", runId: "r", messages }, { entry: "entry_1" })
    const events = [plan, step(1), ...calls].flatMap((frame) => agent.next(frame))
    assert.deepStrictEqual(typesOf(events).slice(0, 4), [
      "RUN_STARTED",
      "STEP_STARTED",
      "SUBAGENT_STARTED",
      "SUBAGENT_FINISHED"
    ])
  })

  it("says why the plan has ended before it heard the text", () => {
    const rest = chunksOf([plan, step(1), say("one, "), error("internal")], { entry: "entry_1" })
    assert.deepStrictEqual(typesOf(rest).slice(-1), ["error"])
    assert.deepStrictEqual(rest[0], begun)
  })

  it("takes back in a thread what the run before has shown, too", () => {
    const messages = [
      { id: "q", role: "user" },
      { id: "plan_1.1.1", role: "assistant" }
    ]
    const agent = AgUiEvents.make({ threadId: "t", runId: "r", messages }, { entry: "entry_1" })
    const told = [plan, step(1), say("one, "), accepted("entry_1"), say("two."), retract(1), say("new", 1, 2)]
    const events = told.flatMap((frame) => agent.next(frame))
    assert.deepInclude(events, { type: "TEXT_MESSAGE_START", messageId: "plan_1.1.1.2", role: "assistant" })
    assert.deepInclude(events, { type: "MESSAGES_SNAPSHOT", messages: [{ id: "q", role: "user" }] })
  })
})

describe("a call that waits for an account", () => {
  const frames = [plan, step(1), started("t"), unconnected("t")]
  const said = "Connect books: https://gateway.test/connect"

  it("shows its user the link as its progress, and the answer does not end there", () => {
    const chunk = chunksOf(frames, {}).at(-1)
    assert.deepInclude(chunk, { type: "data-task", id: "t", data: { state: "auth-required", message: said } })
    const agent = AgUiEvents.make({ threadId: "t", runId: "r", messages: [] }, {})
    const event = frames.flatMap((frame) => agent.next(frame)).at(-1)
    assert.deepInclude(event, { type: "ACTIVITY_SNAPSHOT", activityType: "task" })
    assert.include(JSON.stringify(event), said)
  })

  it("is shown as a call of each server that wants it before the first step, until the plan goes on or ends", () => {
    const frames = [plan, unlisted("desk"), unlisted("till"), step(1)]
    const asked = { state: "auth-required", message: said }
    const [desk, till] = [{ id: "plan_1.desk" }, { id: "plan_1.till" }].map((of) => ({ type: "data-task", ...of }))
    assert.deepStrictEqual(chunksOf(frames, {}).slice(1), [
      { ...desk, data: asked },
      { ...desk, data: { state: "completed" } },
      { ...till, data: asked },
      { ...till, data: { state: "completed" } },
      { type: "start-step" }
    ])
    const ended = chunksOf([plan, unlisted("till"), error("planner_failed")], {})
    assert.deepInclude(ended, { ...till, data: { state: "failed" } })
    const agent = AgUiEvents.make({ threadId: "t", runId: "r", messages: [] }, {})
    const content = { toolCallId: "plan_1.till", tool: "till", ...asked }
    assert.deepInclude(
      frames.flatMap((frame) => agent.next(frame)),
      { type: "ACTIVITY_SNAPSHOT", messageId: "plan_1.till.activity", activityType: "task", content }
    )
  })
})
