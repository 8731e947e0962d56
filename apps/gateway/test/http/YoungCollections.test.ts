import { assert, describe, it } from "@effect/vitest"
import { constants, PerformanceObserver } from "node:perf_hooks"
import { countBytes } from "../../src/http/YoungCollections.ts"

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
  it("have the young generation collected, and no more", async () => {
    const forced = nextForced()
    countBytes(4_194_303)
    countBytes(1)
    assert.strictEqual(await forced, constants.NODE_PERFORMANCE_GC_MINOR)
    assert.strictEqual("gc" in globalThis, false)
  })
})
