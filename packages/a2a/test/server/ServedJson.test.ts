import * as Sdk10 from "a2a-sdk-1"
import type * as Sdk03 from "a2a-sdk-0.3"
import { assert, describe, it } from "@effect/vitest"
import { standings } from "@bowline/runtime/unstable/store/TaskStore"
import { Result } from "effect"
import { a2a03 } from "../../src/dialect/A2a03.ts"
import { a2a10 } from "../../src/dialect/A2a10.ts"
import { json03, json10, jsonProto03 } from "../../src/server/ServedJson.ts"
import type { ServedTask, ServedUpdate } from "../../src/server/ServedTask.ts"
import type { Part } from "../../src/task/Task.ts"

const parts: ReadonlyArray<Part> = [
  { _tag: "Text", text: "text \u{1f600}" },
  { _tag: "Text", text: "" },
  { _tag: "Data", data: { n: [1, null, { a: "b" }] } },
  { _tag: "File", mediaType: "image/png", name: "a.png", bytes: "aGVsbG8=" },
  { _tag: "File", mediaType: "image/png", uri: "http://a.test/b" }
]
const metadata = { bowline: { plan_id: "plan", usage: { input_tokens: 1 } } }

const taskOf = (standing: ServedTask["status"]["standing"]): ServedTask => ({
  id: "task",
  contextId: "context",
  status: { standing, message: { messageId: "m", role: "agent", parts }, timestamp: "2026-01-02T03:04:05.678Z" },
  artifacts: [{ artifactId: "answer", name: "answer", parts, metadata }],
  history: [{ messageId: "q", role: "user", parts: [{ _tag: "Text", text: "?" }], metadata: { a: [null] } }],
  metadata
})

const tasks = standings.map(taskOf)
const statusOf = (weight: "final" | "change"): ServedUpdate => ({
  _tag: "Status",
  status: { standing: "working", message: { messageId: "m", role: "agent", parts } },
  metadata,
  weight
})
const pieceOf = (append: boolean, lastChunk: boolean): ServedUpdate => ({
  _tag: "Artifact",
  artifact: { artifactId: "answer", name: "answer", parts, metadata },
  append,
  lastChunk
})
const updates = [statusOf("final"), statusOf("change"), pieceOf(true, true), pieceOf(false, false)]

/** The SDK leaves out what is false. */
const withoutFalse = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, member: unknown) => (member === false ? undefined : member)))

describe("what is served of A2A 1.0", () => {
  it.each(tasks)("is a task that the SDK decodes and encodes to the same: $status.standing", (task) => {
    const written = json10.task(task)
    assert.deepStrictEqual<unknown>(Sdk10.Task.toJSON(Sdk10.Task.fromJSON(written)), written)
  })

  it("is an event that the SDK decodes and encodes to the same", () => {
    const sent = json10.sent(taskOf("working"))
    for (const written of [sent, ...updates.map((update) => json10.update({ id: "t", contextId: "c" }, update))]) {
      const again = Sdk10.StreamResponse.toJSON(Sdk10.StreamResponse.fromJSON(written))
      assert.deepStrictEqual(withoutFalse(again), withoutFalse(written))
    }
  })
})

describe("what is served of A2A 0.3", () => {
  it("is a task of the SDK's type", () => {
    const written = json03.task(taskOf("input-required")) as unknown as Sdk03.Task
    assert.deepInclude(written, { kind: "task", id: "task", contextId: "context" })
    assert.deepStrictEqual(
      written.status.message?.parts.map(({ kind }) => kind),
      ["text", "text", "data", "file", "file"]
    )
    assert.strictEqual(written.history?.[0]?.role, "user")
  })

  it("says in its last status that the stream ends", () => {
    const finals = updates.map((update) => json03.update({ id: "t", contextId: "c" }, update)["final"])
    assert.deepStrictEqual(finals, [true, false, undefined, undefined])
  })

  it("is spelled over HTTP+JSON as its protocol buffers are", () => {
    const written = jsonProto03.task(taskOf("canceled"))
    assert.deepNestedInclude(written, { "status.state": "TASK_STATE_CANCELLED", "status.message.role": "ROLE_AGENT" })
    const { status } = written as { readonly status: { readonly message: { readonly content: ReadonlyArray<object> } } }
    assert.deepStrictEqual(status.message.content, [
      { text: "text \u{1f600}" },
      { text: "" },
      { data: { data: { n: [1, null, { a: "b" }] } } },
      { file: { fileWithBytes: "aGVsbG8=", mimeType: "image/png" } },
      { file: { fileWithUri: "http://a.test/b", mimeType: "image/png" } }
    ])
  })
})

describe.each([
  ["1.0", json10, a2a10],
  ["0.3", json03, a2a03]
] as const)("what is served of A2A %s", (dialect, served, codec) => {
  it.each(tasks)("is read by a gateway that calls it: $status.standing", (task) => {
    const read = Result.getOrThrow(codec.taskOf(dialect === "1.0" ? served.sent(task) : served.task(task)))
    assert.deepInclude(read, { id: "task", contextId: "context", state: task.status.standing })
    assert.deepStrictEqual(read.artifacts[0]?.parts, parts)
    assert.deepStrictEqual(read.message?.parts, parts)
  })
})
