import { Provider, type ProviderPart } from "../../src/provider/Provider.ts"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { SessionStore } from "../../src/store/SessionStore.ts"
import { bob } from "../plan/Bob.ts"

const think = (delta: string): ProviderPart => ({ _tag: "ReasoningDelta", delta })
const sign = (signature: string): ProviderPart => ({ _tag: "ReasoningEnded", signature })
const say = (delta: string): ProviderPart => ({ _tag: "TextDelta", delta })
const begin = (call: number): ProviderPart => ({ _tag: "ToolCallFragment", call })
const whole = (call: number, name: string): ProviderPart => ({
  _tag: "ToolCall",
  call,
  id: `call_${call}`,
  name,
  arguments: `{"input":"${call}"}`
})
const finish = (reason: "tool_calls" | "length" | "stop"): ProviderPart => ({
  _tag: "Finished",
  reason,
  inferred: false
})

/** What is stored of the first answer of a plan whose provider gives these, by kind and content. */
const storedOf = Effect.fnUntraced(function* (...answers: ReadonlyArray<ReadonlyArray<ProviderPart>>) {
  let asked = 0
  const adapter = Layer.succeed(Provider, {
    name: "scripted",
    stream: () => Stream.fromIterable(answers[asked++] ?? [say("done"), finish("stop")])
  })
  const peers = {
    call: () => Effect.succeed({ state: "completed" as const, content: "hi", verified: "unknown" as const })
  }
  return yield* Effect.gen(function* () {
    const { frames, session_id } = yield* TestKit.post({ question: "?", agents: [bob] })
    yield* TestKit.readAll(frames)
    const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
    const parts = items.find(({ role }) => role === "assistant")?.parts ?? []
    return parts.map((part) => {
      if (part.type === "tool_call") return ["call", part.input["input"]]
      if (part.type === "text") return ["text", part.text, ...(part.phase === undefined ? [] : [part.phase])]
      return part.type === "reasoning" ? ["thought", part.text, part.signature] : [part.type]
    })
  }).pipe(Effect.scoped, Effect.provide(TestKit.layerOfCredentials([adapter], { peers })))
})

describe("Assembly", () => {
  it.effect("keeps thoughts, texts and calls of an answer in the order in which they came", () =>
    Effect.gen(function* () {
      const stored = yield* storedOf([
        think("first"),
        sign("one"),
        begin(0),
        begin(0),
        think("second"),
        sign("two"),
        say("now "),
        begin(1),
        begin(2),
        say("that"),
        whole(0, "bob_ask"),
        whole(1, "bob_ask"),
        whole(2, "bob_ask"),
        finish("tool_calls")
      ])
      assert.deepStrictEqual(stored, [
        ["thought", "first", "one"],
        ["call", "0"],
        ["thought", "second", "two"],
        ["text", "now "],
        ["call", "1"],
        ["call", "2"],
        ["text", "that"]
      ])
    })
  )

  it.effect("puts the calls of a continuation after what was said before", () =>
    Effect.gen(function* () {
      const stored = yield* storedOf(
        [say("one "), finish("length")],
        [begin(0), say("two"), whole(0, "bob_ask"), finish("tool_calls")]
      )
      assert.deepStrictEqual(stored, [
        ["text", "one "],
        ["call", "0"],
        ["text", "two"]
      ])
    })
  )

  it.effect("keeps texts of another phase apart", () =>
    Effect.gen(function* () {
      const ended = (phase: string): ProviderPart => ({ _tag: "TextEnded", phase })
      const stored = yield* storedOf([
        say("I look."),
        ended("commentary"),
        say("A "),
        say("knot."),
        ended("final_answer"),
        finish("stop")
      ])
      assert.deepStrictEqual(stored, [
        ["text", "I look.", "commentary"],
        ["text", "A knot.", "final_answer"]
      ])
    })
  )
})
