import { assert, describe, it } from "@effect/vitest"
import { direct } from "@bowline/runtime/remote/PeerClient"
import { Duration, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { callTool, taskId } from "../server/call.ts"
import { isAlive, PATH, quiet, serve, until } from "./Commands.ts"

const call = (connection: Parameters<typeof callTool>[0], city: string) => callTool(connection, "forecast", { city })

describe("a server that is a command", () => {
  it.live("is one process for all plans, with no more of the environment than it is given", () =>
    Effect.gen(function* () {
      const { connect, connection, pids, statuses } = yield* serve("", { API_TOKEN: "planted-secret", CITY: "Oslo" })
      const other = yield* connect({ hops: 2, via: ["gw-1", "gw-2"] })
      const [first, second] = yield* Effect.all([call(connection, "Oslo"), call(other, "meta")], { concurrency: 2 })
      assert.strictEqual(first.text, "clear in Oslo")
      assert.deepInclude(JSON.parse(second.text), { "bowline/hops": 2, "bowline/via": ["gw-1", "gw-2"] })
      assert.strictEqual(pids().length, 1)
      const environment = JSON.parse((yield* call(connection, "environment")).text) as Record<string, string>
      // macOS adds one of its own.
      delete environment["__CF_USER_TEXT_ENCODING"]
      assert.deepStrictEqual(environment, { PATH, API_TOKEN: "[redacted]", CITY: "Oslo" })
      assert.deepStrictEqual(yield* statuses, [
        { url: "stdio:weather", revision: "2025-11-25", error: null, error_at: null }
      ])
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("ends with the gateway, also where it ignores SIGTERM, and leaves no process behind", () =>
    Effect.gen(function* () {
      const { close, connection, pids, seen } = yield* serve("stubborn")
      yield* connection.tools
      const [pid] = pids()
      assert.isTrue(isAlive(pid))
      yield* close
      assert.isFalse(isAlive(pid))
      assert.include(seen(), "SIGTERM")
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("fails the calls that were open when it crashed, and is started again for the next one", () =>
    Effect.gen(function* () {
      const { connection, pids } = yield* serve("")
      const failed = yield* Effect.flip(call(connection, "crash"))
      assert.deepInclude(failed, { message: "The server's process has ended with code 3" })
      assert.strictEqual((yield* call(connection, "Oslo")).text, "clear in Oslo")
      assert.strictEqual(pids().length, 2)
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("tells each plan that its tools have changed, though the plans share the process", () =>
    Effect.gen(function* () {
      const { connect, connection } = yield* serve("")
      const other = yield* connect(direct)
      const changed = Effect.all([connection.hasChanged, other.hasChanged])
      yield* Effect.all([connection.tools, other.tools])
      assert.deepStrictEqual(yield* changed, [false, false])
      yield* call(connection, "change")
      assert.deepStrictEqual(yield* changed, [true, true])
      yield* connection.tools
      assert.deepStrictEqual(yield* changed, [false, true])
      // Another process may have other tools.
      yield* other.tools
      yield* Effect.flip(call(connection, "crash"))
      yield* call(connection, "Oslo")
      assert.deepStrictEqual(yield* changed, [false, true])
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.effect("is ended where it does not list its tools, but not while it may be busy with a call of another plan", () =>
    Effect.gen(function* () {
      const { connect, connection, pids, seen } = yield* serve("hangs")
      const busy = yield* connect(direct)
      const tool = { name: "forecast", description: null, inputSchema: {}, outputSchema: null, isDestructive: false }
      const ask = (city: string) => busy.call({ tool, taskId, input: { city } }, () => Effect.void)
      const pass = (isTrue: () => boolean) =>
        Effect.repeat(
          Effect.andThen(
            TestClock.adjust("10 millis"),
            Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 1)))
          ),
          { until: isTrue }
        )
      /** Gives up a list after 10 s. */
      const list = Effect.gen(function* () {
        const before = seen().length
        const listing = yield* Effect.forkChild(Effect.timeoutOption(connection.tools, "10 seconds"))
        yield* until(() => seen().slice(before).includes("tools/list"))
        yield* TestClock.adjust("10 seconds")
        yield* Fiber.join(listing)
      })
      const waiting = yield* Effect.forkChild(ask("never"))
      yield* until(() => seen().includes("never"))
      yield* list
      assert.strictEqual((yield* ask("Oslo")).text, "clear in Oslo")
      assert.lengthOf(pids(), 1)
      yield* Fiber.interrupt(waiting)
      yield* list
      const [pid] = pids()
      yield* pass(() => !isAlive(pid))
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("is told when a call is interrupted", () =>
    Effect.gen(function* () {
      const { connection, seen } = yield* serve("")
      yield* connection.tools
      const waiting = yield* Effect.forkChild(call(connection, "never"))
      yield* until(() => seen().includes("never"))
      yield* Fiber.interrupt(waiting)
      yield* until(() => seen().includes("cancelled"))
      assert.strictEqual((yield* call(connection, "Oslo")).text, "clear in Oslo")
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live(
    "may write lines that are no messages, may complain without end, and may end at the question for its revisions",
    () =>
      Effect.gen(function* () {
        for (const behaviour of ["rubbish", "floods", "old"]) {
          const { close, connection } = yield* serve(behaviour)
          assert.strictEqual((yield* call(connection, "Oslo")).text, "clear in Oslo", behaviour)
          yield* close
        }
      }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("is read at 1,000 messages a second", () =>
    Effect.gen(function* () {
      const { connection } = yield* serve("")
      yield* connection.tools
      const [elapsed, { text }] = yield* Effect.timed(call(connection, "chatter"))
      assert.strictEqual(text, "at last")
      assert.isAtLeast(Duration.toMillis(elapsed), 1_000)
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.live("is ended when it writes more than 8 MiB without a message", () =>
    Effect.gen(function* () {
      const message = "The server's process has written more than 8 MiB without a message"
      const huge = yield* serve("")
      assert.deepInclude(yield* Effect.flip(call(huge.connection, "huge")), { message })
      yield* until(() => !isAlive(huge.pids()[0]))
      const rubbish = yield* serve("only-rubbish")
      assert.deepInclude(yield* Effect.flip(rubbish.connection.tools), { message })
      yield* until(() => !isAlive(rubbish.pids()[0]))
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.effect("cannot be reached where it ends at once, and is left alone for 5 s", () =>
    Effect.gen(function* () {
      const { connection, pids, statuses } = yield* serve("exits")
      const message = "The server's process has ended with code 7"
      assert.deepInclude(yield* Effect.flip(connection.tools), { message })
      const started = pids().length
      assert.deepInclude(yield* Effect.flip(connection.tools), { message })
      assert.strictEqual(pids().length, started)
      yield* TestClock.adjust("5 seconds")
      assert.deepInclude(yield* Effect.flip(connection.tools), { message })
      assert.isAbove(pids().length, started)
      const error_at = "1970-01-01T00:00:05.000Z"
      assert.deepStrictEqual(yield* statuses, [{ url: "stdio:weather", revision: null, error: message, error_at }])
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )

  it.effect("is ended where it does not answer for 5 s what a plan asks, or does not shake hands within 60 s", () =>
    Effect.gen(function* () {
      const hung = yield* serve("hangs")
      const asking = yield* Effect.forkChild(hung.connection.tools)
      yield* until(() => hung.seen().includes("tools/list"))
      const [pid] = hung.pids()
      yield* TestClock.adjust("6 seconds")
      yield* Fiber.interrupt(asking)
      yield* TestClock.adjust("1 second")
      yield* until(() => !isAlive(pid))

      const silent = yield* serve("silent")
      const waiting = yield* Effect.forkChild(Effect.flip(silent.connection.tools), { startImmediately: true })
      yield* until(() => silent.pids().length > 0)
      yield* TestClock.adjust("61 seconds")
      assert.strictEqual((yield* Fiber.join(waiting)).message, "The server's process did not shake hands within 60 s")
      yield* TestClock.adjust("1 second")
      yield* until(() => !isAlive(silent.pids()[0]))
      assert.strictEqual(silent.pids().length, 1)
    }).pipe(Effect.scoped, Effect.provide(quiet))
  )
})
