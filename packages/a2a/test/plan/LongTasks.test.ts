import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { completes, works } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { callTool, say } from "@bowline/testing/provider/Turn"
import * as TestKit from "@bowline/testing/unstable/TestKit"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { memory } from "../peer/call.ts"

const plans = Layer.unwrap(
  Effect.map(PeerClient, (peers) =>
    TestKit.layer({ script: [[callTool("peer_ask", { input: "Take your time" })], [say("ok")]], peers })
  )
).pipe(Layer.provideMerge(memory))

const hour = 3_600_000

/** A plan that calls a peer at work for two hours, until the deadline of the plan. */
const ask = Effect.fnUntraced(function* (streams: boolean, hours: number) {
  const peer = yield* serve({ streams, acts: [works("2 hours"), completes("Done")] })
  const { frames } = yield* TestKit.post({
    question: "?",
    agents: [
      { name: "peer", endpoint: `${peer.url}/`, dialect: "a2a-0.3", streaming: streams, skills: [{ id: "ask" }] }
    ],
    preferences: { timeout_ms: hours * hour, tool_timeout_ms: 3 * hour }
  })
  const reading = yield* Effect.forkChild(TestKit.readAll(frames))
  yield* TestKit.pass(`${hours * hour + 60_000} millis`, "1 minute")
  return { peer, events: yield* Fiber.join(reading) }
})

describe.each([
  ["polled", false],
  ["streamed", true]
] as const)("a peer that works for two hours and is %s", (_, streams) => {
  it.effect("completes its task under a deadline of three hours", () =>
    Effect.gen(function* () {
      const { events, peer } = yield* ask(streams, 3)
      assert.strictEqual(TestKit.single(events, "task.finished").state, "completed")
      assert.strictEqual(TestKit.single(events, "final").text, "ok")
      assert.deepStrictEqual((yield* peer.seen).cancels, [])
    }).pipe(Effect.provide(plans), Effect.scoped)
  )

  it.effect("is cancelled once, with the id of its task, under a deadline of one hour", () =>
    Effect.gen(function* () {
      const { events, peer } = yield* ask(streams, 1)
      assert.deepInclude(TestKit.single(events, "error"), { code: "aborted", reason: "deadline", stage: "tool" })
      const finished = TestKit.single(events, "task.finished")
      assert.strictEqual(finished.state, "interrupted")
      const { cancels, sends, streams: opened } = yield* peer.seen
      const [sent] = [...sends, ...opened]
      assert.deepStrictEqual([cancels, finished.remote_task_id], [[sent?.taskId], sent?.taskId])
    }).pipe(Effect.provide(plans), Effect.scoped)
  )
})
