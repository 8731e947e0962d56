import { results } from "@bowline/testing/unstable/provider/Script"
import { callTool, say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Stream } from "effect"
import { post, send } from "../http/RunningGateway.ts"
import { settled } from "./Cluster.ts"
import { type Frame, get, replay, start, toFrames } from "./GatewayProcess.ts"
import { askAndRead, begin, gate } from "./TroubledGateway.ts"

const deltasOf = (frames: ReadonlyArray<Frame>) =>
  frames.flatMap(({ event, data }) => (event === "text.delta" ? [data["delta"]] : []))

const checkNumbers = (frames: ReadonlyArray<Frame>) =>
  assert.deepStrictEqual(
    frames.map(({ id }) => id),
    frames.map((_, index) => index + 1)
  )

/** What the gateway says to requests that need the database, each of them within 20 s. */
const checkRefusals = Effect.fnUntraced(function* (url: string, planId: string) {
  const refused = [
    post(`${url}/plan`, { question: "?" }),
    send(`${url}/plans/${planId}`),
    send(`${url}/plans/${planId}/events`),
    send(`${url}/sessions/s`),
    send(`${url}/ready`)
  ]
  const answers = yield* Effect.all(refused, { concurrency: "unbounded" }).pipe(Effect.timeout("20 seconds"))
  for (const { status, headers, body } of answers) {
    assert.deepStrictEqual([status, body["code"]], [503, "unavailable"])
    assert.match(headers.get("retry-after") ?? "", /^\d+$/)
  }
  assert.strictEqual((yield* send(`${url}/health`)).status, 200)
})

/** A request of a client of MCP that knows tasks. */
const mcp = (url: string, method: string, params: object, more: Readonly<Record<string, string>> = {}) => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } }
  }
  const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": method, ...more }
  return post(`${url}/mcp`, { jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }, headers)
}

const callAtMcp = (url: string, name: string, input: object) =>
  mcp(url, "tools/call", { name, arguments: input }, { "mcp-name": name })

/** What it says to clients of MCP. */
const checkMcp = Effect.fnUntraced(function* (url: string, plan_id: string) {
  const [asked, looked, task, listed] = yield* Effect.all(
    [
      callAtMcp(url, "plan", { question: "?" }),
      callAtMcp(url, "plan_result", { plan_id }),
      mcp(url, "tasks/get", { taskId: plan_id }),
      mcp(url, "tools/list", {})
    ],
    { concurrency: "unbounded" }
  ).pipe(Effect.timeout("20 seconds"))
  for (const { body } of [asked, looked]) {
    const { content, isError } = body["result"] as {
      readonly isError: boolean
      readonly content: ReadonlyArray<{ readonly text: string }>
    }
    const { error } = JSON.parse(content[0]?.text ?? "{}") as { readonly error: object }
    assert.isTrue(isError)
    assert.deepInclude(error, { code: "unavailable", retryable: true })
  }
  assert.match(task.headers.get("retry-after") ?? "", /^\d+$/)
  assert.deepNestedInclude(task.body, { "error.code": -32_603, "error.data": { code: "unavailable", retryable: true } })
  assert.deepStrictEqual([task.status, listed.status], [503, 200])
})

describe.concurrent("a database that is away", () => {
  it.live("for longer than a lease costs no plan, and no reader loses what it has seen", () =>
    Effect.gen(function* () {
      const [away, back] = [gate(), gate()]
      const { gateway, database } = yield* begin(
        (asked) =>
          results(asked).length > 0
            ? [say("three")]
            : [say("one "), away.wait, say("two "), back.wait, callTool("nobody", {})],
        { environment: { BOWLINE_LEASE_TTL: "1s" } }
      )
      const { planId, reading } = yield* askAndRead(gateway.url, { question: "?", session_id: "s" }, "one ")
      yield* database.refuse
      yield* away.open
      yield* Effect.all([checkRefusals(gateway.url, planId), checkMcp(gateway.url, planId)], { concurrency: 2 })
      yield* Effect.sleep("5 seconds")
      yield* database.restore
      yield* back.open
      const frames = toFrames(yield* Fiber.join(reading))
      checkNumbers(frames)
      assert.deepStrictEqual(deltasOf(frames), ["one ", "two ", "three"])
      assert.deepStrictEqual(
        frames.slice(-2).map(({ event }) => event),
        ["final", "done"]
      )
      assert.deepStrictEqual(yield* Stream.runCollect(replay(gateway.url, planId)), frames)
      const answered = yield* callAtMcp(gateway.url, "plan_result", { plan_id: planId })
      assert.deepNestedInclude(answered.body, { "result.structuredContent.state": "completed" })
      const asked = yield* callAtMcp(gateway.url, "plan", { question: "again" })
      assert.deepNestedInclude(asked.body, { "result.structuredContent.state": "completed" })
    })
  )

  it.live("without an answer for longer than a plan waits ends it as storage, and its session can be used again", () =>
    Effect.gen(function* () {
      const away = gate()
      let requests = 0
      const { gateway, database } = yield* begin(() =>
        requests++ > 0 ? [say("again")] : [say("one "), away.wait, say("two "), callTool("nobody", {})]
      )
      const { planId, reading } = yield* askAndRead(gateway.url, { question: "?", session_id: "s" }, "one ")
      yield* database.swallow
      yield* away.open
      yield* checkRefusals(gateway.url, planId)
      const text = yield* Fiber.join(reading)
      assert.isTrue(text.endsWith("\n\n: reconnect\n\n"))
      yield* database.restore

      assert.deepInclude((yield* settled(gateway.url, planId))["error"], { code: "storage" })
      const seen = toFrames(text)
      const stored = yield* Stream.runCollect(replay(gateway.url, planId))
      checkNumbers(stored)
      assert.deepStrictEqual(stored.slice(0, seen.length), seen)
      assert.deepStrictEqual(
        stored.slice(-2).map(({ event }) => event),
        ["error", "done"]
      )
      const next = yield* get(gateway.url, "/plan", { question: "again", session_id: "s" })
      assert.deepInclude(next, { state: "completed" })
    })
  )
})

describe.concurrent("a gateway whose listening connection carries nothing and stays open", () => {
  it.live("keeps a plan that is read on another replica only, and hears of its cancellation there", () =>
    Effect.gen(function* () {
      const [more, last, never] = [gate(), gate(), gate()]
      const { gateway, database, settings } = yield* begin(() => [
        say("one "),
        more.wait,
        say("two "),
        last.wait,
        say("three"),
        never.wait
      ])
      const other = yield* start(settings)
      const { planId, reading } = yield* askAndRead(gateway.url, { question: "?" }, "one ")
      const counted = yield* Deferred.make<void>()
      const elsewhere = yield* replay(other.url, planId).pipe(
        Stream.tap(({ data }) => {
          if (data["delta"] === "one ") return more.open
          return data["delta"] === "two " ? Deferred.succeed(counted, undefined) : Effect.void
        }),
        Stream.tap(({ data }) =>
          data["delta"] === "three" ? get(other.url, `/plans/${planId}/cancel`, {}) : Effect.void
        ),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* Deferred.await(counted)
      yield* database.swallowNotices
      yield* Fiber.interrupt(reading)
      // A replica that says nothing for 15 s does not read any more.
      yield* Effect.sleep("16 seconds")
      yield* last.open
      const frames = yield* Fiber.join(elsewhere)
      checkNumbers(frames)
      assert.deepStrictEqual(deltasOf(frames), ["one ", "two ", "three"])
      assert.deepInclude(frames.find(({ event }) => event === "error")?.data, { reason: "cancelled" })
    })
  )
})
