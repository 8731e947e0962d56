import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { stall } from "@bowline/testing/http/Move"
import { says, stuck } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { question, type Asked } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, type Turn } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Schedule, Stream } from "effect"
import { settled } from "../plan/Cluster.ts"
import { ask, type Frame, get } from "../plan/GatewayProcess.ts"
import { start } from "./RunningGateway.ts"

const stages = ["queue", "provider", "backoff", "tool", "approval", "compaction"] as const
type Stage = (typeof stages)[number]

/** The event that says that a plan is in its stage, or about to be. */
const marks: Readonly<Record<Stage, string>> = {
  queue: "queued",
  provider: "text.delta",
  backoff: "retry",
  tool: "task.progress",
  approval: "approval.requested",
  compaction: "plan"
}

/** What the provider answers, by the question: a plan asks for the stage that it is to come to. */
const turns: Readonly<Record<string, Turn>> = {
  ahead: [stall],
  provider: [say("half"), stall],
  backoff: [error(503, {}, { "retry-after": "50" })],
  tool: [callTool("bob_ask", { input: "hi" })],
  approval: [callTool("bob_pay", { input: "hi" })],
  tools: Array.from({ length: 12 }, (_, at) => callTool("bob_ask", { input: String(at) })),
  next: [say("next")]
}
const isSummary = ({ system }: Asked) => system.startsWith("You keep the memory")

/** A long history: its summary never ends. */
const history = [1, 2, 3, 4].map((turn) => ({ role: "user", content: `${turn} ${"word ".repeat(900)}` }))

const setUp = Effect.gen(function* () {
  const peer = yield* ScriptedPeer.serve({ acts: [says("hm"), stuck] })
  const script = (asked: Asked) => (isSummary(asked) ? [stall] : (turns[question(asked)] ?? [say("?")]))
  const small = { BOWLINE_MODEL: "openai/scripted", BOWLINE_CONTEXT_WINDOW: "4000" }
  const { url } = yield* start(script, small)
  const skills = [{ id: "ask" }, { id: "pay", approval: "always" }]
  const agents = [{ name: "bob", endpoint: `${peer.url}/`, dialect: "a2a-0.3", skills }]
  const bodyOf = (stage: Stage) => ({
    question: stage,
    session_id: stage,
    agents,
    ...(stage === "compaction" && { history })
  })
  yield* Effect.forkScoped(Stream.runDrain(ask(url, { question: "ahead", session_id: "queue" })))
  const isBusy = ({ plans }: Readonly<Record<string, unknown>>) => Array.isArray(plans) && plans.length === 1
  yield* Effect.repeat(get(url, "/plans?state=running"), { until: isBusy, schedule: Schedule.spaced("20 millis") })
  return { url, peer, bodyOf }
})

/** The credentials, but for when they were used. */
const credentials = (url: string) =>
  Effect.map(get(url, "/credentials"), (body) => JSON.stringify(body).replace(/"last_used_at":[^}]+/g, ""))

/** Asks, and reads until the plan is in its stage. The scope is the connection. */
const bringInto = Effect.fnUntraced(function* (url: string, stage: Stage, body: object) {
  const there = yield* Deferred.make<Frame>()
  const reader = yield* ask(url, body).pipe(
    Stream.tap((frame) => (frame.event === marks[stage] ? Deferred.succeed(there, frame) : Effect.void)),
    Stream.runCollect,
    Effect.forkScoped
  )
  const { data } = yield* Deferred.await(there)
  const plan_id = String(data["plan_id"])
  if (stage === "compaction") {
    const isThere = (plan: Readonly<Record<string, unknown>>) => plan["stage"] === stage
    yield* Effect.repeat(get(url, `/plans/${plan_id}`), { until: isThere, schedule: Schedule.spaced("20 millis") })
  }
  return { plan_id, reader }
})

/** Enough for a busy machine to bring every plan into its stage. */
const timeout_ms = 6_000

const checkError = (failure: unknown, reason: string, stage: Stage) => {
  assert.deepInclude(failure, { code: "aborted", reason, stage, retryable: reason === "deadline" })
  const { data } = failure as { readonly data?: { readonly tools: ReadonlyArray<object> } }
  if (stage !== "tool") return assert.isUndefined(data)
  assert.lengthOf(data?.tools ?? [], 1)
  assert.hasAllKeys(data?.tools[0], ["tool", "task_id", "elapsed_ms"])
}

describe.concurrent("a plan that is ended from outside names the stage that it was in, and no credential is blamed", () => {
  it.live("at its deadline", () =>
    Effect.gen(function* () {
      const { bodyOf, peer, url } = yield* setUp
      const before = yield* credentials(url)
      const check = Effect.fnUntraced(function* (stage: Stage) {
        const body = { ...bodyOf(stage), preferences: { timeout_ms } }
        const frames = yield* Stream.runCollect(ask(url, body))
        checkError(frames.find(({ event }) => event === "error")?.data, "deadline", stage)
        const starts = frames.filter(({ event }) => event === "task.started").map(({ data }) => data["task_id"])
        const ends = frames.filter(({ event }) => event === "task.finished").map(({ data }) => data["task_id"])
        assert.deepStrictEqual(ends, starts)
      })
      // A back-off that would go beyond the deadline is never begun.
      const waiting = stages.filter((stage) => stage !== "backoff")
      yield* Effect.forEach(waiting, check, { concurrency: "unbounded" })
      yield* peer.cancelled
      assert.deepStrictEqual(yield* credentials(url), before)
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live(
    "at its deadline, with more calls than run at once: each has its result, and each task at the peer is cancelled",
    () =>
      Effect.gen(function* () {
        const { bodyOf, peer, url } = yield* setUp
        const body = { ...bodyOf("tool"), question: "tools", preferences: { timeout_ms } }
        const frames = yield* Stream.runCollect(ask(url, body))
        const failure = frames.find(({ event }) => event === "error")?.data ?? {}
        // Each open call, and once more the one that started last.
        assert.lengthOf(JSON.stringify(failure["data"]).match(/"elapsed_ms"/g) ?? [], 8 + 1)
        const { cancels, sends } = yield* peer.awaitSeen(({ cancels }) => cancels.length === 8)
        assert.sameMembers(
          [...cancels],
          sends.map(({ taskId }) => taskId)
        )
        const { messages } = yield* get(url, `/sessions/${String(failure["session_id"])}/messages`)
        const results = JSON.stringify(messages).match(/"type":"tool_result".*?"state":"interrupted"/g)
        assert.lengthOf(results ?? [], 12)
      }).pipe(Effect.provide(LoopbackNetwork.layer))
  )

  it.live.each(["cancelled", "disconnect"] as const)("when it is over for its caller: %s", (reason) =>
    Effect.gen(function* () {
      const { bodyOf, peer, url } = yield* setUp
      const before = yield* credentials(url)
      const end = Effect.fnUntraced(function* (stage: Stage) {
        const { plan_id, reader } = yield* bringInto(url, stage, bodyOf(stage))
        if (reason === "cancelled") {
          yield* get(url, `/plans/${plan_id}/cancel`, {})
          const frames = yield* Fiber.join(reader)
          assert.deepStrictEqual(
            frames.slice(-2).map(({ event }) => event),
            ["error", "done"]
          )
        }
        return plan_id
      }, Effect.scoped)
      for (const stage of stages) checkError((yield* settled(url, yield* end(stage)))["error"], reason, stage)
      yield* peer.cancelled
      assert.deepStrictEqual(yield* credentials(url), before)
      // The session of each is free, but for the one that another plan has.
      for (const session_id of ["provider", "backoff", "tool", "approval"]) {
        const next = yield* get(url, "/plan", { question: "next", session_id })
        assert.deepInclude(next["final"], { text: "next" })
      }
    }).pipe(Effect.provide(LoopbackNetwork.layer))
  )
})
