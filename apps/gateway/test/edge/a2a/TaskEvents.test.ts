import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import type { ServedUpdate } from "@bowline/a2a/unstable/server/ServedTask"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Option, Stream } from "effect"
import { TestClock } from "effect/testing"
import { type Binding, rest, rpc } from "../../../src/edge/a2a/Binding.ts"
import { TaskEventText } from "../../../src/edge/a2a/TaskEvents.ts"

const status = (text: string, weight: "progress" | "change" | "final" = "progress"): ServedUpdate => ({
  _tag: "Status",
  status: { standing: "working", message: { messageId: text, role: "agent", parts: [{ _tag: "Text", text }] } },
  metadata: {},
  weight
})
const artifact: ServedUpdate = {
  _tag: "Artifact",
  artifact: { artifactId: "a", name: "a", parts: [{ _tag: "Text", text: "artifact" }] },
  append: false,
  lastChunk: true
}

const at = { plan: 0, seq: 0 }

const start = () => new TaskEventText(rest("1.0"), { id: "t", contextId: "c" })

/** The ids and the texts of events. */
const shown = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => [/^id: (.*)$/m.exec(event)?.[1], /"text":"([^"]*)"/.exec(event)?.[1] ?? event])

describe("the events of a task", () => {
  it.effect("tell of progress four times a second, of the rest the last one, when the second is over", () =>
    Effect.gen(function* () {
      const events = start()
      const late = yield* Effect.forkChild(Stream.runHead(events.late), { startImmediately: true })
      const written = Array.from({ length: 8 }, (_, index) =>
        events.next({ id: `${index}`, at, updates: [status(`s${index}`)] }, index)
      )
      assert.deepStrictEqual(shown(written.join("")), [
        ["0", "s0"],
        ["1", "s1"],
        ["2", "s2"],
        ["3", "s3"]
      ])
      yield* TestClock.adjust(999)
      assert.isUndefined(late.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(yield* Fiber.join(late), Option.some("late"))
      assert.deepStrictEqual(shown(events.rest(1_000)), [[undefined, "s7"]])
      assert.deepStrictEqual(shown(events.next({ id: "8", at, updates: [status("s8")] }, 1_001)), [["8", "s8"]])
    })
  )

  it("tell of everything else at once, and of what was held before the end", () => {
    const events = start()
    for (let index = 0; index < 5; index++) events.next({ id: `${index}`, at, updates: [status(`s${index}`)] }, 0)
    assert.deepStrictEqual(shown(events.next({ id: "5", at, updates: [artifact] }, 0)), [["5", "artifact"]])
    assert.deepStrictEqual(shown(events.next({ id: "6", at, updates: [artifact, status("end", "final")] }, 0)), [
      [undefined, "artifact"],
      [undefined, "s4"],
      ["6", "end"]
    ])
  })

  it("forget what was held when the state changes", () => {
    const events = start()
    for (let index = 0; index < 5; index++) events.next({ id: `${index}`, at, updates: [status(`s${index}`)] }, 0)
    assert.deepStrictEqual(shown(events.next({ id: "5", at, updates: [status("new", "change")] }, 0)), [["5", "new"]])
    assert.strictEqual(events.rest(0), "")
  })

  it("end with an error that the binding knows, if the stream breaks off", () => {
    const failed = new A2aError({ error: "Internal", message: "It breaks off", metadata: { retryable: "true" } })
    const textIn = (binding: Binding) => new TaskEventText(binding, { id: "t", contextId: "c" }).failure(failed)
    assert.match(textIn(rest("1.0")), /^event: error\ndata: {"error":{"code":500,.*"retryable":"true".*\n\n$/)
    assert.match(textIn(rpc("1.0", 7)), /^data: {"jsonrpc":"2.0","id":7,"error":{"code":-32603,.*\n\n$/)
  })
})
