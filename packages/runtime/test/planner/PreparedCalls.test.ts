import type { ToolCallPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { anonymous } from "@bowline/domain/caller/CallerName"
import { InputValidator } from "../../src/tool/InputValidator.ts"
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
  isPolling: false,
  approval: undefined,
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

/** What is left of the step, in short. */
const told = Effect.fnUntraced(function* (
  parts: ReadonlyArray<ToolCallPart>,
  tasks: ReadonlyArray<StoredTask>,
  counted: number
) {
  const validator = yield* InputValidator
  const parse = (tool: Tool | undefined, text: string) => validator.parse(anonymous, tool, text)
  const calls = yield* PreparedCalls.remainingCalls(parts, tasks, { tools, parse }, counted)
  return calls.map((prepared) => [prepared.part.task_id, prepared._tag === "Refused" ? prepared.state : prepared._tag])
}, Effect.provide(InputValidator.layer))

describe("what is left of a step", () => {
  it.effect("starts what was not started, resumes what was, and leaves alone what is over", () =>
    Effect.gen(function* () {
      const tasks = [task(1, "completed"), task(2, "running"), task(3, "invalid")]
      const parts = [call(1), call(2), call(3), call(4)]
      assert.deepStrictEqual(yield* told(parts, tasks, 4), [
        [id(2), "Begun"],
        [id(4), "Ready"]
      ])
    })
  )

  it.effect("finds again what is wrong with a call that nobody has answered", () =>
    Effect.gen(function* () {
      const parts = [call(1, { input: {}, raw_input: "{" }), call(2, { input: {} }), call(3, { tool: "eve_ask" })]
      const invalid = parts.map(({ task_id }) => [task_id, "invalid"])
      assert.deepStrictEqual(yield* told(parts, [], 3), invalid)
    })
  )

  it.effect("lets the plan make as many calls as its process would have made", () =>
    Effect.gen(function* () {
      const before = [task(7, "completed"), task(8, "rejected"), task(9, "failed")]
      const parts = [call(1), call(2), call(3)]
      const tasks = [...before, task(1, "completed")]
      assert.deepStrictEqual(yield* told(parts, tasks, 5), [
        [id(2), "Ready"],
        [id(3), "rejected"]
      ])
      assert.deepStrictEqual(yield* told([call(1)], before, 3), [[id(1), "rejected"]])
    })
  )

  it.effect("finds a tool that is offered no more, and names it to nobody who asks for another one", () =>
    Effect.gen(function* () {
      const { parse } = yield* InputValidator
      const lookup: PreparedCalls.Lookup = {
        tools: new Map(),
        withheld: tools,
        parse: (tool, text) => parse(anonymous, tool, text)
      }
      const [known, unknown] = yield* PreparedCalls.remainingCalls(
        [call(1), call(2, { tool: "bob_as" })],
        [],
        lookup,
        2
      )
      assert.strictEqual(known?._tag, "Ready")
      assert.deepInclude(unknown, { state: "invalid", message: 'There is no tool "bob_as"' })
    }).pipe(Effect.provide(InputValidator.layer))
  )
})
