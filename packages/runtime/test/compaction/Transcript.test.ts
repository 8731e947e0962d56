import type { MessagePart } from "@bowline/domain/session/Message"
import { TaskId } from "@bowline/domain/tool/TaskState"
import { RandomHistory } from "@bowline/testing/unstable/session/RandomHistory"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { transcript } from "../../src/compaction/Transcript.ts"
import type { Entry } from "../../src/provider/LegalHistory.ts"

/** A word is a token. */
const count = (text: string) => text.split(/\s+/).filter((word) => word !== "").length
const words = (word: string, tokens: number) => Array.from({ length: tokens }, () => word).join(" ")

const a = TaskId.make("a".repeat(36))
const said = (role: "user" | "assistant", text: string): Entry => ({ role, parts: [{ type: "text", text }] })
const call: MessagePart = { type: "tool_call", task_id: a, tool: "prices_ask", input: { of: "copper" } }
const result = (content: string): Entry => ({
  role: "tool",
  parts: [{ type: "tool_result", task_id: a, state: "completed", content }]
})

const conversation = (length: number): ReadonlyArray<Entry> => [
  said("user", "What does copper cost?"),
  { role: "assistant", parts: [{ type: "reasoning", text: "I wonder" }, call] },
  result(`first ${words("middle", length)} last`),
  said("assistant", "9,123 dollars")
]

describe("transcript", () => {
  it("tells who said what in order, what was called and what came back, and the ids of remote tasks", () => {
    assert.strictEqual(
      transcript(count, conversation(0), new Map([[a, "remote-77"]]), 1_000),
      [
        "The user said:\nWhat does copper cost?",
        'The assistant called prices_ask (remote task remote-77):\n{"of":"copper"}',
        "prices_ask returned (completed):\nfirst  last",
        "The assistant said:\n9,123 dollars"
      ].join("\n\n")
    )
  })

  it("shortens results first", () => {
    const text = transcript(count, [...conversation(1_000), said("user", words("wish", 300))], new Map(), 600)
    assert.isAtMost(count(text), 600)
    assert.include(text, words("wish", 300))
    assert.match(text, /first .*characters left out.* last/s)
  })

  it("shortens what was said where results are not enough, and keeps something of every message", () => {
    const many = ["red", "green", "blue"].map((word) => said("user", words(word, 1_000)))
    const text = transcript(count, many, new Map(), 900)
    assert.isAtMost(count(text), 900)
    for (const word of ["red", "green", "blue"]) assert.include(text, word)
  })

  it("keeps the beginning and the end of what is too much to keep something of everything", () => {
    const many = Array.from({ length: 200 }, (_, at) => said("user", words(`word${at}`, 200)))
    const text = transcript(count, many, new Map(), 1_000)
    assert.isAtMost(count(text), 1_000)
    assert.include(text, "word0 ")
    assert.include(text, "word199")
  })

  it.prop(
    "keeps to the room that it is given, whatever the history",
    { messages: RandomHistory, room: Schema.Int.check(Schema.isBetween({ minimum: 60, maximum: 400 })) },
    ({ messages, room }) => {
      const long = messages.map(({ role, parts }) => ({
        role,
        parts: parts.map((part) => (part.type === "text" ? { ...part, text: words("w", 150) } : part))
      }))
      assert.isAtMost(count(transcript(count, long, new Map(), room)), room)
    }
  )
})
