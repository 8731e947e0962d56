import { callTool, say } from "@bowline/testing/provider/Turn"
import { all, layer, single, post, readAll } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as LocalTools from "../../src/tool/LocalTools.ts"

const toolkit = Toolkit.make(
  Tool.make("add", { parameters: Schema.Struct({ a: Schema.Int, b: Schema.Int }), success: Schema.Int }),
  Tool.make("refuse", { failure: Schema.String, failureMode: "return" }),
  Tool.make("die"),
  Tool.make("let_go")
)

const handlers = toolkit.toLayer({
  add: ({ a, b }) => Effect.succeed(a + b),
  refuse: () => Effect.fail("not today"),
  die: () => Effect.die(new Error("broken")),
  let_go: () => Effect.interrupt
})

const tools = LocalTools.layer(toolkit).pipe(Layer.provide(handlers))

describe("LocalTools", () => {
  it.effect("gives the model what a tool of the app returns, and what goes wrong in it", () =>
    Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?" })).frames)
      assert.sameDeepMembers(
        all(events, "task.finished").map(({ state, error }) => [state, error?.message]),
        [
          ["completed", undefined],
          ["failed", "broken"],
          ["failed", "not today"],
          ["failed", "The tool failed"],
          ["invalid", "The arguments do not match the schema. /b: must be integer"]
        ]
      )
      assert.strictEqual(all(events, "task.started")[0]?.kind, "local")
      assert.strictEqual(single(events, "final").text, "done")
    }).pipe(
      Effect.provide(
        layer({
          script: [
            [
              callTool("add", { a: 1, b: 2 }),
              callTool("add", { a: 1, b: "2" }),
              callTool("refuse", {}),
              callTool("die", {}),
              callTool("let_go", {})
            ],
            [say("done")]
          ]
        }).pipe(Layer.provide(tools))
      ),
      Effect.scoped
    )
  )
})

it.effect("a tool of the app that says what its effect is does it once, whatever the model asks", () => {
  const charged: Array<string> = []
  const Charge = Tool.make("charge", {
    parameters: Schema.Struct({ order: Schema.String, note: Schema.String }),
    success: Schema.String
  }).annotate(LocalTools.Effects, { key: ["/order"], scope: "caller" })
  const shop = Toolkit.make(Charge)
  const charge = shop.toLayer({
    charge: ({ order }) =>
      Effect.sync(() => {
        charged.push(order)
        return "charged"
      })
  })
  const asked = (order: string, note: string) => [callTool("charge", { order, note })]
  return Effect.gen(function* () {
    const events = yield* readAll((yield* post({ question: "?" })).frames)
    assert.deepStrictEqual(charged, ["7", "8"])
    const [first, second] = all(events, "task.finished")
    assert.strictEqual(second?.repeat_of, first?.task_id)
  }).pipe(
    Effect.provide(
      layer({ script: [asked("7", "a"), asked("7", "b"), asked("8", "a"), [say("done")]] }).pipe(
        Layer.provide(LocalTools.layer(shop).pipe(Layer.provide(charge)))
      )
    )
  )
})

it.effect("a tool of the app that dies, or gives what its schema does not take, may have had its effect", () => {
  const charged: Array<string> = []
  const parameters = Schema.Struct({ order: Schema.String })
  const effect = { key: "arguments", scope: "caller" } as const
  const shop = Toolkit.make(
    Tool.make("charge", { parameters, success: Schema.Int, failure: Schema.String, failureMode: "return" }).annotate(
      LocalTools.Effects,
      effect
    )
  )
  const ends = [Effect.fail("no money"), Effect.die(new Error("broken")), Effect.succeed(0.5)]
  const charge = shop.toLayer({
    charge: ({ order }) =>
      Effect.suspend(() => {
        charged.push(order)
        return ends[charged.length - 1] ?? Effect.succeed(1)
      })
  })
  const asked = (order: string) => [callTool("charge", { order })]
  const script = [asked("refused"), asked("refused"), asked("wrong"), asked("wrong"), [say("done")]]
  return Effect.gen(function* () {
    const body = { question: "?", preferences: { approval: "never" } }
    const events = yield* readAll((yield* post(body)).frames)
    assert.deepStrictEqual(
      all(events, "task.finished").map(({ error, state }) => [state, error?.code]),
      [
        ["failed", "tool_failed"],
        ["failed", "tool_failed"],
        ["failed", "tool_failed"],
        ["rejected", "effect_unknown"]
      ]
    )
    assert.deepStrictEqual(charged, ["refused", "refused", "wrong"])
  }).pipe(
    Effect.provide(layer({ script }).pipe(Layer.provide(LocalTools.layer(shop).pipe(Layer.provide(charge))))),
    Effect.scoped
  )
})
