import { assert, describe, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { constants, PerformanceObserver } from "node:perf_hooks"
import { collected, HeapGrowth, owned } from "../../src/http/YoungCollections.ts"

/** The next collection that somebody has asked for, as V8 tells it. */
const nextForced = () =>
  new Promise<unknown>((resolve) => {
    const observer = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        const { detail } = entry as unknown as { readonly detail: { readonly flags: number; readonly kind: number } }
        const { flags, kind } = detail
        if ((flags & constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) === 0) continue
        observer.disconnect()
        resolve(kind)
      }
    })
    observer.observe({ entryTypes: ["gc"] })
  })

describe("the bytes of large bodies", () => {
  it.effect("have the young generation collected, and no more", () =>
    Effect.gen(function* () {
      const forced = nextForced()
      const pieces = [4_194_303, 1].map((length) => new Uint8Array(length))
      assert.deepStrictEqual(yield* Stream.runCollect(collected(Stream.fromIterable(pieces))), pieces)
      assert.strictEqual(yield* Effect.promise(() => forced), constants.NODE_PERFORMANCE_GC_MINOR)
      assert.strictEqual("gc" in globalThis, false)
    })
  )

  it.effect("are freed piece by piece as they are read, but for pieces of a buffer that has more", () =>
    Effect.gen(function* () {
      const shared = new Uint8Array(8)
      const pieces = [Uint8Array.of(1, 2), Uint8Array.of(3), shared.subarray(0, 4), Uint8Array.of(4)]
      const found: Array<ReadonlyArray<number>> = []
      yield* Stream.runForEach(owned(Stream.fromIterable(pieces), { hasRoom: true }), (piece) =>
        Effect.sync(() => void found.push([piece.length, ...pieces.map(({ length }) => length)]))
      )
      assert.deepStrictEqual(found, [
        [2, 2, 1, 4, 1],
        [1, 0, 1, 4, 1],
        [4, 0, 0, 4, 1],
        [1, 0, 0, 4, 1]
      ])
      assert.strictEqual(shared.length, 8)
    })
  )

  it.effect("are left to V8 while its heap has no room", () =>
    Effect.gen(function* () {
      const pieces = [Uint8Array.of(1, 2), Uint8Array.of(3)]
      yield* Stream.runDrain(owned(Stream.fromIterable(pieces), { hasRoom: false }))
      assert.deepStrictEqual(
        pieces.map(({ length }) => length),
        [2, 1]
      )
    })
  )
})

describe("V8's heap", () => {
  it("has room until it is 32 MiB larger than at its smallest since it was collected", () => {
    const heap = new HeapGrowth()
    const hasRoom = (mebibytes: number) => {
      heap.look(mebibytes * 1_048_576)
      return heap.hasRoom
    }
    assert.deepStrictEqual([100, 90, 121, 122].map(hasRoom), [true, true, true, false])
    heap.restart()
    assert.deepStrictEqual([150, 181, 182].map(hasRoom), [true, true, false])
  })
})
