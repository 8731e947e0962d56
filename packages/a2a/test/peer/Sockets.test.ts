import { assert, describe, it } from "@effect/vitest"
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import type { RecordedRequest } from "@bowline/testing/unstable/http/RequestLog"
import { breaks, cutsAnswer, resetsAnswer, silent } from "@bowline/testing/unstable/peer/Trouble"
import { completes, stuck } from "@bowline/testing/peer/Act"
import { serve } from "@bowline/testing/peer/ScriptedPeer"
import { Deferred, Effect, Exit, Fiber, Layer, Logger, Scope, Stream } from "effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import { exchange } from "@bowline/runtime/unstable/http/Exchange"
import * as A2aPeerClient from "../../src/peer/A2aPeerClient.ts"
import { question, reasonOf, start } from "./call.ts"

const sockets = A2aPeerClient.layer.pipe(
  Layer.provideMerge(NodeHttpClient.layerUndici),
  Layer.provideMerge(Logger.layer([])),
  Layer.provideMerge(LoopbackNetwork.layer)
)

const endingOf = (request: RecordedRequest | undefined) => request?.ended ?? Effect.die("There is no such request")

describe("over real sockets", () => {
  it.live.each(["a2a-1.0", "a2a-0.3", "bindu"] as const)(
    "an interruption in mid-poll closes the socket, and the cancel reaches the peer, in %s",
    (dialect) =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [stuck] })
        yield* peer.disturb("tasks/get", silent)
        const { fiber } = yield* start(question(peer.url, { dialect }))
        yield* peer.awaitSeen(({ polls }) => polls.length === 1)
        yield* Fiber.interrupt(fiber)
        const [, poll] = yield* peer.requests.all
        assert.strictEqual(yield* endingOf(poll), "closed")
        assert.strictEqual(yield* peer.cancelled, (yield* peer.seen).sends[0]?.taskId)
      }).pipe(Effect.provide(sockets))
  )

  it.live.each(["a2a-1.0", "a2a-0.3"] as const)(
    "an interruption before the answer to the message ends the call at once, and the task is cancelled, in %s",
    (dialect) =>
      Effect.gen(function* () {
        const peer = yield* serve({ dialect, acts: [stuck] })
        const gate = yield* Deferred.make<void>()
        yield* peer.disturb("message/send", {
          when: "after",
          spoil: (answer) => Effect.as(Deferred.await(gate), answer)
        })
        const { fiber } = yield* start(question(peer.url, { dialect }))
        const { sends } = yield* peer.awaitSeen(({ sends }) => sends.length === 1)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.succeed(gate, undefined)
        assert.strictEqual(yield* peer.cancelled, sends[0]?.taskId)
      }).pipe(Effect.provide(sockets))
  )

  it.live("reading stops where an answer exceeds 8 MiB", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const endless = yield* network.serve(() =>
        Effect.succeed({ status: 200, headers: {}, body: Stream.forever(Stream.succeed(new Uint8Array(65_536))) })
      )
      const reason = yield* reasonOf(yield* start(question(endless.url)))
      assert.strictEqual(reason._tag, "response_too_large")
      const [request] = yield* endless.requests.all
      assert.strictEqual(yield* endingOf(request), "closed")
    }).pipe(Effect.provide(sockets))
  )

  const verdictOf = (url: string) =>
    Effect.gen(function* () {
      const client = yield* HttpClient.HttpClient
      const error = yield* Effect.flip(exchange(client, HttpClientRequest.post(url)))
      return error.verdict
    })

  it.live("a connection that is refused and a TLS handshake that fails never reach the peer", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const scope = yield* Scope.make()
      const gone = yield* Scope.provide(
        network.serve(() => Effect.never),
        scope
      )
      yield* Scope.close(scope, Exit.void)
      const plain = yield* network.serve(() => Effect.never)
      assert.strictEqual(yield* verdictOf(gone.url), "unsent")
      assert.strictEqual(yield* verdictOf(plain.url.replace("http:", "https:")), "unsent")
    }).pipe(Effect.provide(sockets))
  )

  it.live("a connection that breaks may have reached the peer", () =>
    Effect.gen(function* () {
      const peer = yield* serve({ acts: [completes()] })
      for (const trouble of [breaks("reset"), breaks("cut"), cutsAnswer, resetsAnswer]) {
        yield* peer.disturb("message/send", trouble)
        assert.strictEqual((yield* reasonOf(yield* start(question(peer.url))))._tag, "unreachable")
      }
      assert.strictEqual((yield* peer.seen).sends.length, 4)
    }).pipe(Effect.provide(sockets))
  )
})
