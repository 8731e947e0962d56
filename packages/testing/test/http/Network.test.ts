import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Layer, References, Stream, type Scope } from "effect"
import { HttpClient, HttpClientRequest, type HttpClientError } from "effect/http"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { TestClock } from "effect/testing"
import { Fault, json, type Host, type HostResponse } from "../../src/http/Host.ts"
import * as LoopbackNetwork from "../../src/http/LoopbackNetwork.ts"
import * as MemoryNetwork from "../../src/http/MemoryNetwork.ts"
import * as Move from "../../src/http/Move.ts"
import { Network, type ServedHost } from "../../src/http/Network.ts"

const events = (...moves: ReadonlyArray<Move.Move>): HostResponse => ({
  status: 200,
  headers: { "content-type": "text/event-stream" },
  body: Move.toStream(moves)
})

/** What a client saw before the end, and the code of what ended it. It opens the latch when it has seen something. */
const readAll = (url: string, hasRead = Latch.makeUnsafe(false)) => {
  const chunks: Array<Uint8Array> = []
  return HttpClient.get(url).pipe(
    Effect.flatMap((response) =>
      Stream.runForEach(response.stream, (chunk) =>
        Effect.andThen(
          hasRead.open,
          Effect.sync(() => chunks.push(chunk))
        )
      )
    ),
    Effect.match({ onSuccess: () => "end", onFailure: codeOf }),
    Effect.map((end) => ({ chunks: chunks.map((chunk) => Buffer.from(chunk).toString("latin1")), end }))
  )
}

const codeOf = ({ reason }: HttpClientError.HttpClientError): string =>
  `${reason._tag} ${(reason.cause as { readonly code?: string }).code}`

const endingOf = (host: ServedHost) =>
  Effect.flatMap(host.requests.awaitCount(1), ([request]) => request?.ended ?? Effect.die("No request"))

describe.each([
  ["in memory", MemoryNetwork.layer],
  ["on sockets", Layer.merge(LoopbackNetwork.layer, NodeHttpClient.layerUndici)]
])("a host %s", (_, layer) => {
  const live = (
    title: string,
    test: Effect.Effect<void, HttpClientError.HttpClientError, Network | HttpClient.HttpClient | Scope.Scope>
  ) => it.live(title, () => Effect.scoped(test).pipe(Effect.provide(layer)))
  const serve = (host: Host) => Effect.flatMap(Network, (network) => network.serve(host))

  live(
    "gets the request as it was sent, and records it",
    Effect.gen(function* () {
      const host = yield* serve((request) => Effect.succeed(json(201, { echo: request.body }, { "x-host": "yes" })))
      const response = yield* HttpClientRequest.post(`${host.url}/a/b?c=1`).pipe(
        HttpClientRequest.setHeader("X-Key", "k"),
        HttpClientRequest.bodyText("héllo", "text/plain"),
        HttpClient.execute
      )
      assert.deepStrictEqual(
        [response.status, response.headers["x-host"], yield* response.json],
        [201, "yes", { echo: "héllo" }]
      )
      const [request] = yield* host.requests.awaitCount(1)
      assert.deepInclude(request, { method: "POST", body: "héllo" })
      assert.strictEqual(request?.url.href, `${host.url}/a/b?c=1`)
      assert.deepInclude(request?.headers, { "x-key": "k", "content-type": "text/plain" })
      assert.strictEqual(yield* endingOf(host), "answered")
      assert.strictEqual(yield* host.requests.open, 0)
    })
  )

  live(
    "writes piece by piece, through the middle of a character when it is told to",
    Effect.gen(function* () {
      const host = yield* serve(() =>
        Effect.succeed(events(Move.slow("10 millis"), Move.write("one"), Move.split(2), Move.write("a€")))
      )
      const { chunks, end } = yield* readAll(host.url)
      assert.deepStrictEqual([chunks, end], [["one", "a\xe2", "\x82\xac"], "end"])
    })
  )

  live(
    "is seen to cut an answer, and to reset it",
    Effect.gen(function* () {
      // A reset loses what the client has not read yet.
      const hasRead = Latch.makeUnsafe(false)
      const read = Move.until(Effect.asVoid(hasRead.await))
      const host = yield* serve(({ url }) =>
        Effect.succeed(events(Move.write("one"), read, url.pathname === "/cut" ? Move.cut : Move.reset))
      )
      const endOf = (path: string) => Effect.andThen(hasRead.close, readAll(host.url + path, hasRead))
      assert.deepStrictEqual(yield* endOf("/cut"), { chunks: ["one"], end: "DecodeError UND_ERR_SOCKET" })
      assert.deepStrictEqual(yield* endOf("/reset"), { chunks: ["one"], end: "DecodeError ECONNRESET" })
      const requests = yield* host.requests.all
      assert.deepStrictEqual(yield* Effect.forEach(requests, (request) => request.ended), ["cut", "reset"])
    })
  )

  live(
    "is seen to break the connection before an answer",
    Effect.gen(function* () {
      const host = yield* serve(({ url }) =>
        Effect.fail(new Fault({ kind: url.pathname === "/cut" ? "cut" : "reset" }))
      )
      assert.strictEqual((yield* readAll(`${host.url}/cut`)).end, "TransportError UND_ERR_SOCKET")
      assert.strictEqual((yield* readAll(`${host.url}/reset`)).end, "TransportError ECONNRESET")
    })
  )

  live(
    "stalls with the connection open, and sees the client leave",
    Effect.gen(function* () {
      const host = yield* serve(() => Effect.succeed(events(Move.write("one"), Move.stall)))
      const started = yield* Deferred.make<void>()
      const client = yield* HttpClient.get(host.url).pipe(
        Effect.flatMap((response) => Stream.runForEach(response.stream, () => Deferred.succeed(started, undefined))),
        Effect.forkChild
      )
      yield* Deferred.await(started)
      assert.strictEqual(yield* host.requests.open, 1)
      yield* Fiber.interrupt(client)
      assert.strictEqual(yield* endingOf(host), "closed")
      assert.strictEqual(yield* host.requests.open, 0)
    })
  )

  live(
    "sees a client leave that waits for the head of an answer",
    Effect.gen(function* () {
      const host = yield* serve(() => Effect.never)
      const client = yield* Effect.forkChild(HttpClient.get(host.url))
      yield* host.requests.awaitCount(1)
      yield* Fiber.interrupt(client)
      assert.strictEqual(yield* endingOf(host), "closed")
    })
  )

  live(
    "refuses connections once its scope is closed, and has cut those that were open",
    Effect.gen(function* () {
      const { url, reader } = yield* Effect.scoped(
        Effect.gen(function* () {
          const host = yield* serve(() => Effect.succeed(events(Move.write("one"), Move.stall)))
          const reader = yield* Effect.forkChild(readAll(host.url))
          yield* host.requests.awaitCount(1)
          return { url: host.url, reader }
        })
      )
      assert.match((yield* Fiber.join(reader)).end, /UND_ERR_SOCKET|ECONNRESET/)
      assert.strictEqual((yield* readAll(url)).end, "TransportError ECONNREFUSED")
    })
  )

  live(
    "answers 500 for a script that dies",
    Effect.gen(function* () {
      const host = yield* serve(() => Effect.die("no such turn"))
      const response = yield* HttpClient.get(host.url)
      assert.strictEqual(response.status, 500)
      assert.include(yield* response.text, "no such turn")
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
  )
})

describe("a host in memory", () => {
  it.effect("waits and slows down in virtual time", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const host = yield* network.serve(() =>
        Effect.succeed(events(Move.wait("1 hour"), Move.slow("10 seconds"), Move.split(1), Move.write("ab")))
      )
      const seen: Array<number> = []
      const client = yield* HttpClient.get(host.url).pipe(
        Effect.flatMap((response) =>
          Stream.runForEach(response.stream, () =>
            Effect.map(
              Effect.clockWith((clock) => clock.currentTimeMillis),
              (now) => seen.push(now)
            )
          )
        ),
        Effect.forkChild
      )
      yield* TestClock.adjust("2 hours")
      yield* Fiber.join(client)
      assert.deepStrictEqual(seen, [3_610_000, 3_620_000])
    }).pipe(Effect.scoped, Effect.provide(MemoryNetwork.layer))
  )
})
