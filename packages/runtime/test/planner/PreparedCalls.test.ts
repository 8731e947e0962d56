import type { ToolCallPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as PreparedCalls from "../../src/planner/PreparedCalls.ts"
import type { StoredTask } from "../../src/store/PlanStore.ts"
import type { Tool } from "../../src/tool/Tool.ts"

const ask: Tool = {
  name: "bob_ask",
  kind: "peer",
  agent: "bob",
  endpoint: "http://bob.test/",
  skill: "ask",
  description: "",
  inputSchema: { type: "object", required: ["input"] },
  timeoutMs: undefined,
  isIdempotent: false,
  identify: Effect.succeed(null),
  call: () => Effect.never
}
const tools = new Map([[ask.name, ask]])

const id = (index: number) => TaskId.make(`00000000-0000-0000-0000-00000000000${index}`)

const call = (index: number, given: Partial<ToolCallPart> = {}): ToolCallPart => ({
  type: "tool_call",
  task_id: id(index),
  tool: "bob_ask",
  input: { input: "hi" },
  ...given
})

const task = (index: number, state: StoredTask["state"]): StoredTask => ({
  task_id: id(index),
  tool: "bob_ask",
  kind: "peer",
  agent: "bob",
  endpoint: "http://bob.test/",
  skill: "ask",
  state,
  remote_task_id: null,
  remote_context_id: null,
  started_at: "2026-01-02T03:04:05.678Z"
})

const told = ({ calls, counted }: PreparedCalls.Left) => [
  counted,
  ...calls.map((prepared) => [prepared.part.task_id, prepared._tag === "Refused" ? prepared.state : prepared._tag])
]

describe("what is left of a step", () => {
  it("starts what was not started, resumes what was, and leaves alone what is over", () => {
    const tasks = [task(1, "completed"), task(2, "running"), task(3, "invalid")]
    const parts = [call(1), call(2), call(3), call(4)]
    assert.deepStrictEqual(told(PreparedCalls.left(parts, tasks, tools, 10)), [4, [id(2), "Begun"], [id(4), "Ready"]])
  })

  it("finds again what is wrong with a call that nobody has answered", () => {
    const parts = [call(1, { input: {}, raw_input: "{" }), call(2, { input: {} }), call(3, { tool: "eve_ask" })]
    const invalid = parts.map(({ task_id }) => [task_id, "invalid"])
    assert.deepStrictEqual(told(PreparedCalls.left(parts, [], tools, 10)), [3, ...invalid])
  })

  it("lets the plan make as many calls as it might have made", () => {
    const before = [task(7, "completed"), task(8, "rejected"), task(9, "failed")]
    const parts = [call(1), call(2), call(3)]
    const tasks = [...before, task(1, "completed")]
    assert.deepStrictEqual(told(PreparedCalls.left(parts, tasks, tools, 5)), [5, [id(2), "Ready"], [id(3), "rejected"]])
    assert.deepStrictEqual(told(PreparedCalls.left([call(1)], before, tools, 2)), [2, [id(1), "rejected"]])
  })
})
