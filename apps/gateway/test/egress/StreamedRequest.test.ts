import { Agent } from "@effect/platform-node/Undici"
import { Fault, type Host, type HostResponse } from "@bowline/testing/http/Host"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { Connections } from "@bowline/runtime/unstable/provider/HttpAttempt"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Scope, Stream } from "effect"
import { HttpClientRequest } from "effect/http"
import * as StreamedRequest from "../../src/egress/StreamedRequest.ts"

const bytes = (text: string) => new TextEncoder().encode(text)
const streamed = (body: HostResponse["body"]): HostResponse => ({ status: 200, headers: { "x-host": "one" }, body })

/** A host, and what sends it the request. */
const setUp = Effect.fnUntraced(function* (host: Host) {
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent()),
    (agent) => Effect.promise(() => agent.destroy())
  )
  const { requests, url } = yield* Effect.flatMap(Network, (network) => network.serve(host))
  const send = StreamedRequest.make(agent)
  return { requests, send: (path = "/") => send(HttpClientRequest.bodyText(HttpClientRequest.post(url + path), "?")) }
})

const run = <E>(test: Effect.Effect<void, E, Network | Scope.Scope>) =>
  test.pipe(Effect.scoped, Effect.provide(LoopbackNetwork.layer))

describe("a streamed request", () => {
  it.live("gives the head of its answer at once, and each piece when it comes", () =>
    run(
      Effect.gen(function* () {
        const more = yield* Deferred.make<Uint8Array>()
        const { requests, send } = yield* setUp(() =>
          Effect.succeed(streamed(Stream.concat(Stream.succeed(bytes("a")), Stream.fromEffect(Deferred.await(more)))))
        )
        const { headers, status, stream } = yield* send("/chat?version=1")
        assert.deepStrictEqual([status, headers["x-host"]], [200, "one"])
        let text = ""
        yield* Stream.runForEach(Stream.decodeText(stream), (piece) => {
          text += piece
          return text === "a" ? Deferred.succeed(more, bytes("b")) : Effect.void
        })
        assert.strictEqual(text, "ab")
        const [request] = yield* requests.awaitCount(1)
        assert.deepStrictEqual(
          [request?.method, request?.url.pathname, request?.url.search],
          ["POST", "/chat", "?version=1"]
        )
        assert.deepStrictEqual([request?.body, request?.headers["content-type"]], ["?", "text/plain"])
      })
    )
  )

  it.live.each([
    ["before the answer", () => Effect.never],
    [
      "in the middle of the answer",
      () => Effect.succeed(streamed(Stream.concat(Stream.succeed(bytes("a")), Stream.never)))
    ]
  ] as const)("closes its socket with its scope %s", ([, host]) =>
    run(
      Effect.gen(function* () {
        const { requests, send } = yield* setUp(host)
        const read = Effect.scoped(Effect.flatMap(send(), ({ stream }) => Stream.runDrain(stream)))
        const reading = yield* Effect.forkChild(read, { startImmediately: true })
        const [request] = yield* requests.awaitCount(1)
        yield* Fiber.interrupt(reading)
        assert.strictEqual(yield* request?.ended ?? Effect.undefined, "closed")
      })
    )
  )

  it.live("closes its socket with its scope when nobody reads the answer", () =>
    run(
      Effect.gen(function* () {
        const { requests, send } = yield* setUp(() =>
          Effect.succeed(streamed(Stream.forever(Stream.succeed(new Uint8Array(65_536)))))
        )
        yield* Effect.scoped(send())
        const [request] = yield* requests.awaitCount(1)
        assert.strictEqual(yield* request?.ended ?? Effect.undefined, "closed")
      })
    )
  )

  it.live.each([
    ["before the answer", () => Effect.never],
    [
      "in the middle of the answer",
      () => Effect.succeed(streamed(Stream.concat(Stream.succeed(bytes("a")), Stream.never)))
    ]
  ] as const)(
    "closes its socket when its plan ends %s, and fails for nobody before the plan is interrupted",
    ([, host]) =>
      run(
        Effect.gen(function* () {
          const { requests, send } = yield* setUp(host)
          const connections = new Set<() => void>()
          const read = Effect.scoped(Effect.flatMap(send(), ({ stream }) => Stream.runDrain(stream)))
          const reading = yield* Effect.forkChild(Effect.provideService(read, Connections, connections), {
            startImmediately: true
          })
          const [request] = yield* requests.awaitCount(1)
          for (const close of connections) close()
          assert.strictEqual(yield* request?.ended ?? Effect.undefined, "closed")
          assert.isUndefined(reading.pollUnsafe())
          yield* Fiber.interrupt(reading)
          assert.strictEqual(connections.size, 0)
        })
      )
  )

  it.live("can be given up before it has a connection", () =>
    run(
      Effect.gen(function* () {
        const { requests, send } = yield* setUp(() => Effect.never)
        const scope = yield* Scope.make()
        const sending = yield* Effect.forkChild(Effect.exit(Scope.provide(send(), scope)), { startImmediately: true })
        yield* Scope.close(scope, Exit.void)
        assert.isTrue(Exit.isFailure(yield* Fiber.join(sending)))
        assert.lengthOf(yield* requests.all, 0)
      })
    )
  )

  it.live.each(["cut", "reset"] as const)("fails when its connection is %s, behind what has come", (kind) =>
    run(
      Effect.gen(function* () {
        const fault = Effect.fail(new Fault({ kind }))
        const { send } = yield* setUp(({ url }) =>
          url.pathname === "/whole"
            ? Effect.succeed(streamed(Stream.concat(Stream.succeed(bytes("a")), Stream.fromEffect(fault))))
            : fault
        )
        const before = yield* Effect.flip(send("/none"))
        assert.strictEqual(before.reason._tag, "TransportError")
        const { stream } = yield* send("/whole")
        let text = ""
        const reading = Stream.runForEach(Stream.decodeText(stream), (piece) => Effect.sync(() => void (text += piece)))
        assert.strictEqual((yield* Effect.flip(reading)).reason._tag, "TransportError")
        assert.strictEqual(text, "a")
      })
    )
  )

  it.live("lets its server wait while its answer is not read", () =>
    run(
      Effect.gen(function* () {
        const piece = new Uint8Array(65_536)
        const { send } = yield* setUp(() =>
          Effect.succeed(streamed(Stream.fromIterable(Array.from({ length: 256 }, () => piece))))
        )
        const { stream } = yield* send()
        const sizes: Array<number> = []
        yield* Stream.runForEachArray(stream, (pieces) => {
          sizes.push(pieces.reduce((sum, { length }) => sum + length, 0))
          return Effect.repeat(Effect.yieldNow, { times: 20 })
        })
        assert.strictEqual(
          sizes.reduce((sum, size) => sum + size, 0),
          256 * 65_536
        )
        assert.isAtMost(Math.max(...sizes), 2 * 65_536)
      })
    )
  )
})
