import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { says, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import type { Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, noFinish, oneWrite, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schedule, Stream } from "effect"
import { settled } from "./Cluster.ts"
import { databases } from "./Databases.ts"
import { ask, type Frame, get, replay, start } from "./GatewayProcess.ts"

const named = (frames: ReadonlyArray<Frame>, event: string) => frames.filter((frame) => frame.event === event)
const only = (frames: ReadonlyArray<Frame>, event: string) => {
  const [first, ...others] = named(frames, event)
  assert.isEmpty(others)
  return first?.data
}

/** A gateway, its provider and a peer, each with its own sockets. */
const setUp = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>, script: Script) {
  const network = yield* Network
  const provider = yield* network.serve(yield* ChatHost.make(script))
  const peer = yield* ScriptedPeer.serve({ acts: [says("hm"), stuck] })
  const settings = { ...environment, OPENAI_BASE_URL: `${provider.url}/v1`, BOWLINE_MODEL: "openai/scripted" }
  const gateway = yield* start(settings)
  const bob = { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] }
  return { gateway, settings, provider, peer, bob }
})

const poll = Schedule.spaced("20 millis")

const callBob = [callTool("bob_ask", { input: "what is a bowline?" })]

describe.each(Object.entries(databases))("the gateway, %s", (_, database) => {
  it.live("ends a plan at its deadline, tells the peer, and takes the next question of the session", () =>
    Effect.gen(function* () {
      const { gateway, peer, bob } = yield* setUp(yield* database, ({ messages }) =>
        messages.some(({ role }) => role === "tool") ? [say("next")] : callBob
      )
      // It is at the call by then, also on a busy machine.
      const preferences = { timeout_ms: 10_000 }
      const question = { question: "?", session_id: "s", agents: [bob], preferences }
      const frames = yield* Stream.runCollect(ask(gateway.url, question))
      assert.deepStrictEqual(
        frames.map(({ id, event }) => [id, event]),
        ["session", "plan", "step", "task.started", "task.progress", "task.finished", "error", "done"].map(
          (event, index) => [index + 1, event]
        )
      )
      const error = only(frames, "error")
      assert.deepInclude(error, { code: "aborted", reason: "deadline", stage: "tool", retryable: true })
      const { sends } = yield* peer.seen
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
      assert.strictEqual(only(frames, "task.finished")?.["remote_task_id"], sends[0]?.taskId)

      const next = yield* get(gateway.url, "/plan", { question: "And now?", session_id: "s" })
      assert.deepInclude(next, { state: "completed", session_id: error?.["session_id"] })
      assert.deepInclude(next["final"], { text: "next", stop_reason: "stop" })
      assert.deepStrictEqual(yield* Stream.runCollect(replay(gateway.url, String(error?.["plan_id"]))), frames)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("leaves nothing running when the caller disconnects", () =>
    Effect.gen(function* () {
      const { gateway, provider, peer, bob } = yield* setUp(yield* database, [callBob, [say("Well, "), stall]])
      const polled = (event: string) => (frame: Frame) => frame.event === event

      const inPoll = yield* ask(gateway.url, { question: "?", agents: [bob] }).pipe(
        Stream.takeUntil(polled("task.progress")),
        Stream.runCollect
      )
      yield* peer.cancelled
      const first = yield* settled(gateway.url, inPoll[0]?.data["plan_id"])
      assert.strictEqual(first["state"], "aborted")
      assert.deepInclude(first["error"], { code: "aborted", reason: "disconnect", stage: "tool", retryable: false })

      const inStream = yield* ask(gateway.url, { question: "?" }).pipe(
        Stream.takeUntil(polled("text.delta")),
        Stream.runCollect
      )
      const [, streaming] = yield* provider.requests.awaitCount(2)
      assert.strictEqual(yield* streaming?.ended ?? Effect.succeed("never asked"), "closed")
      const second = yield* settled(gateway.url, inStream[0]?.data["plan_id"])
      assert.deepInclude(second["error"], { reason: "disconnect", stage: "provider" })
      const { polls, cancels } = yield* peer.seen
      assert.strictEqual(cancels.length, 1)
      yield* get(gateway.url, "/health")
      assert.strictEqual((yield* peer.seen).polls.length, polls.length)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live("gives the caller every delta of one write, and no answer that is not finished", () =>
    Effect.gen(function* () {
      const words = Array.from({ length: 32 }, (_, index) => `word${index} `)
      const { gateway } = yield* setUp({ ...(yield* database), BOWLINE_MAX_RETRIES: "0" }, [
        [oneWrite, ...words.map(say)],
        [...words.map(say), noFinish]
      ])
      const whole = yield* Stream.runCollect(ask(gateway.url, { question: "?" }))
      assert.deepStrictEqual(
        named(whole, "text.delta").map(({ data }) => data["delta"]),
        words
      )
      assert.strictEqual(only(whole, "final")?.["text"], words.join(""))
      const planId = String(whole[0]?.data["plan_id"])
      assert.deepStrictEqual(yield* Stream.runCollect(replay(gateway.url, planId, 20)), whole.slice(20))

      const half = yield* Stream.runCollect(ask(gateway.url, { question: "?" }))
      assert.isEmpty(named(half, "final"))
      assert.deepInclude(only(half, "error"), {
        code: "provider_stream_truncated",
        retryable: true,
        stage: "provider"
      })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})

const { embedded, postgres } = databases

describe.each(Object.entries({ embedded, postgres }))("the gateway, %s", (_, database) => {
  it.live("loses nothing that was seen when it is killed, and resumes the plan until somebody ends it", () =>
    Effect.gen(function* () {
      const { gateway, peer, settings, bob } = yield* setUp({ ...(yield* database), BOWLINE_LEASE_TTL: "1s" }, [
        callBob,
        [say("on we go")]
      ])
      const seen = yield* ask(gateway.url, { question: "?", session_id: "s", agents: [bob] }).pipe(
        Stream.tap(({ event }) => (event === "task.progress" ? gateway.kill("SIGKILL") : Effect.void)),
        Stream.runCollect
      )
      const planId = String(seen[0]?.data["plan_id"])
      const { url } = yield* start(settings)
      const rest = yield* Effect.forkChild(Stream.runCollect(replay(url, planId, seen.length)))
      const { polls } = yield* peer.seen
      yield* peer.seen.pipe(Effect.repeat({ until: (now) => now.polls.length > polls.length, schedule: poll }))
      const plan = yield* get(url, `/plans/${planId}/cancel`, {})
      assert.deepInclude(plan["error"], { code: "aborted", reason: "cancelled", stage: "tool" })
      const frames = yield* Stream.runCollect(replay(url, planId))
      assert.deepStrictEqual(frames, [...seen, ...(yield* Fiber.join(rest))])
      assert.deepStrictEqual(
        frames.slice(seen.length).map(({ event }) => event),
        ["task.finished", "error", "done"]
      )
      const { sends } = yield* peer.seen
      assert.lengthOf(sends, 1)
      assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
      const next = yield* get(url, "/plan", { question: "And now?", session_id: "s" })
      assert.deepInclude(next["final"], { text: "on we go" })
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
