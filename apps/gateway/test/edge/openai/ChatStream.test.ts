import { stall } from "@bowline/testing/http/Move"
import { callTool } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { respond } from "../../../src/edge/openai/ChatStream.ts"

const agents = [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }]
const options = { includesUsage: false, showsProgress: true, onRetract: "error" } as const

describe("a stream of Chat Completions", () => {
  it.effect.each([
    ["the provider", [stall], `"content":""`],
    ["a tool", [callTool("bob_ask", { input: "hi" })], "→ bob.ask …"]
  ] as const)("says a comment after each 10 s in which %s is silent", ([, turn, last]) =>
    Effect.gen(function* () {
      const { frames, plan_id } = yield* TestKit.follow({ question: "?", agents })
      const { body } = respond({ plan_id, created: 0, model: "bowline" }, options, { frames })
      if (body._tag !== "Stream") return assert.fail("The answer is no stream")
      let heard = ""
      const decoder = new TextDecoder()
      yield* Effect.forkScoped(
        Stream.runForEach(Stream.orDie(body.stream), (bytes) =>
          Effect.sync(() => void (heard += decoder.decode(bytes)))
        )
      )
      yield* TestKit.pass("1 second")
      assert.include(heard, last)
      for (let silences = 0; silences < 6; silences++) {
        heard = ""
        yield* TestKit.pass("10 seconds", "1 second")
        assert.strictEqual(heard, ": ping\n\n")
      }
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [turn], peers: { call: () => Effect.never } })))
  )

  it.effect("says a comment though frames come all the time that it does not show", () =>
    Effect.gen(function* () {
      const frame = { seq: 1, at: "2026-01-01T00:00:00.000Z", event: "queued", payload: '{"position":1}' } as const
      const frames = Stream.map(Stream.tick("9 seconds"), () => frame)
      const { plan_id } = yield* TestKit.post({ question: "?" })
      const { body } = respond({ plan_id, created: 0, model: "bowline" }, options, { frames })
      if (body._tag !== "Stream") return assert.fail("The answer is no stream")
      const heard: Array<string> = []
      yield* Effect.forkScoped(
        Stream.runForEach(Stream.orDie(body.stream), (bytes) =>
          Effect.sync(() => void (bytes.length > 0 && heard.push(bytes.toString())))
        )
      )
      yield* TestKit.pass("1 minute", "1 second")
      assert.deepStrictEqual(
        heard.slice(1),
        Array.from({ length: 6 }, () => ": ping\n\n")
      )
    }).pipe(Effect.scoped, Effect.provide(TestKit.layer({ script: [[stall]] })))
  )
})
