import * as MemoryStore from "@bowline/runtime/memory/MemoryStore"
import { layer } from "@effect/vitest"
import { Layer } from "effect"
import { TestClock } from "effect/testing"
import { LeaseTime } from "../../src/store/StoreCase.ts"
import { storeCases } from "../../src/store/StoreCases.ts"

const inMemory = Layer.merge(MemoryStore.layer, Layer.succeed(LeaseTime, { advance: TestClock.adjust }))

layer(inMemory)("the stores in memory", (it) => {
  for (const { title, test } of storeCases) it.effect(title, () => test)
})
