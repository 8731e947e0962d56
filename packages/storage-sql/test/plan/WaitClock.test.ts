import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import * as Given from "@bowline/testing/unstable/store/Given"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { onPostgres } from "../stores.ts"

const past = "1969-12-31T23:59:59.000Z"

layer(onPostgres)("the end of a wait", (it) => {
  it.effect("comes by the database's clock, however wrong that of the replica is which has told it", () =>
    Effect.gen(function* () {
      const inboxes = yield* InboxStore
      const held = yield* Given.createHeld()
      const [over, open] = [yield* Given.newTask, yield* Given.newTask]
      yield* Given.write(held, [
        Given.waitOpened(over, { expires_at: Given.farOff, left_ms: 0 }),
        Given.waitOpened(open, { expires_at: past, left_ms: 60_000 })
      ])
      yield* inboxes.expire
      const [inbox] = yield* inboxes.read([{ plan_id: held.plan.plan_id, seen: -1 }])
      assert.deepStrictEqual(
        inbox?.settlements.map(({ task_id }) => task_id),
        [over]
      )
      const { items } = yield* inboxes.waiting(held.plan.caller, {}, { limit: 10 })
      assert.deepStrictEqual(
        items.map(({ expires_at, task_id }) => [task_id, expires_at]),
        [[open, past]]
      )
    })
  )
})
