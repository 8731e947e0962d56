import { anonymous } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { callTool } from "@bowline/testing/provider/Turn"
import { Effect } from "effect"
import * as MemoryStore from "../../src/memory/MemoryStore.ts"
import { InboxStore } from "../../src/store/InboxStore.ts"
import { bob } from "./Bob.ts"
import type { Mortal } from "./Mortal.ts"

/** An agent of whom a call needs an approval, and that call. */
export const agents = [{ ...bob, skills: [{ id: "pay", approval: "always" }, { id: "ask" }] }]
export const pays = [callTool("bob_pay", { input: "7" })]
export const admin = { caller: anonymous, isAdmin: true }

export const get = (process: Mortal, plan_id: PlanId) => process.plans.get(anonymous, plan_id)

export const waitsOf = Effect.fnUntraced(function* (plan_id: PlanId) {
  const { items } = yield* (yield* InboxStore).waiting(anonymous, { plan: plan_id }, { limit: 10 })
  return items
})

/** Approves every call of the plan that waits. */
export const approve = Effect.fnUntraced(function* (process: Mortal, plan_id: PlanId) {
  for (const { task_id } of yield* waitsOf(plan_id)) {
    yield* process.plans.decide(admin, { plan_id, task_id }, { decision: "approve" })
  }
})

export const onMemory = <A, E, R>(test: Effect.Effect<A, E, R>) =>
  test.pipe(Effect.scoped, Effect.provide(MemoryStore.layer))
