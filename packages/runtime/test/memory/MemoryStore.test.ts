import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { apply, makePlan, makeSession, Memory } from "../../src/memory/internal/Memory.ts"
import { LeaseStore } from "../../src/store/LeaseStore.ts"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { type Heard, Notices } from "../../src/store/Notices.ts"

describe("the stores in memory", () => {
  it.effect("tell that a replica has ended", () =>
    Effect.gen(function* () {
      const heard: Array<Heard> = []
      yield* (yield* Notices).subscribe((notice) => heard.push(notice))
      yield* (yield* LeaseStore).leave("replica_a")
      assert.deepStrictEqual(heard, [{ _tag: "PlansLeft" }])
    }).pipe(Effect.provide(MemoryStore.layer))
  )

  it.effect("keep a request, and its secrets until its plan is over", () =>
    Effect.gen(function* () {
      const memory = new Memory(Infinity)
      const plan = yield* Given.newPlan()
      const session = makeSession(memory, plan)
      const record = makePlan(memory, plan, session, 0)
      apply(memory, record, session, { _tag: "HandedOver" })
      assert.deepStrictEqual(record.request, plan.storedRequest)
      apply(memory, record, session, Given.settled())
      assert.deepStrictEqual(record.request, { ...plan.storedRequest, secrets: null })
    })
  )
})
