import type { Message, MessagePart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { RandomHistory } from "@bowline/testing/unstable/session/RandomHistory"
import { assert, describe, it } from "@effect/vitest"
import { leftOut, legalHistory, toldHistory } from "../../src/provider/LegalHistory.ts"

type Entry = Pick<Message, "role" | "parts">

const a = TaskId.make("a".repeat(36))
const b = TaskId.make("b".repeat(36))
const random = { messages: RandomHistory }

const words = (text: string): MessagePart => ({ type: "text", text })
const question: Entry = { role: "user", parts: [words("What now?")] }
const call = (task_id: TaskId): MessagePart => ({ type: "tool_call", task_id, tool: "t", input: {} })
const result = (task_id: TaskId, content: string): MessagePart => ({
  type: "tool_result",
  task_id,
  state: "completed",
  content
})

const partsOf = (messages: ReadonlyArray<Entry>) => messages.flatMap(({ parts }) => parts)
const idsOf = (parts: ReadonlyArray<MessagePart>, type: "tool_call" | "tool_result") =>
  parts.flatMap((part) => (part.type === type ? [part.task_id] : []))
const says = (part: MessagePart) =>
  part.type === "text" ? part.text.trim() !== "" && part.partial !== true : part.type !== "reasoning"

describe("legalHistory", () => {
  it.prop("gives each call its one result directly behind it", random, ({ messages }) => {
    const legal = legalHistory(messages)
    const calls = idsOf(partsOf(legal), "tool_call")
    assert.strictEqual(new Set(calls).size, calls.length)
    for (const [index, { role, parts }] of legal.entries()) {
      const next = legal[index + 1]
      assert.deepStrictEqual(idsOf(next?.role === "tool" ? next.parts : [], "tool_result"), idsOf(parts, "tool_call"))
      if (role === "tool") assert.strictEqual(legal[index - 1]?.role, "assistant")
    }
  })

  it.prop("leaves nothing half done, and no empty message", random, ({ messages }) => {
    for (const { role, parts } of legalHistory(messages)) {
      assert.isTrue(parts.some(says))
      assert.notExists(parts.find((part) => part.type === "text" && (part.partial === true || part.text === "")))
      if (role !== "tool") assert.notStrictEqual(parts.at(-1)?.type, "reasoning")
    }
  })

  it.prop("lets the user begin", random, ({ messages }) => {
    assert.strictEqual(legalHistory(messages)[0]?.role, "user")
  })

  it.prop("loses nothing of what was said and done", random, ({ messages }) => {
    const told = (entries: ReadonlyArray<Entry>, role: "user" | "assistant") =>
      entries
        .filter((entry) => entry.role === role)
        .flatMap(({ parts }) => parts)
        .filter((part) =>
          part.type === "text" ? says(part) && part.text !== leftOut : part.type === "file" && role === "user"
        )
        .map((part) => (part.type === "text" ? part.text.toWellFormed().trim() : part.type))
    const legal = legalHistory(messages)
    for (const role of ["user", "assistant"] as const) assert.deepStrictEqual(told(legal, role), told(messages, role))
    const called = messages.filter(({ role }) => role === "assistant")
    assert.deepStrictEqual(idsOf(partsOf(legal), "tool_call"), [...new Set(idsOf(partsOf(called), "tool_call"))])
  })

  it.prop("leaves a legal history alone", random, ({ messages }) => {
    const legal = legalHistory(messages)
    assert.deepStrictEqual(legalHistory(legal), legal)
  })

  it("keeps the files of the user, and no others, also when calls are told as text", () => {
    const file = { type: "file" as const, media_type: "image/png", data: "AAAA" }
    const legal = legalHistory([
      { role: "user", parts: [file] },
      { role: "assistant", parts: [file, words("A cat")] },
      { role: "assistant", parts: [file] },
      { role: "tool", parts: [file] }
    ])
    const kept = [
      { role: "user", parts: [file] },
      { role: "assistant", parts: [words("A cat")] }
    ]
    assert.deepStrictEqual<unknown>(legal, kept)
    assert.deepStrictEqual<unknown>(toldHistory(legal), kept)
  })

  it("shows the images and PDFs of results behind all results of the step, each with its own", () => {
    const file = (media_type: string) => ({ type: "file" as const, media_type, data: "AAAA" })
    const [png, pdf] = [file("image/png"), file("application/pdf")]
    const legal = legalHistory([
      question,
      { role: "assistant", parts: [call(a), call(b)] },
      { role: "tool", parts: [result(b, "later"), pdf] },
      { role: "tool", parts: [result(a, "first"), png, file("text/plain"), file("application/zip")] }
    ])
    assert.deepStrictEqual<unknown>(legal.slice(2), [
      { role: "tool", parts: [result(a, "first"), result(b, "later")] },
      { role: "user", parts: [png, pdf] }
    ])
    assert.deepStrictEqual(legalHistory(legal), legal)
  })

  it("answers a call without a result as interrupted, and keeps the result of every other", () => {
    const legal = legalHistory([
      question,
      { role: "assistant", parts: [call(a), call(b)] },
      question,
      { role: "tool", parts: [result(b, "fine"), result(b, "again"), result(TaskId.make("c".repeat(36)), "whose?")] }
    ])
    assert.deepStrictEqual(
      legal.map(({ role }) => role),
      ["user", "assistant", "tool", "user"]
    )
    assert.deepInclude(legal[2]?.parts[0], { task_id: a, state: "interrupted" })
    assert.deepStrictEqual(legal[2]?.parts.slice(1), [result(b, "fine")])
  })

  it("keeps a thought in front of what followed from it, and drops one that nothing followed from", () => {
    const thought: MessagePart = { type: "reasoning", text: "Hm", provider: "p", signature: "s" }
    const legal = legalHistory([
      question,
      { role: "assistant", parts: [thought] },
      { role: "assistant", parts: [thought, words("So"), thought] }
    ])
    assert.deepStrictEqual(legal, [question, { role: "assistant", parts: [thought, words("So")] }])
  })

  it("gives a tool a legal name, and mends characters that were cut in two", () => {
    const parts: ReadonlyArray<MessagePart> = [
      { type: "tool_call", task_id: a, tool: "ask peer/1?", input: { "\ud83d": ["\ud83d", { deep: "\ude00" }] } }
    ]
    const [, asked, answered] = legalHistory([
      question,
      { role: "assistant", parts },
      { role: "tool", parts: [result(a, "half \ud83d")] }
    ])
    assert.match(JSON.stringify(asked), /"tool":"[A-Za-z0-9_-]+"/)
    assert.deepInclude(asked?.parts[0], { input: { "\ufffd": ["\ufffd", { deep: "\ufffd" }] } })
    assert.deepInclude(answered?.parts[0], { content: "half \ufffd" })
  })
})

describe("toldHistory", () => {
  it.prop("tells calls and results in text, and leaves no empty message", random, ({ messages }) => {
    const told = toldHistory(legalHistory(messages))
    for (const { role, parts } of told) {
      assert.notStrictEqual(role, "tool")
      assert.isTrue(parts.some(says))
      assert.isTrue(parts.every(({ type }) => type === "text" || type === "file"))
    }
  })
})
