import type { ToolEffect } from "@bowline/domain/tool/TaskState"
import type { EffectClaim, PlanChange, PlanCommit } from "@bowline/runtime/unstable/store/PlanStore"
import { Duration, Effect, Option } from "effect"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import {
  plainPlan,
  type Scenario,
  type ScenarioCall,
  type ScenarioPlan
} from "../../src/simulation/scenario/Scenario.ts"
import { paymentTool } from "../../src/simulation/world/Bank.ts"
import { type Bug, onChanges, onPlans } from "./Planting.ts"

type Claimed = Extract<PlanChange, { readonly _tag: "EffectClaimed" }>

const isClaim = (change: PlanChange): change is Claimed => change._tag === "EffectClaimed"

/** How long behind the intent of its call a claim is stored. */
const lag = Duration.millis(300)

/** A claim is stored shortly behind the intent of its call, and its process believes in it from the beginning. */
const claimedLater = (): Overrides =>
  onPlans((store) => {
    const believed = new Map<string, EffectClaim>()
    const believe = ({ at, key, task_id }: Claimed, { plan_id }: PlanCommit) =>
      believed.set(key, { task_id, plan_id, at, state: "running", result: null, taskId: null, contextId: null })
    return {
      commit: (batch) =>
        Effect.suspend(() => {
          const claims = batch.flatMap((commit) => {
            const changes = commit.changes.filter(isClaim)
            for (const change of changes) believe(change, commit)
            return changes.length === 0 ? [] : [{ ...commit, changes, events: [] }]
          })
          if (claims.length === 0) return store.commit(batch)
          const intents = batch.map((commit) => ({ ...commit, changes: commit.changes.filter((one) => !isClaim(one)) }))
          const later = Effect.forkDetach(Effect.delay(Effect.ignore(store.commit(claims)), lag))
          return Effect.tap(store.commit(intents), later)
        }),
      claimOf: (caller, key) =>
        Effect.map(
          store.claimOf(caller, key),
          Option.orElse(() => Option.fromUndefinedOr(believed.get(key)))
        )
    }
  })

/** What tools do, said otherwise. */
const onEffects = (bug: (effect: ToolEffect) => ToolEffect): Overrides => ({
  config: {
    effectOf: (tool) => {
      const payment = paymentTool(tool)
      return payment && bug(payment.effect)
    }
  }
})

/** The key is what the model wrote. */
const uncanonicalKey = (): Overrides => onEffects((effect) => ({ ...effect, key: ["/memo"] }))

/** A call that is out of its time counts as not made. */
const freedAtTimeout = (): Overrides =>
  onChanges((change) =>
    change._tag === "EffectEnded" && change.state === "unknown" ? { ...change, state: "none" } : change
  )

/** What a caller must not do twice counts in its session. */
const countedInSession = (): Overrides => onEffects((effect) => ({ ...effect, scope: "session" }))

/** What must not be done twice in a session counts for its caller. */
const countedForCaller = (): Overrides => onEffects((effect) => ({ ...effect, scope: "caller" }))

/** A plan that pays the same with each of these calls, one after the other. */
const paying = (name: string, ...calls: ReadonlyArray<Partial<ScenarioCall>>): ScenarioPlan => ({
  ...plainPlan,
  name,
  waitMs: 20_000,
  steps: [
    ...calls.map((call, index) => ({
      words: 1,
      pauseMs: 1,
      calls: [{ key: `${name}/${7 + index}.0`, tool: "pay", ms: 500, order: 1, ...call }]
    })),
    ...plainPlan.steps
  ]
})

const scenarioOf = (...plans: ReadonlyArray<ScenarioPlan>): Scenario => ({ seed: 1, replicas: 2, plans, faults: [] })

/** Bugs by which something is done twice, or is not done at all. */
export const effectBugs: Readonly<Record<string, Bug>> = {
  "a claim of an effect outside of the transaction of the intent": {
    overrides: claimedLater,
    rule: "effects",
    seeds: [6, 9, 22],
    scenario: scenarioOf(paying("p0", {}), { ...paying("p1", {}), session: "s1", replica: 1 })
  },
  "an effect whose key is no canonical JSON": {
    overrides: uncanonicalKey,
    rule: "effects",
    seeds: [6, 9, 22],
    scenario: scenarioOf(paying("p0", {}, { isTurned: true }))
  },
  "a claim of an effect that is freed at a time-out": {
    overrides: freedAtTimeout,
    rule: "effects",
    seeds: [6, 42, 62],
    scenario: scenarioOf({
      ...paying("p0", { ms: 3_000 }, {}),
      toolTimeoutMs: 1_000,
      acts: [{ _tag: "Decide", at: 5_000, replica: 0, approves: true }]
    })
  },
  "a claim of what a caller does itself that is freed when its wait is over": {
    overrides: freedAtTimeout,
    rule: "effects",
    seeds: [675],
    scenario: scenarioOf({
      ...paying("p0", { tool: "app_pay" }, { tool: "app_pay" }),
      waitMs: 3_000,
      acts: [
        { _tag: "Give", at: 1_000, replica: 0, number: 20, becomes: "lost" },
        { _tag: "Give", at: 6_000, replica: 0, number: 21 },
        { _tag: "Decide", at: 6_000, replica: 0, approves: true }
      ]
    })
  },
  "an effect of a caller that counts in its session": {
    overrides: countedInSession,
    rule: "effects",
    seeds: [6, 37, 62],
    scenario: scenarioOf(paying("p0", {}), { ...paying("p1", {}), session: "s1", at: 2_000 })
  },
  "an effect of a session that counts for its caller": {
    overrides: countedForCaller,
    rule: "effects",
    seeds: [22, 195],
    scenario: scenarioOf(paying("p0", { tool: "book" }), {
      ...paying("p1", { tool: "book" }),
      session: "s1",
      at: 2_000
    })
  }
}
