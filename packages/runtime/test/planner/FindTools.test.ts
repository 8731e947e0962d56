import { anonymous } from "@bowline/domain/caller/CallerName"
import { stall, wait } from "@bowline/testing/http/Move"
import { question } from "@bowline/testing/unstable/provider/Script"
import type { Asked, Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { all, layer, pass, post, readAll, single } from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { DeclaredTools } from "../../src/planner/DeclaredTools.ts"
import * as FileTool from "../../src/tool/FileTool.ts"
import { LocalTools } from "../../src/tool/LocalTools.ts"
import * as WaitTool from "../../src/tool/WaitTool.ts"
import { isSummary, small, words } from "../compaction/LongSession.ts"
import { askAndKill, mortal, replayed } from "../plan/Mortal.ts"
import { tools } from "../tool/catalog/Catalog.ts"

const local = Layer.succeed(LocalTools, tools)
const namesOf = (asked: Asked | undefined) => asked?.tools.map(({ name }) => name)
const body = { question: "?", preferences: { on_disconnect: "continue" } }

/** Finds three tools, calls them, and answers. */
const three: Script = [
  [callTool("find_tools", { query: "create a refund", limit: 1 })],
  [
    callTool("find_tools", { query: "post a message", source: "slack", limit: 1 }),
    callTool("find_tools", { query: "override schedule", source: "pagerduty", limit: 1 })
  ],
  [
    callTool("stripe_create_refund", { charge: "1" }),
    callTool("slack_post_message", { text: "done" }),
    callTool("pagerduty_override_on_call_schedule", {})
  ],
  [say("done")]
]

const run = (script: Script, request: object = body, config: object = {}) =>
  Effect.gen(function* () {
    const events = yield* readAll((yield* post(request)).frames)
    return { events, asked: yield* (yield* ScriptedProvider).asked.all }
  }).pipe(Effect.provide(Layer.provide(layer({ script, config }), local)), Effect.scoped)

describe("a plan with 1,000 tools", () => {
  it.effect("tells the model where they come from, and declares what it finds behind what it has found before", () =>
    Effect.gen(function* () {
      const { asked, events } = yield* run(three)
      const ofStripe = tools.filter(({ agent }) => agent === "stripe").length
      assert.include(asked[0]?.system, `- stripe (${ofStripe} tools)`)
      const [stripe, slack, pager] = [
        "stripe_create_refund",
        "slack_post_message",
        "pagerduty_override_on_call_schedule"
      ]
      assert.deepStrictEqual(namesOf(asked[1]), ["find_tools", stripe])
      // The two searches run at once.
      assert.sameMembers(namesOf(asked[2])?.slice(2) ?? [], [slack, pager])
      assert.deepStrictEqual(namesOf(asked[3]), namesOf(asked[2]))
      const [result = ""] =
        asked[1]?.messages.flatMap((message) => (message.role === "tool" ? [message.content] : [])) ?? []
      assert.match(
        result,
        /^\{"tools":\[\{"name":"stripe_create_refund","source":"stripe","description":".+","input_schema":\{/u
      )
      assert.deepStrictEqual(
        all(events, "task.finished").map(({ state }) => state),
        Array.from({ length: 6 }, () => "completed")
      )
      assert.strictEqual(single(events, "final").text, "done")
    })
  )

  it.effect("declares what the question names, what a text names, and what the session has called", () =>
    Effect.gen(function* () {
      const { asked } = yield* run([[say("one")]], {
        ...body,
        question: "Use bank_send_bank_transfer and fill_form_field, please"
      })
      const named = ["find_tools", "browser_fill_form_field", "bank_send_bank_transfer"]
      assert.sameMembers(namesOf(asked[0]) ?? [], named)
    })
  )

  it.effect("makes a call of a tool that is not declared, and keeps it declared for the session", () =>
    Effect.gen(function* () {
      const script: Script = [[callTool("iot_read_sensor", {})], [say("one")], [say("two")]]
      const request = { ...body, session_id: "s" }
      const asked = yield* Effect.gen(function* () {
        const first = yield* readAll((yield* post(request)).frames)
        assert.strictEqual(single(first, "task.finished").state, "completed")
        yield* readAll((yield* post({ ...request, question: "And now?" })).frames)
        return yield* (yield* ScriptedProvider).asked.all
      }).pipe(Effect.provide(Layer.provide(layer({ script }), local)), Effect.scoped)
      assert.deepStrictEqual(namesOf(asked.at(-1)), ["find_tools", "iot_read_sensor"])
    })
  )

  it.effect("keeps what was found in the next process", () =>
    Effect.gen(function* () {
      const first = yield* mortal({
        script: [[callTool("find_tools", { query: "create a refund", limit: 1 })], [stall]]
      })
      const second = yield* mortal({
        script: (asked) => [say(namesOf(asked)?.join() ?? "")]
      })
      const { plan_id } = yield* askAndKill(first)
      const events = yield* replayed(second, plan_id)
      assert.strictEqual(single(events, "final").text, "find_tools,stripe_create_refund")
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, local)))
  )

  it.effect("keeps what a text names, and what a search has found whose result is too long, in the next process", () =>
    Effect.gen(function* () {
      const find = callTool("find_tools", { query: "create a refund in stripe" })
      const models = () => ({
        exact: new Map([["scripted/tiny", { contextWindow: 3_000, outputLimit: 500 }]]),
        named: new Map()
      })
      const config = { model: "scripted/tiny", contextWindow: 3_000, models }
      const first = yield* mortal({ config, script: [[find], [wait(5_000), say("one")], [stall]] })
      const declared: Array<string> = []
      const second = yield* mortal({
        config,
        script: (asked) => {
          declared.push(...(namesOf(asked) ?? []))
          return [say("done")]
        }
      })
      const { plan_id } = yield* first.on(post({ ...body, session_id: "s" }))
      yield* pass("1 second")
      const text = { type: "text", text: "Use fill_form_field.", when: "boundary", else: "ask" } as const
      yield* first.inbox.accept({ caller: anonymous, isAdmin: false }, plan_id, text)
      yield* pass("10 seconds")
      first.kill()
      yield* replayed(second, plan_id)
      assert.lengthOf(declared, 12)
      assert.includeMembers(declared, ["stripe_create_refund", "browser_fill_form_field"])
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(MemoryStore.layer, local)))
  )

  it("always declares the tools of the gateway itself, and does not search them", () => {
    const own = [WaitTool.tool, FileTool.make(() => Effect.undefined)]
    const declared = new DeclaredTools(new Map([...tools, ...own].map((tool) => [tool.name, tool])), 64)
    assert.deepStrictEqual(
      declared.list.map(({ name }) => name),
      ["wait", "view_file"]
    )
    assert.notInclude(
      declared.sources(new Map()).map(({ name }) => name),
      "local"
    )
  })

  it.effect("keeps what was called when a compaction has covered it", () =>
    Effect.gen(function* () {
      const script: Script = (asked) => {
        if (isSummary(asked)) return [say("Refunds.")]
        const called = asked.messages.some(({ role }) => role === "tool")
        if (question(asked).startsWith("First") && !called) return [callTool("stripe_create_refund", { charge: "1" })]
        return [say(`${words(300)} ${namesOf(asked)?.join()}`)]
      }
      const asked = yield* Effect.gen(function* () {
        for (const asks of ["First", "Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth"]) {
          yield* readAll((yield* post({ ...body, session_id: "s", question: `${asks} ${words(200)}` })).frames)
        }
        return yield* (yield* ScriptedProvider).asked.all
      }).pipe(Effect.provide(Layer.provide(layer({ script, config: small }), local)), Effect.scoped)
      assert.isTrue(asked.some(isSummary))
      const last = asked.at(-1)
      assert.isFalse(last?.messages.some(({ role }) => role === "tool"))
      assert.include(namesOf(last) ?? [], "stripe_create_refund")
    })
  )

  it.effect("quotes what an agent's card says of it, on one line", () =>
    Effect.gen(function* () {
      const agents = ["a", "b"].map((name) => ({ name, endpoint: `http://${name}.test/` }))
      yield* readAll((yield* post({ ...body, agents })).frames)
      const [asked] = yield* (yield* ScriptedProvider).asked.all
      assert.include(asked?.system, '- b (64 tools): "Ropes\\nand \\"knots\\""')
    }).pipe(
      Effect.provide(
        layer({
          script: [[say("ok")]],
          peers: {
            discover: () => {
              const skills = Array.from({ length: 64 }, (_, index) => ({ id: `skill-${index}` }))
              return Effect.succeed({ skills, description: 'Ropes\nand "knots"', did: null })
            }
          }
        })
      ),
      Effect.scoped
    )
  )

  it.effect("declares them all where the configuration lets it, and names a source that does not exist", () =>
    Effect.gen(function* () {
      const few = tools.slice(0, 100)
      const asks = (declareAtMost: number, script: Script) =>
        Effect.gen(function* () {
          const events = yield* readAll((yield* post(body)).frames)
          return { events, asked: yield* (yield* ScriptedProvider).asked.all }
        }).pipe(
          Effect.provide(Layer.provide(layer({ script, config: { declareAtMost } }), Layer.succeed(LocalTools, few))),
          Effect.scoped
        )
      const whole = yield* asks(100, [[say("ok")]])
      assert.lengthOf(whole.asked[0]?.tools ?? [], 100)
      assert.notInclude(whole.asked[0]?.system, "find_tools")
      const searched = yield* asks(99, [[callTool("find_tools", { query: "x", source: "githup" })], [say("ok")]])
      assert.deepStrictEqual(namesOf(searched.asked[0]), ["find_tools"])
      const { error, state } = single(searched.events, "task.finished")
      assert.strictEqual(state, "invalid")
      assert.include(error?.message, '"githup". The nearest: github')
    })
  )
})
