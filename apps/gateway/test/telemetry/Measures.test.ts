import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { cut, stall } from "@bowline/testing/http/Move"
import { completes } from "@bowline/testing/peer/Act"
import * as ScriptedPeer from "@bowline/testing/peer/ScriptedPeer"
import { type Asked, question } from "@bowline/testing/unstable/provider/Script"
import { callTool, error, say, type Turn, usage } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Metric, Schedule, Stream } from "effect"
import { start, startOn, stores } from "../http/RunningGateway.ts"
import { settled } from "../plan/Cluster.ts"
import { ask } from "../plan/GatewayProcess.ts"
import { type Labels, scrape } from "./Scrape.ts"

const apart = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.scoped,
    Effect.provide(LoopbackNetwork.layer),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

/** What the provider answers, by the question: one turn for each request. */
const turns: Readonly<Record<string, ReadonlyArray<Turn>>> = {
  final: [[say("one"), say("two"), usage({ input_tokens: 7, output_tokens: 3 })]],
  retry: [[error(503)], [say("again")]],
  retract: [[say("half"), cut], [say("whole")]],
  fail: [[error(400)]],
  tool: [[callTool("bob_ask", { input: "?" })], [say("he said so")]],
  leave: [[say("half"), stall]],
  pay: [[callTool("bob_pay", { input: "?" })]]
}

const makeScript = () => {
  const asked = new Map<string, number>()
  return (request: Asked): Turn => {
    const name = question(request)
    const at = asked.get(name) ?? 0
    asked.set(name, at + 1)
    return turns[name]?.[at] ?? [error(400)]
  }
}

const settings = {
  BOWLINE_MODEL: "openai/ours",
  BOWLINE_RETRY_BASE: "1ms",
  OPENAI_API_KEY: "a-key",
  BOWLINE_SHUTDOWN_GRACE: "0s"
}

type Expected = readonly [name: string, labels: Labels, value: number]

/** Asks until the gateway measures this: it counts the end of a stream when the socket has told it. */
const until = (url: string, ...expected: ReadonlyArray<Expected>) =>
  Effect.repeat(scrape(url), {
    until: ({ value }) => expected.every(([name, labels, wanted]) => value(name, labels) === wanted),
    schedule: Schedule.spaced("10 millis")
  })

const serveBob = Effect.map(ScriptedPeer.serve({ acts: [completes("yes")] }), ({ url }) => ({
  name: "bob",
  endpoint: `${url}/`,
  dialect: "a2a-0.3",
  skills: [{ id: "ask" }, { id: "pay", approval: "always" }]
}))

describe("the metrics of a gateway", () => {
  it.live("tell how its plans, attempts, calls and streams have ended", () =>
    Effect.gen(function* () {
      const bob = yield* serveBob
      const { url } = yield* start(makeScript(), settings)
      const shown = yield* Effect.forEach(["final", "retry", "retract", "fail", "tool"], (question) =>
        Stream.runCollect(ask(url, { question, agents: [bob] }))
      )
      const left = yield* Stream.runCollect(
        Stream.takeUntil(ask(url, { question: "leave" }), ({ event }) => event === "text.delta")
      )
      yield* settled(url, left[0]?.data["plan_id"])

      const { value } = yield* until(
        url,
        ["bowline_stream_silence_at_close_seconds_count", { cause: "caller" }, 1],
        ["bowline_streams_open", {}, 0],
        ["bowline_plans", {}, 0],
        ["bowline_leases_held", {}, 0]
      )
      const expected: Array<readonly [name: string, labels: Labels, value: number | "absent"]> = [
        ["bowline_plans_ended_total", {}, 6],
        ["bowline_plans_ended_total", { outcome: "completed", stage: "none" }, 4],
        ["bowline_plans_ended_total", { outcome: "failed", stage: "provider" }, 1],
        ["bowline_plans_ended_total", { outcome: "aborted", stage: "provider" }, 1],
        ["bowline_plans_failed_total", { code: "provider_bad_request" }, 1],
        ["bowline_plans_aborted_total", { reason: "disconnect" }, 1],
        ["bowline_plan_duration_seconds_count", { outcome: "completed" }, 4],
        ["bowline_plan_time_to_first_token_seconds_count", {}, 5],
        ["bowline_plan_queue_wait_seconds_count", {}, 6],
        ["bowline_step_duration_seconds_count", {}, 7],
        ["bowline_tool_duration_seconds_count", {}, 1],
        ["bowline_tool_calls_total", { kind: "peer", state: "completed" }, 1],
        ["bowline_tool_calls_total", {}, 1],
        ["bowline_provider_attempts_total", { gen_ai_request_model: "ours" }, 9],
        ["bowline_provider_retries_total", { error_type: "server_error" }, 1],
        ["bowline_provider_retries_total", { error_type: "transport_reset" }, 1],
        ["bowline_provider_retracts_total", { error_type: "transport_reset" }, 1],
        ["bowline_warnings_total", { warning: "provider_retry" }, 2],
        ["bowline_warnings_total", { warning: "plan_failed" }, 1],
        ["gen_ai_client_token_usage_sum", { gen_ai_token_type: "input" }, 7],
        ["gen_ai_client_token_usage_sum", { gen_ai_token_type: "output" }, 3],
        ["bowline_stream_frames_total", {}, shown.flat().length + left.length],
        ["bowline_stream_silence_at_close_seconds_count", {}, 1],
        ["bowline_events_waiting_seconds", {}, 0],
        ["bowline_peer_requests_total", { method: "send", result: "answered" }, 1],
        ["bowline_peer_requests_total", { result: "failed" }, 0],
        ["bowline_credentials", { bowline_credential_id: "openai-1", state: "ok" }, 1],
        ["bowline_credentials", { state: "out" }, 0],
        ["bowline_problems_total", {}, 0]
      ]
      assert.deepStrictEqual(
        expected.map(([name, labels]) => [name, labels, value(name, labels) ?? "absent"] as const),
        expected
      )
      assert.isAbove(value("bowline_events_lag_seconds_count") ?? 0, 6)
    }).pipe(apart)
  )

  it.live("tell what runs and what waits", () =>
    Effect.gen(function* () {
      const bob = yield* serveBob
      const { url } = yield* start(makeScript(), settings)
      const read = (question: string) =>
        Effect.forkScoped(Stream.runDrain(ask(url, { question, session_id: question, agents: [bob] })))
      yield* read("leave")
      yield* until(url, ["bowline_plans", { state: "running" }, 1])
      yield* read("leave")
      yield* until(url, ["bowline_plans", { state: "queued" }, 1])
      yield* read("pay")
      const { value } = yield* until(url, ["bowline_approvals_waiting", {}, 1])
      assert.strictEqual(value("bowline_plans", { state: "running" }), 2)
      assert.strictEqual(value("bowline_streams_open"), 3)
      assert.strictEqual(value("bowline_leases_held"), 2)
    }).pipe(apart)
  )

  it.live("tell of the database how much is asked of it, and whether leases are renewed", () =>
    Effect.gen(function* () {
      const { url } = yield* startOn(stores.postgres)(makeScript(), { ...settings, BOWLINE_LEASE_TTL: "3s" })
      const { value } = yield* Effect.repeat(scrape(url), {
        until: ({ value }) => (value("bowline_lease_renewals_total", { result: "in_time" }) ?? 0) > 1,
        schedule: Schedule.spaced("50 millis")
      })
      assert.strictEqual(value("bowline_database_connections"), 10)
      assert.isAtLeast(value("bowline_database_operations") ?? -1, 0)
      // A machine that stands still for a second lets one fail.
      assert.isDefined(value("bowline_lease_renewals_total", { result: "failed" }))
      assert.strictEqual(value("bowline_leases_lost_total"), 0)
    }).pipe(apart)
  )
})
