import { ToolCallPart, ToolResultPart, TextPart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskId"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { legalHistory, toldHistory } from "../../src/session/LegalHistory.ts"

const a = TaskId.make("a".repeat(36))
const b = TaskId.make("b".repeat(36))

/** Few ids, so that calls and results meet, are doubled and are missing. */
const FewIds = Schema.Literals([a, b, TaskId.make("c".repeat(36))])
const Messages = Schema.Array(
  Schema.Struct({
    role: Schema.Literals(["user", "assistant", "tool"]),
    parts: Schema.Array(
      Schema.Union([
        Schema.Struct({ ...TextPart.fields, text: Schema.Literals(["", "words"]) }),
        Schema.Struct({ ...ToolCallPart.fields, task_id: FewIds }),
        Schema.Struct({ ...ToolResultPart.fields, task_id: FewIds })
      ])
    )
  })
)

describe("legalHistory", () => {
  it.prop(
    "gives each call its one result directly behind it, and leaves nothing half or empty",
    { messages: Messages },
    ({ messages }) => {
      const legal = legalHistory(messages)
      const seen = new Set<string>()
      legal.forEach(({ role, parts }, index) => {
        assert.isNotEmpty(parts)
        assert.notExists(parts.find((part) => part.type === "text" && (part.partial === true || part.text === "")))
        const calls = parts.flatMap((part) => (part.type === "tool_call" ? [part.task_id] : []))
        for (const call of calls) {
          assert.isFalse(seen.has(call))
          seen.add(call)
        }
        const next = legal[index + 1]
        const answers = next?.role === "tool" ? next.parts : []
        assert.deepStrictEqual(
          answers.map((part) => (part.type === "tool_result" ? part.task_id : part.type)),
          calls
        )
        if (role === "tool") assert.strictEqual(legal[index - 1]?.role, "assistant")
      })
    }
  )

  it("keeps the files of the user, and no others, also when calls are told as text", () => {
    const file = { type: "file" as const, media_type: "image/png", data: "AAAA" }
    const legal = legalHistory([
      { role: "user", parts: [file] },
      { role: "assistant", parts: [file, { type: "text", text: "A cat" }] },
      { role: "assistant", parts: [file] },
      { role: "tool", parts: [file] }
    ])
    const kept = [
      { role: "user", parts: [file] },
      { role: "assistant", parts: [{ type: "text", text: "A cat" }] }
    ]
    assert.deepStrictEqual<unknown>(legal, kept)
    assert.deepStrictEqual<unknown>(toldHistory(legal), kept)
  })

  it("answers a call without a result as interrupted, and keeps the result of every other", () => {
    const call = (task_id: TaskId) => ({ type: "tool_call" as const, task_id, tool: "t", input: {} })
    const result = { type: "tool_result" as const, task_id: b, state: "completed" as const, content: "fine" }
    const legal = legalHistory([
      { role: "assistant", parts: [call(a), call(b)] },
      { role: "user", parts: [{ type: "text", text: "next" }] },
      { role: "tool", parts: [result] }
    ])
    assert.deepStrictEqual(
      legal.map(({ role }) => role),
      ["assistant", "tool", "user"]
    )
    assert.deepInclude(legal[1]?.parts[0], { task_id: a, state: "interrupted" })
    assert.deepStrictEqual(legal[1]?.parts[1], result)
  })
})
