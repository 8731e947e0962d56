import { callTool, say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { results, type Script } from "@bowline/testing/unstable/provider/Script"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { PlannerText } from "../../src/prompt/PlannerText.ts"
import * as Recipes from "../../src/prompt/Recipes.ts"
import { bob } from "../plan/Bob.ts"
import { mortal, replayed, stays } from "../plan/Mortal.ts"

const refund = { name: "refund", description: "Gives money back", body: "1. Find the order.\n2. Pay." }
const greet = { name: "greet", description: "Says hello", body: "Say hello." }
const recipes = Recipes.layer([refund, greet])

const load = (name: string) => [callTool("load_recipe", { name })]

describe("recipes", () => {
  it.effect("are in the prompt by name and description, behind the planner's instructions and before the catalog", () =>
    Effect.gen(function* () {
      yield* readAll((yield* post({ question: "?", agents: [bob] })).frames)
      const [asked] = yield* (yield* ScriptedProvider).asked.all
      const { system = "", tools = [] } = asked ?? {}
      assert.isTrue(system.startsWith("Be kind.\n\nThese recipes"), system)
      assert.match(
        system,
        /:\n- refund: Gives money back\n- greet: Says hello\n\n.*stand between lines.*agents.*: bob\./s
      )
      assert.notInclude(system, "Find the order")
      assert.deepStrictEqual(
        tools.map(({ name }) => name),
        ["load_recipe", "bob_ask"]
      )
    }).pipe(
      Effect.provide(
        layer({ script: [[say("ok")]] }).pipe(
          Layer.provide([recipes, Layer.succeed(PlannerText, Effect.succeed("Be kind.\n"))])
        )
      ),
      Effect.scoped
    )
  )

  it.effect("are read by the model as they are, and shown to readers as the result of a tool", () =>
    Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?" })).frames)
      const started = {
        tool: "load_recipe",
        kind: "recipe",
        agent: null,
        skill: null,
        input: { name: "refund" }
      } as const
      assert.deepInclude(single(events, "task.started"), started)
      assert.deepInclude(single(events, "task.artifact"), { content: refund.body, truncated: false })
      assert.strictEqual(single(events, "task.finished").state, "completed")
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(second && results(second), [refund.body])
    }).pipe(
      Effect.provide(layer({ script: [load("refund"), [say("ok")]] }).pipe(Layer.provide(recipes))),
      Effect.scoped
    )
  )

  it.effect("that do not exist are invalid, and the model is told the nearest names", () =>
    Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?" })).frames)
      const message = 'There is no recipe "../greet". The nearest: greet, refund'
      assert.deepInclude(single(events, "task.finished"), { state: "invalid", error: { code: "invalid", message } })
      assert.deepStrictEqual(all(events, "task.artifact"), [])
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual(second && results(second), [message])
    }).pipe(
      Effect.provide(layer({ script: [load("../greet"), [say("ok")]] }).pipe(Layer.provide(recipes))),
      Effect.scoped
    )
  )

  it.effect("are cut where they are longer than a result may be", () =>
    Effect.gen(function* () {
      const events = yield* readAll((yield* post({ question: "?" })).frames)
      assert.strictEqual(single(events, "task.artifact").truncated, true)
      const [, second] = yield* (yield* ScriptedProvider).asked.all
      assert.match(JSON.stringify(second?.messages), /characters left out/)
    }).pipe(
      Effect.provide(
        layer({ script: [load("long"), [say("ok")]], config: { contextWindow: 10_000 } }).pipe(
          Layer.provide(Recipes.layer([{ ...greet, name: "long", body: "x".repeat(9_001) }]))
        )
      ),
      Effect.scoped
    )
  )

  it.effect("bring no tool where there are none, but keep its name from agents", () =>
    Effect.gen(function* () {
      yield* readAll((yield* post({ question: "?" })).frames)
      const [asked] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual([asked?.tools, asked?.system.includes("recipe")], [[], false])
      const agents = [{ ...bob, name: "load", skills: [{ id: "recipe" }] }]
      const refused = yield* Effect.flip(post({ question: "?", agents }))
      const message = "skill recipe of agent load and the recipes would both be the tool load_recipe"
      assert.deepStrictEqual("issues" in refused && refused.issues, [
        { path: ["agents", 0, "skills", 0, "id"], message }
      ])
    }).pipe(Effect.provide(layer({ script: [[say("ok")]] })), Effect.scoped)
  )

  it.effect("are left out of a plan that has 2,000 tools of its own, and the caller is told", () =>
    Effect.gen(function* () {
      const skills = Array.from({ length: 50 }, (_, index) => ({ id: `skill-${index}` }))
      const agents = Array.from({ length: 40 }, (_, index) => ({ ...bob, name: `a${index}`, skills }))
      const events = yield* readAll((yield* post({ question: "?", agents })).frames)
      const [asked] = yield* (yield* ScriptedProvider).asked.all
      assert.deepStrictEqual([asked?.tools.length, asked?.system.includes("refund")], [1, false])
      const data = { tools: [{ tool: "load_recipe", reason: "A plan has at most 2000 tools" }] }
      assert.deepInclude(single(events, "notice"), { code: "tool_missing", data })
    }).pipe(Effect.provide(layer({ script: [[say("ok")]] }).pipe(Layer.provide(recipes))), Effect.scoped)
  )

  it.effect("are loaded again after a crash, also where the recipe is gone by then", () => {
    const script: Script = (asked) => (results(asked).length === 0 ? load("refund") : [say(results(asked).join())])
    return Effect.gen(function* () {
      for (const [session_id, found, told] of [
        ["s", [refund], refund.body],
        ["t", [], 'There is no recipe "refund"']
      ] as const) {
        // The first process dies when the intent to load is stored, and before there is a result.
        const first = yield* mortal({
          script,
          dies: (commits) => (JSON.stringify(commits).includes("TaskStarted") ? "behind" : undefined)
        }).pipe(Effect.provide(Recipes.layer([refund])))
        const { plan_id } = yield* first.on(post({ question: "?", session_id, ...stays }))
        yield* pass("1 second")
        first.kill()
        const second = yield* mortal({ script }).pipe(Effect.provide(Recipes.layer(found)))
        const events = yield* replayed(second, plan_id)
        assert.strictEqual(single(events, "final").text, told)
        assert.strictEqual(all(events, "task.started").length, 1)
        second.kill()
      }
    }).pipe(Effect.provide(MemoryStore.layer), Effect.scoped)
  })
})
