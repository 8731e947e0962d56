import { FileId } from "@bowline/domain/unstable/file/StoredFile"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, describe, it } from "@effect/vitest"
import { leaveOut } from "../../src/compaction/OldFiles.ts"
import { roughly } from "../../src/compaction/TokenEstimate.ts"
import type { Entry } from "../../src/provider/LegalHistory.ts"

const picture = (name: string) => ({
  type: "file" as const,
  file_id: FileId.make(`file_01a2209e-7ce5-75be-80d1-2446ecd8a1c${name}`),
  media_type: "image/png",
  name,
  bytes: 1_000,
  width: 1_000,
  height: 1_000
})
const says = (role: Entry["role"], ...parts: Entry["parts"]): Entry => ({ role, parts })
const words = { type: "text", text: "A knot" } as const
const result = {
  type: "tool_result",
  task_id: TaskId.make("a".repeat(36)),
  state: "completed",
  content: "[image c]"
} as const
const [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(picture)

const history = [
  says("user", words, a ?? words, b ?? words),
  says("assistant", words),
  says("tool", result, c ?? words),
  says("assistant", words),
  says("user", words, d ?? words),
  says("assistant", words),
  says("tool", result, e ?? words)
]
const count = roughly("openai/gpt-4o")
const told = (messages: ReadonlyArray<Entry> = []) =>
  messages.map(({ parts }) => parts.map((part) => (part.type === "text" ? part.text : part.type)))

describe("leaveOut", () => {
  it("leaves out the oldest files first, no more than are wanted, and a line of each", () => {
    const one = leaveOut(count, history, 1)
    const line = "[image a, 1000×1000, file_01a2209e-7ce5-75be-80d1-2446ecd8a1ca]"
    assert.deepStrictEqual(told(one?.messages), [["A knot", line, "file"], ...told(history.slice(1))])
    assert.isAbove(one?.saved ?? 0, 700)
  })

  it("keeps those of the last question and of the last results, and needs no line behind a result", () => {
    const all = leaveOut(count, history, Infinity)
    assert.deepStrictEqual(told(all?.messages).slice(2), [["tool_result"], ...told(history.slice(3))])
    assert.isUndefined(leaveOut(count, history.slice(3), Infinity))
  })
})
