import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { fromEvents, toFrame, toFrames } from "../../src/store/EventRow.ts"

const FewSteps = Schema.Literals([1, 2])
const Events = Schema.Array(
  Schema.Union([
    Schema.Struct({
      event: Schema.Literals(["text.delta", "reasoning.delta"]),
      data: Schema.Struct({ step: FewSteps, attempt: Schema.Literal(1), delta: Schema.String })
    }),
    Schema.Struct({
      event: Schema.Literal("step"),
      data: Schema.Struct({ step: FewSteps, attempt: Schema.Literal(1) })
    })
  ])
)

const at = "2026-01-02T03:04:05.678Z"

describe("EventRow", () => {
  it.prop("replays every frame byte for byte, whatever was stored in one row", { events: Events }, ({ events }) => {
    const first = 7
    const frames = events.map((event, index) => toFrame(first + index, at, event))
    const rows = fromEvents(first, at, events)
    assert.deepStrictEqual(rows.flatMap(toFrames), frames)
    assert.strictEqual(
      rows.reduce((count, row) => count + row.count, 0),
      events.length
    )
  })

  it("puts a run of deltas of one attempt into one row", () => {
    const text = (step: number, delta: string): PlanEvent => ({
      event: "text.delta",
      data: { step, attempt: 1, delta }
    })
    const rows = fromEvents(3, at, [text(1, "a"), text(1, "b"), text(2, "c"), { event: "done", data: {} }])
    assert.deepStrictEqual(
      rows.map(({ seq, count }) => [seq, count]),
      [
        [3, 2],
        [5, 1],
        [6, 1]
      ]
    )
  })
})
