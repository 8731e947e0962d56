import { anonymous } from "@bowline/domain/caller/CallerName"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { until } from "@bowline/testing/http/Move"
import { say } from "@bowline/testing/provider/Turn"
import { layerOnStore, post, seen, single } from "@bowline/testing/unstable/TestKit"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Redacted, Stream } from "effect"
import * as SqlStore from "../../src/SqlStore.ts"
import { startServer } from "../postgres/startServer.ts"
import { sessionTtl } from "../stores.ts"

const words = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `word${from + index} `)

const server = Effect.acquireRelease(Effect.promise(startServer), ({ stop }) => Effect.promise(stop))

it.live("a crash of the database in mid-stream loses nothing that a reader has seen, and makes no hole", () =>
  Effect.gen(function* () {
    const { url, crash } = yield* server
    const [begun, isBack] = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()]
    const script = [
      [
        ...words(0, 30).map(say),
        until(Deferred.await(begun)),
        say("seen "),
        until(Deferred.await(isBack)),
        ...words(30, 60).map(say)
      ]
    ]
    const stores = SqlStore.layerPostgres({ url: Redacted.make(url), maxConnections: 5, sessionTtl })
    yield* Effect.gen(function* () {
      const streams = yield* PlanStreams
      const { plan_id, frames } = yield* post({ question: "?" })
      const sawLast = yield* Deferred.make<void>()
      const reading = yield* frames.pipe(
        Stream.tap((item) => {
          if (typeof item === "string") return Effect.void
          if (item.payload.includes("word29 ")) return Deferred.succeed(begun, undefined)
          return item.payload.includes("seen ") ? Deferred.succeed(sawLast, undefined) : Effect.void
        }),
        Stream.runCollect,
        Effect.forkChild
      )
      yield* Deferred.await(sawLast)
      yield* Effect.promise(crash)
      yield* Deferred.succeed(isBack, undefined)
      const shown = (yield* Fiber.join(reading)).filter((item) => item !== "ping")
      assert.strictEqual(single(seen(shown), "final").text, [...words(0, 30), "seen ", ...words(30, 60)].join(""))
      const { frames: stored } = yield* streams.read(anonymous, plan_id, 0)
      assert.deepStrictEqual(yield* Stream.runCollect(stored), shown)
    }).pipe(Effect.scoped, Effect.provide(Layer.provideMerge(layerOnStore({ script }), stores)))
  }).pipe(Effect.scoped)
)
