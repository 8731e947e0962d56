import { assert, describe, it } from "@effect/vitest"
import { earlierCalls } from "../../src/approval/EarlierCalls.ts"
import { call, historyOf, result } from "../Messages.ts"

describe("earlierCalls", () => {
  it("has the calls of the same tool with how they ended, the newest first, without the one that waits", () => {
    const history = historyOf([
      ["plan_1", "assistant", [call("t1", "pay", { sum: 1 }), call("t2", "find")]],
      ["plan_1", "tool", [result("t1", "paid")]],
      ["plan_2", "assistant", [call("t3", "pay", { sum: 2 }), call("t4", "pay", { sum: 3 })]]
    ])
    assert.deepStrictEqual(
      earlierCalls(history, { taskId: "t4", tool: "pay" }).map(({ input, planId, state, taskId }) => [
        planId,
        taskId,
        input,
        state
      ]),
      [
        ["plan_2", "t3", { sum: 2 }, null],
        ["plan_1", "t1", { sum: 1 }, "completed"]
      ]
    )
  })
})
