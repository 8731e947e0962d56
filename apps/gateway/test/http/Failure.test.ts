import { PlanId } from "@bowline/domain/plan/Plan"
import { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError, Unavailable } from "@bowline/domain/storage/StorageError"
import { McpClient } from "@bowline/runtime/remote/McpClient"
import { PeerClient } from "@bowline/runtime/remote/PeerClient"
import { Inbox } from "@bowline/runtime/plan/Inbox"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { KeyStore } from "@bowline/runtime/unstable/store/KeyStore"
import { LoginStore } from "@bowline/runtime/unstable/store/LoginStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { OverviewStore } from "@bowline/runtime/unstable/store/OverviewStore"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { CredentialPool } from "@bowline/runtime/asking/CredentialPool"
import { SessionCompaction } from "@bowline/runtime/plan/SessionCompaction"
import { Sessions } from "@bowline/runtime/plan/Sessions"
import { SessionStore } from "@bowline/runtime/unstable/store/SessionStore"
import { Schedules } from "@bowline/runtime/unstable/schedule/Schedules"
import { TaskStore } from "@bowline/runtime/unstable/store/TaskStore"
import { assert, describe, it } from "@effect/vitest"
import { Context, Duration, Effect, Exit, Layer, Logger, Stream } from "effect"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { FeedbackStore } from "@bowline/runtime/unstable/store/FeedbackStore"
import { FileStore } from "@bowline/runtime/unstable/store/FileStore"
import { Files } from "@bowline/runtime/unstable/file/Files"
import { EffectStore } from "@bowline/runtime/unstable/store/EffectStore"
import { Webhooks } from "../../src/push/Webhooks.ts"
import { PushNotifications } from "../../src/edge/a2a/PushNotifications.ts"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { HttpServer } from "effect/http"
import { fromEnvironment, GatewayConfig } from "../../src/config/GatewayConfig.ts"
import * as HttpGateway from "../../src/route/HttpGateway.ts"
import * as ListeningServer from "../../src/http/ListeningServer.ts"
import { send } from "./RunningGateway.ts"

const secret = "planted-secret"
const plan_id = PlanId.make("plan_00000000-0000-4000-8000-000000000001")
const session_id = SessionId.make("session_00000000-0000-4000-8000-000000000002")
const at = "2026-01-02T03:04:05.678Z"
const unavailable = new StorageError({ reason: new Unavailable({ cause: new Error(secret) }) })
const unread = { leaveRunning: Effect.void, replaced: Effect.void, isHere: () => false }
const connect = () => () => undefined
const rejected = new StorageError({ reason: new Rejected({ cause: new Error(secret) }) })

interface Faulty {
  readonly plans?: Partial<Plans["Service"]>
  readonly streams?: Partial<PlanStreams["Service"]>
}

const follower = PlanFollower.layerOf(
  Effect.gen(function* () {
    const { isDraining } = yield* Plans
    const { read } = yield* PlanStreams
    return { isDraining, read, watch: () => Effect.never }
  })
)

/** The edge over plans that fail, with what it logs. */
const serve = Effect.fnUntraced(function* (
  { plans = {}, streams = {} }: Faulty,
  isWritable: PlanStore["Service"]["isWritable"] = Effect.succeed(true)
) {
  const config = yield* fromEnvironment({}, false)
  const logged: Array<string> = []
  const log = Logger.map(Logger.formatJson, (line) => void logged.push(line))
  const context = yield* HttpGateway.server.pipe(
    Layer.provide(follower),
    Layer.provide([
      Layer.mock(Plans, plans),
      Layer.mock(Inbox, {}),
      Layer.mock(PlanStreams, streams),
      Layer.mock(PlanStore, { isDurable: false, isWritable }),
      Layer.mock(TaskStore, {}),
      Layer.mock(KeyStore, {}),
      Layer.mock(LoginStore, {}),
      Layer.mock(PushNotifications, {}),
      Layer.mock(Webhooks, {}),
      Layer.mock(EffectStore, {}),
      Layer.mock(FeedbackStore, {}),
      Layer.mock(FileStore, {}),
      Layer.mock(Files, {}),
      Layer.mock(Schedules, {}),
      Layer.mock(InboxStore, {}),
      Layer.mock(SessionStore, {}),
      Layer.mock(OverviewStore, {}),
      Layer.mock(Sessions, {}),
      Layer.mock(SessionCompaction, {}),
      Layer.mock(McpClient, {}),
      Layer.mock(PeerClient, {}),
      Layer.mock(CredentialPool, {}),
      Notices.layerMemory,
      RateLimiter.layerStoreMemory
    ]),
    Layer.provide(Layer.succeed(GatewayConfig, config)),
    Layer.provideMerge(ListeningServer.layer({ ...config, port: 0 })),
    Layer.provide(Logger.layer([log])),
    Layer.build
  )
  const { address } = Context.get(context, HttpServer.HttpServer)
  return { url: HttpServer.formatAddress(address), logged }
})

describe("a failure", () => {
  it.live("hides its cause from the caller, and logs all of it, under one id", () =>
    Effect.gen(function* () {
      for (const [get, status, code] of [
        [Effect.die(new Error(secret)), 500, "internal"],
        [Effect.fail(rejected), 500, "internal"],
        [Effect.fail(unavailable), 503, "unavailable"]
      ] as const) {
        const { url, logged } = yield* serve({ plans: { get: () => get } })
        const { headers, body, text } = yield* send(`${url}/plans/${plan_id}`)
        assert.deepInclude(body, { status, code, retryable: status === 503 })
        assert.strictEqual(headers.get("retry-after"), status === 503 ? "2" : null)
        assert.notInclude(text, secret)
        assert.notMatch(text, /Error|\.ts/)
        assert.include(logged.join(), secret)
        assert.include(logged.join(), String(body["request_id"]))
      }
    })
  )

  it.live("is named to a caller whose request the gateway interrupts as it closes", () =>
    Effect.gen(function* () {
      const { url } = yield* serve({ plans: { get: () => Effect.interrupt } })
      const { body } = yield* send(`${url}/plans/${plan_id}`)
      assert.deepInclude(body, { status: 503, code: "draining", retryable: true })
    })
  )

  it.live.each([
    [Effect.fail(unavailable), false, ["database"]],
    [Effect.never, false, ["database"]],
    [Effect.succeed(false), false, ["database_writable"]],
    [Effect.succeed(true), true, ["leases"]],
    [Effect.fail(unavailable), true, ["database", "leases"]]
  ] as const)("of the database or of the leases makes the gateway unready, and leaves it alive (%#)", (given) =>
    Effect.gen(function* () {
      const [isWritable, isOverdue, failed] = given
      const plans = { isDraining: Effect.succeed(false), isOverdue: Effect.succeed(isOverdue) }
      const { url } = yield* serve({ plans }, isWritable)
      const { body } = yield* send(`${url}/ready`)
      assert.deepInclude(body, { status: 503, code: "unavailable", detail: `Not ready: ${failed.join(", ")}`, failed })
      assert.deepStrictEqual((yield* send(`${url}/health`)).body, { status: "ok" })
    })
  )

  it.live("is looked for once a second at most, however many probes ask, and never by /health", () =>
    Effect.gen(function* () {
      let asked = 0
      const isWritable = Effect.sync(() => asked++ >= 0)
      const plans = { isDraining: Effect.succeed(false), isOverdue: Effect.succeed(false) }
      const { url } = yield* serve({ plans }, isWritable)
      const [elapsed, answers] = yield* Effect.timed(
        Effect.replicateEffect(send(`${url}/ready`), 40, { concurrency: 20 })
      )
      assert.deepStrictEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
      // A busy machine may take seconds for them.
      assert.isAtMost(asked, 1 + Math.floor(Duration.toSeconds(elapsed)))
      const before = asked
      for (const _ of answers) yield* send(`${url}/health`)
      assert.strictEqual(asked, before)
    })
  )

  it.live("in the middle of a stream asks the caller to reconnect, after a whole frame", () =>
    Effect.gen(function* () {
      const frame = { seq: 1, at, event: "step", payload: '{"step":1,"attempt":1}' } as const
      for (const failure of [Stream.fail(unavailable), Stream.die(new Error(secret))]) {
        const frames = Stream.concat(Stream.make(frame, "ping" as const), failure)
        const { url, logged } = yield* serve({
          streams: { read: () => Effect.succeed({ plan_id, session_id, frames, connect, ...unread }) }
        })
        const { status, text } = yield* send(`${url}/plans/${plan_id}/events`)
        assert.strictEqual(status, 200)
        const data = `{"plan_id":"${plan_id}","session_id":"${session_id}","at":"${at}","step":1,"attempt":1}`
        assert.strictEqual(text, `id: 1\nevent: step\ndata: ${data}\n\n: ping\n\n: reconnect\n\n`)
        assert.include(logged.join(), secret)
        assert.include(logged.join(), plan_id)
      }
    })
  )

  it.live("of a caller to read what it is sent ends its connection", () =>
    Effect.gen(function* () {
      const frame = { seq: 1, at, event: "step", payload: '{"step":1,"attempt":1}' } as const
      const frames = Stream.concat(Stream.succeed(frame), Stream.never)
      const reading = {
        plan_id,
        session_id,
        frames,
        connect: (close: () => void) => {
          close()
          return () => undefined
        },
        ...unread
      }
      const { url } = yield* serve({
        streams: { read: () => Effect.succeed(reading), start: () => Effect.succeed(reading) }
      })
      const requests = [
        send(`${url}/plans/${plan_id}/events`),
        send(`${url}/plan`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: '{"question":"?"}'
        })
      ]
      for (const request of requests) assert.isTrue(Exit.isFailure(yield* Effect.exit(request)))
    })
  )

  it.live("of a stream is hidden from a caller who waits for one object", () =>
    Effect.gen(function* () {
      const after: Array<number> = []
      const frame = (seq: number, event: "session" | "done") => ({ seq, at, event, payload: "{}" }) as const
      const { url } = yield* serve({
        streams: {
          start: () =>
            Effect.succeed({
              plan_id,
              session_id,
              frames: Stream.make(frame(1, "session"), "reconnect" as const),
              connect,
              ...unread
            }),
          read: (_caller, _id, seq) => {
            after.push(seq)
            const last = after.length === 1 ? ("reconnect" as const) : frame(2, "done")
            return Effect.succeed({
              plan_id,
              session_id,
              frames: Stream.make(last),
              connect,
              ...unread
            })
          }
        },
        plans: { get: () => Effect.fail(unavailable), isDraining: Effect.succeed(false) }
      })
      const { status } = yield* send(`${url}/plan`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json" },
        body: '{"question":"?"}'
      })
      assert.deepStrictEqual([status, after], [503, [1, 1]])
    })
  )
})
