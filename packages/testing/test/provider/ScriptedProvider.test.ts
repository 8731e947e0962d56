import { Provider, type ProviderPart, type ProviderRequest } from "@bowline/runtime/provider/Provider"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as Move from "../../src/http/Move.ts"
import { makeDemo } from "../../src/provider/DemoScript.ts"
import { providerCases, shown } from "../../src/provider/ProviderCases.ts"
import type { Asked } from "../../src/provider/Script.ts"
import { ScriptedProvider } from "../../src/provider/ScriptedProvider.ts"
import * as Turn from "../../src/provider/Turn.ts"

const request = (fields?: Partial<ProviderRequest>): ProviderRequest => ({
  model: "m",
  system: "s",
  messages: [{ role: "user", parts: [{ type: "text", text: "What now?" }] }],
  tools: [],
  toolChoice: "auto",
  ...fields
})

const attempt = Effect.fnUntraced(function* (asked: ProviderRequest) {
  const { stream } = yield* Provider
  const parts: Array<ProviderPart> = []
  const exit = yield* Effect.result(
    Stream.runForEach(stream(asked), (part) => Effect.sync(() => void parts.push(part)))
  )
  return { parts, failure: exit._tag === "Failure" ? exit.failure.reason : undefined }
})

describe("ScriptedProvider", () => {
  for (const { title, turn, parts, failure } of providerCases) {
    it.effect(title, () =>
      Effect.gen(function* () {
        const seen = yield* attempt(request())
        assert.deepStrictEqual(shown(seen.parts), parts)
        assert.strictEqual(seen.failure?._tag, failure)
      }).pipe(Effect.provide(ScriptedProvider.layer([turn])))
    )
  }

  it.effect("waits in virtual time, and sees who disconnects meanwhile", () =>
    Effect.gen(function* () {
      const { asked } = yield* ScriptedProvider
      const done = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("1 hour")
      assert.isUndefined((yield* Fiber.join(done)).failure)
      const stalled = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("10 hours")
      assert.strictEqual(yield* asked.open, 1)
      yield* Fiber.interrupt(stalled)
      const requests = yield* asked.all
      assert.deepStrictEqual(yield* Effect.forEach(requests, ({ ended }) => ended), ["finished", "interrupted"])
    }).pipe(
      Effect.provide(
        ScriptedProvider.layer([
          [Move.wait("1 hour"), Turn.say("late")],
          [Turn.say("a"), Move.stall]
        ])
      )
    )
  )

  it.effect("does not wait for a provider that has finished, and stalls", () =>
    Effect.gen(function* () {
      const done = yield* Effect.forkChild(attempt(request()))
      yield* TestClock.adjust("1 second")
      assert.deepInclude((yield* Fiber.join(done)).parts.at(-1), { _tag: "Finished" })
    }).pipe(Effect.provide(ScriptedProvider.layer([[Turn.say("a"), Turn.finish("stop"), Move.stall]])))
  )

  it.effect("refuses a request too many, and names it", () =>
    Effect.gen(function* () {
      yield* attempt(request())
      const { failure } = yield* attempt(request())
      assert.deepInclude(failure, {
        _tag: "bad_request",
        message: "The script has no turn for request 2: What now?"
      })
    }).pipe(Effect.provide(ScriptedProvider.layer([[Turn.say("a")]])))
  )
})

describe("the demo script", () => {
  const tool = (name: string) => ({ name, description: name, inputSchema: {} })
  const asked = (text: string, fields?: Partial<Asked>): Asked => ({
    model: "demo",
    system: "",
    messages: [{ role: "user", text }],
    tools: [tool("weather_now"), tool("news_today"), tool("news_old")],
    toolChoice: "auto",
    ...fields
  })
  const demo = makeDemo()
  const said = (turn: Turn.Turn) => turn.map((move) => (move._tag === "Say" ? move.text : "")).join("")
  const called = (turn: Turn.Turn) => turn.flatMap((move) => (move._tag === "Call" ? [move.name] : []))

  it("calls the tools that the question names by agent or by name, else all of them", () => {
    assert.deepStrictEqual(called(demo(asked("What does News say?"))), ["news_today", "news_old"])
    assert.deepStrictEqual(called(demo(asked("Use news_old, please."))), ["news_old"])
    assert.deepStrictEqual(called(demo(asked("Hello"))), ["weather_now", "news_today", "news_old"])
    assert.deepInclude(demo(asked("weather?"))[0], { arguments: '{"input":"weather?"}' })
  })

  it("quotes the results of its calls, without their envelope", () => {
    const turn = demo(
      asked("weather?", {
        messages: [
          { role: "user", text: "weather?" },
          { role: "assistant", text: "", calls: [{ id: "a", name: "weather_now", input: {} }] },
          { role: "tool", id: "a", content: '<result x tool="weather_now" agent="weather">\nSunny\n</result x>' }
        ]
      })
    )
    assert.strictEqual(said(turn), "Demo answer. A tool said: “Sunny”.")
  })

  it("answers in text without tools, and counts the questions before this one", () => {
    const turn = demo(
      asked("And now?", {
        toolChoice: "none",
        messages: [
          { role: "user", text: "First" },
          { role: "assistant", text: "Yes", calls: [] },
          { role: "user", text: "And now?" }
        ]
      })
    )
    assert.include(said(turn), "“And now?”")
    assert.include(said(turn), "1 earlier question of this session")
  })

  it("breaks off the first answer to a question that asks for a change of mind, and gives the second one", () => {
    const question = asked("Change your mind: what is a bowline?", { tools: [] })
    assert.deepInclude(demo(question).at(-1), { _tag: "Break" })
    assert.include(said(demo(question)), "earlier questions of this session")
    assert.deepInclude(demo(question).at(-1), { _tag: "Break" })
  })

  it("looks something up in three steps for a question about compaction, refuses the fourth as too long, and then answers", () => {
    const text = "Ask weather until a compaction is due."
    const after = (steps: number) =>
      asked(text, {
        messages: [
          { role: "user", text },
          ...Array.from({ length: steps }, (_, id) => ({ role: "tool" as const, id: String(id), content: "x" }))
        ]
      })
    for (const steps of [0, 1, 2]) assert.deepStrictEqual(called(demo(after(steps))), ["weather_now"])
    assert.deepInclude(demo(after(3))[0], { _tag: "Refused", status: 400 })
    assert.deepStrictEqual(called(demo({ ...after(1), toolChoice: "none" })), [])
    assert.include(said(demo(after(1))), "its head became a summary")
    assert.deepStrictEqual(called(demo(after(0))), ["weather_now"])
  })
})
