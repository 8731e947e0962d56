import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { Network } from "@bowline/testing/http/Network"
import { says, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import * as ChatHost from "@bowline/testing/unstable/provider/ChatHost"
import { question, type Script } from "@bowline/testing/unstable/provider/Script"
import { callTool, noFinish, oneWrite, say, type Turn } from "@bowline/testing/provider/Turn"
import { assert, describe, it, layer } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Schedule, type Scope, Stream } from "effect"
import type { SqlError } from "effect/sql/SqlError"
import { settled } from "./Cluster.ts"
import { databases } from "./Databases.ts"
import { ask, type Frame, get, replay, start } from "./GatewayProcess.ts"

const named = (frames: ReadonlyArray<Frame>, event: string) => frames.filter((frame) => frame.event === event)
const only = (frames: ReadonlyArray<Frame>, event: string) => {
  const [first, ...others] = named(frames, event)
  assert.isEmpty(others)
  return first?.data
}

/** A gateway and its provider, each with its own sockets. */
const serve = Effect.fnUntraced(function* (environment: Readonly<Record<string, string>>, script: Script) {
  const provider = yield* (yield* Network).serve(yield* ChatHost.make(script))
  const settings = { ...environment, OPENAI_BASE_URL: `${provider.url}/v1`, BOWLINE_MODEL: "openai/scripted" }
  return { gateway: yield* start(settings), settings, provider }
})

/** A peer that never answers. */
const stuckPeer = Effect.gen(function* () {
  const peer = yield* ScriptedPeer.serve({ acts: [says("hm"), stuck] })
  return { peer, bob: { name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills: [{ id: "ask" }] } }
})

const poll = Schedule.spaced("20 millis")

const callBob = [callTool("bob_ask", { input: "what is a bowline?" })]

const words = Array.from({ length: 32 }, (_, index) => `word${index} `)

const answers: Readonly<Record<string, Turn>> = {
  "Ask bob": callBob,
  "And now?": [say("next")],
  "Say half": [say("Well, "), stall],
  "Say all": [oneWrite, ...words.map(say)],
  "Say no end": [...words.map(say), noFinish]
}

/** One gateway for tests that leave nothing in it. */
class Served extends Context.Service<Served, Effect.Success<ReturnType<typeof serve>>>()(
  "@bowline/gateway/test/Served"
) {}

const served = (database: Effect.Effect<Readonly<Record<string, string>>, SqlError, Scope.Scope>) =>
  Layer.effect(
    Served,
    Effect.flatMap(database, (settings) =>
      serve({ ...settings, BOWLINE_MAX_RETRIES: "0" }, (asked) => answers[question(asked)] ?? [])
    )
  ).pipe(Layer.provideMerge(LoopbackNetwork.layer))

describe.each(Object.entries(databases))("the gateway, %s", (_, database) => {
  layer(served(database), { excludeTestServices: true })((it) => {
    it.effect("ends a plan at its deadline, tells the peer, and takes the next question of the session", () =>
      Effect.gen(function* () {
        const { gateway } = yield* Served
        const { bob, peer } = yield* stuckPeer
        // It is at the call by then, also on a busy machine.
        const preferences = { timeout_ms: 10_000 }
        const first = { question: "Ask bob", session_id: "s", agents: [bob], preferences }
        const frames = yield* Stream.runCollect(ask(gateway.url, first))
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
      })
    )

    it.effect("leaves nothing running when the caller disconnects", () =>
      Effect.gen(function* () {
        const { gateway, provider } = yield* Served
        const { bob, peer } = yield* stuckPeer
        const polled = (event: string) => (frame: Frame) => frame.event === event

        const inPoll = yield* ask(gateway.url, { question: "Ask bob", agents: [bob] }).pipe(
          Stream.takeUntil(polled("task.progress")),
          Stream.runCollect
        )
        yield* peer.cancelled
        const first = yield* settled(gateway.url, inPoll[0]?.data["plan_id"])
        assert.strictEqual(first["state"], "aborted")
        assert.deepInclude(first["error"], { code: "aborted", reason: "disconnect", stage: "tool", retryable: false })

        const inStream = yield* ask(gateway.url, { question: "Say half" }).pipe(
          Stream.takeUntil(polled("text.delta")),
          Stream.runCollect
        )
        const streaming = (yield* provider.requests.awaitCount(1)).at(-1)
        assert.strictEqual(yield* streaming?.ended ?? Effect.succeed("never asked"), "closed")
        const second = yield* settled(gateway.url, inStream[0]?.data["plan_id"])
        assert.deepInclude(second["error"], { reason: "disconnect", stage: "provider" })
        const { polls, cancels } = yield* peer.seen
        assert.strictEqual(cancels.length, 1)
        yield* get(gateway.url, "/health")
        assert.strictEqual((yield* peer.seen).polls.length, polls.length)
      })
    )

    it.effect("gives the caller every delta of one write, and no answer that is not finished", () =>
      Effect.gen(function* () {
        const { gateway } = yield* Served
        const whole = yield* Stream.runCollect(ask(gateway.url, { question: "Say all" }))
        assert.deepStrictEqual(
          named(whole, "text.delta").map(({ data }) => data["delta"]),
          words
        )
        assert.strictEqual(only(whole, "final")?.["text"], words.join(""))
        const planId = String(whole[0]?.data["plan_id"])
        assert.deepStrictEqual(yield* Stream.runCollect(replay(gateway.url, planId, 20)), whole.slice(20))

        const half = yield* Stream.runCollect(ask(gateway.url, { question: "Say no end" }))
        assert.isEmpty(named(half, "final"))
        assert.deepInclude(only(half, "error"), {
          code: "provider_stream_truncated",
          retryable: true,
          stage: "provider"
        })
      })
    )
  })
})

const { embedded, postgres } = databases

describe.each(Object.entries({ embedded, postgres }))("the gateway, %s", (_, database) => {
  it.live("loses nothing that was seen when it is killed, and resumes the plan until somebody ends it", () =>
    Effect.gen(function* () {
      const { bob, peer } = yield* stuckPeer
      const { gateway, settings } = yield* serve({ ...(yield* database), BOWLINE_LEASE_TTL: "1s" }, [
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
