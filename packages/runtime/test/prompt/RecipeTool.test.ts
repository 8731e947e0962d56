import { TaskId } from "@bowline/domain/tool/TaskState"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import * as RecipeTool from "../../src/prompt/RecipeTool.ts"

const table = new Map(
  ["refund", "greet"].map((name) => [name, { name, description: `How to ${name}`, body: `Body of ${name}` }])
)

it.effect("a recipe that its caller may not have is neither listed nor loaded, also where it was allowed before", () =>
  Effect.gen(function* () {
    const permitted = new Set(["refund", "greet"])
    const isAllowed = (name: string) => permitted.has(name)
    const { call } = RecipeTool.toTool(RecipeTool.allowed(table, isAllowed), isAllowed)
    const load = (name: string) =>
      call({
        taskId: TaskId.make("00000000-0000-0000-0000-000000000000"),
        input: { name },
        isHandedOver: () => false,
        ask: () => Effect.never,
        awaitAccount: () => Effect.never,
        onEvent: () => Effect.void
      })
    assert.deepInclude(yield* load("refund"), { state: "completed", content: "Body of refund" })
    permitted.delete("refund")
    const content = 'There is no recipe "refund". The nearest: greet'
    assert.deepInclude(yield* load("refund"), { state: "invalid", content })
    assert.deepStrictEqual(Array.from(RecipeTool.allowed(table, isAllowed).keys()), ["greet"])
  })
)
