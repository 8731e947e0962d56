import { assert, describe, it } from "@effect/vitest"
import { Narration } from "../../src/task/Narration.ts"
import type { Message, Part, Task } from "../../src/task/Task.ts"
import { apply, type Update } from "../../src/task/Update.ts"
import { artifactEvent, textOf } from "../../src/task/Words.ts"

const text = (words: string): Part => ({ _tag: "Text", text: words })

describe("the name of an artifact", () => {
  it("is told with it, also when only its first piece has it, and is cut where it is too long", () => {
    const piece = (name: string | undefined, append: boolean, isLast: boolean): Update => ({
      _tag: "Artifact",
      taskId: "1",
      contextId: null,
      artifact: { id: "a", parts: [text("b")], ...(name !== undefined && { name }) },
      append,
      isLast
    })
    const task = apply(apply(null, piece("report", false, false)), piece(undefined, true, true))
    const event = new Narration(false).next(task).find(({ _tag }) => _tag === "Artifact")
    assert.deepInclude(event, { content: "bb", name: "report" })
    assert.deepInclude(artifactEvent({ id: null, name: "x".repeat(600), parts: [] }, "yes"), { name: "x".repeat(512) })
    assert.notProperty(artifactEvent({ id: null, parts: [] }, "yes"), "name")
  })
})

describe("the work on what a peer says", () => {
  it("is linear in the parts of a message", () => {
    const parts = Array.from({ length: 300_000 }, () => text("ab"))
    assert.strictEqual(textOf(parts).length, 900_000 - 1)
    assert.strictEqual(textOf([text("a"), text(""), text("b"), text(" c"), text("d\n"), text("e")]), "a\nb c\nd\ne")
    assert.strictEqual(textOf([text(""), text("a"), text("\u00a0b")]), "\na\u00a0b")
  })

  it("reads a message once, however many events follow it", () => {
    let reads = 0
    const message: Message = {
      id: null,
      fromAgent: true,
      metadata: null,
      get parts() {
        reads++
        return [text("a")]
      }
    }
    const history = Array.from({ length: 1_000 }, () => message)
    const started: Task = {
      id: "1",
      contextId: null,
      state: "working",
      message,
      artifacts: [],
      history,
      metadata: null
    }
    const narration = new Narration(false)
    narration.next(started)
    const first = reads
    const silent: Update = {
      _tag: "Status",
      taskId: "1",
      contextId: null,
      state: "working",
      message: null,
      metadata: null
    }
    const piece: Update = {
      _tag: "Artifact",
      taskId: "1",
      contextId: null,
      artifact: { id: "a", parts: [text("b")] },
      append: true,
      isLast: false
    }
    for (const from of [started, { ...started, message: null }]) {
      for (const update of [silent, piece]) {
        let task: Task = from
        for (let count = 0; count < 1_000; count++) {
          task = apply(task, update)
          narration.next(task)
          assert.isAtMost(task.history.length, 1)
        }
      }
    }
    assert.strictEqual(reads, first)
  })
})
