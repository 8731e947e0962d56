import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { appends, becomes, completes, produces, says, works, type Act } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { ScriptedProvider } from "@bowline/testing/provider/ScriptedProvider"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { memory } from "../peer/call.ts"

const token = "s3cret-0123456789"

const plans = Layer.unwrap(
  Effect.map(PeerClient, (peers) =>
    TestKit.layer({ script: [[callTool("peer_ask", { input: "Hi" })], [say("ok")]], peers })
  )
).pipe(Layer.provideMerge(memory))

const pause = works("1 second")
const [head, tail] = [token.slice(0, 9), token.slice(9)]
const stories: ReadonlyArray<readonly [string, ReadonlyArray<Act>]> = [
  ["an artifact", [produces(head), pause, appends(tail), completes("Done")]],
  ["an artifact that is whole before the end", [produces(head), appends(tail), pause, produces("B"), completes()]],
  ["messages of the status", [says(head), pause, says(tail), pause, completes("Done")]],
  ["the last message", [says(head), pause, completes(tail)]],
  ["the message that asks for more", [says(head), pause, becomes("input-required", tail)]],
  ["single characters", [...token.split("").flatMap((one) => [says(one), works("200 millis")]), completes("Done")]]
]

it.effect.each(stories)("a token in the pieces of %s is not in the stream, the history or the prompt", ([, acts]) =>
  Effect.gen(function* () {
    const peer = yield* serve({ token, streams: true, acts })
    const { frames, session_id } = yield* TestKit.post({
      question: "?",
      preferences: { tool_timeout_ms: 30_000 },
      agents: [
        {
          name: "peer",
          endpoint: `${peer.url}/`,
          dialect: "a2a-0.3",
          streaming: true,
          auth: { type: "bearer", token },
          skills: [{ id: "ask" }]
        }
      ]
    })
    const reading = yield* Effect.forkChild(TestKit.readAll(frames))
    yield* TestKit.pass("20 seconds")
    const events = yield* Fiber.join(reading)
    const { items } = yield* (yield* SessionStore).messages(session_id, { limit: 10 })
    const asked = yield* (yield* ScriptedProvider).asked.all
    const everything = JSON.stringify([events, items, asked.map(({ messages, system }) => [messages, system])])
    assert.notInclude(everything, token)
    const messages = TestKit.all(events, "task.progress").map(({ message }) => message ?? "")
    assert.notInclude(messages.join(""), token)
    assert.strictEqual(TestKit.single(events, "final").text, "ok")
  }).pipe(Effect.provide(plans), Effect.scoped)
)
