import { results } from "@bowline/testing/provider/Script"
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
      yield* checkRefusals(gateway.url, planId)
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
