import { stall } from "@bowline/testing/http/Move"
import { callTool } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { ResponseEvents } from "../../../src/edge/response/ResponseEvents.ts"
import { respond } from "../../../src/edge/response/ResponseStream.ts"
import { echo } from "./ToldEvents.ts"

const agents = [{ name: "bob", endpoint: "http://bob.test/", skills: [{ id: "ask" }] }]

describe("a stream of Responses", () => {
  it.effect.each([
    ["the provider", [stall], "response.in_progress"],
    ["a tool", [callTool("bob_ask", { input: "hi" })], "response.mcp_call.in_progress"]
  ] as const)("says a comment after each 10 s in which %s is silent", ([, turn, last]) =>
    Effect.gen(function* () {
      const { frames, plan_id } = yield* TestKit.follow({ question: "?", agents })
      const events = new ResponseEvents({ plan_id, leg: 1 }, echo)
      const { body } = respond({ events, after: -1 }, { frames })
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
})
