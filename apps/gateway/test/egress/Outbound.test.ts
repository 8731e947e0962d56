import { TryLeave } from "@bowline/runtime/unstable/http/Exchange"
import * as LoopbackNetwork from "@bowline/testing/http/LoopbackNetwork"
import { Network } from "@bowline/testing/http/Network"
import { text } from "@bowline/testing/http/Host"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Scope } from "effect"
import { HttpClient } from "effect/http"
import { type PerformanceEntry, PerformanceObserver } from "node:perf_hooks"
import * as Outbound from "../../src/egress/Outbound.ts"

describe("the client for hosts that callers name", () => {
  it.live("asks whether a request may still leave when its connection is there, and drops one that may not", () =>
    Effect.gen(function* () {
      const network = yield* Network
      const client = yield* HttpClient.HttpClient
      const { requests, url } = yield* network.serve(() => Effect.succeed(text(200, "ok")))
      const scope = yield* Scope.make()
      const gone = yield* Scope.provide(
        network.serve(() => Effect.never),
        scope
      )
      yield* Scope.close(scope, Exit.void)
      let asked = 0
      const answerOf = (at: string, isWanted: boolean) =>
        Effect.provideService(Effect.exit(client.post(at)), TryLeave, () => {
          asked++
          return isWanted
        })
      assert.isTrue(Exit.isFailure(yield* answerOf(gone.url, true)))
      assert.strictEqual(asked, 0)
      assert.isTrue(Exit.isFailure(yield* answerOf(url, false)))
      assert.isTrue(Exit.isSuccess(yield* answerOf(`${url}/wanted`, true)))
      assert.strictEqual(asked, 2)
      assert.deepStrictEqual(
        (yield* requests.all).map((request) => request.url.pathname),
        ["/wanted"]
      )
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.merge(
          Outbound.layerWithin({ allow: [], deny: [], allowsLocal: true }, () => new Map()),
          LoopbackNetwork.layer
        )
      )
    )
  )
})

describe.each([
  ["providers", Outbound.layer],
  ["hosts that the operator names", Outbound.layerAnywhere(() => new Map())],
  ["hosts that callers name", Outbound.layerWithin({ allow: [], deny: [], allowsLocal: true }, () => new Map())]
])("the client for %s", (_, layer) => {
  it.live("looks a name up once for all connections that wait for it", () =>
    Effect.gen(function* () {
      const client = yield* HttpClient.HttpClient
      const { port } = new URL((yield* (yield* Network).serve(() => Effect.succeed(text(200, "ok")))).url)
      const lookups: Array<PerformanceEntry> = []
      const observer = new PerformanceObserver((list) => void lookups.push(...list.getEntries()))
      observer.observe({ entryTypes: ["dns"] })
      yield* Effect.all(
        Array.from({ length: 10 }, () => client.get(`http://localhost:${port}/`)),
        { concurrency: "unbounded" }
      )
      lookups.push(...observer.takeRecords())
      observer.disconnect()
      assert.isAbove(lookups.length, 0)
      assert.isBelow(lookups.length, 10)
    }).pipe(Effect.scoped, Effect.provide(Layer.merge(layer, LoopbackNetwork.layer)))
  )
})
