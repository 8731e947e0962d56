import type { GivenPreferences } from "@bowline/domain/plan/PlanRequest"
import { Plans as PlanService } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { type PlanChange, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Context, Effect, Layer } from "effect"
import { HttpClient } from "effect/http"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import { plainPlan, type Scenario, type ScenarioPlan } from "../../src/simulation/scenario/Scenario.ts"

type Plans = PlanStore["Service"]
type Leases = LeaseStore["Service"]
type Inboxes = InboxStore["Service"]

/** Every replica gets this in the place of its store of plans. */
export const onPlans = (bug: (store: Plans, replica: string) => Partial<Plans>): Overrides => ({
  stores: (stores, replica) => {
    const store = Context.get(stores, PlanStore)
    return Context.add(stores, PlanStore, { ...store, ...bug(store, replica) })
  }
})

export const onLeases = (bug: (store: Leases) => Partial<Leases>): Overrides => ({
  stores: (stores) => {
    const store = Context.get(stores, LeaseStore)
    return Context.add(stores, LeaseStore, { ...store, ...bug(store) })
  }
})

export const onInboxes = (bug: (store: Inboxes) => Partial<Inboxes>): Overrides => ({
  stores: (stores) => {
    const store = Context.get(stores, InboxStore)
    return Context.add(stores, InboxStore, { ...store, ...bug(store) })
  }
})

/** Changes what a plan stores. */
export const onChanges = (bug: (change: PlanChange) => PlanChange): Overrides =>
  onPlans((store) => ({
    commit: (batch) => {
      const changed = new Map(batch.map((commit) => [{ ...commit, changes: commit.changes.map(bug) }, commit]))
      return store.commit(Array.from(changed.keys()))
    }
  }))

/** Requests say otherwise what they prefer. */
export const onRequests = (bug: (preferences: GivenPreferences) => GivenPreferences): Overrides => ({
  plans: Layer.flatMap(PlanService.layer, (context) => {
    const streams = Context.get(context, PlanStreams)
    const start: typeof streams.start = (asked) =>
      streams.start({ ...asked, request: { ...asked.request, preferences: bug(asked.request.preferences) } })
    return Layer.succeedContext(Context.add(context, PlanStreams, { ...streams, start }))
  })
})

/** Requests that call one of these methods never leave. */
export const unsent = (...methods: ReadonlyArray<string>): Overrides => ({
  network: HttpClient.mapRequestEffect((request) => {
    const { body } = request
    const text = body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""
    return methods.some((method) => text.includes(`"${method}"`)) ? Effect.never : Effect.succeed(request)
  })
})

/** A plan whose only call takes so long. */
export const working = (ms: number): ScenarioPlan => ({
  ...plainPlan,
  steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool: "work", ms }] }, ...plainPlan.steps]
})

/** A plan whose only call takes 20 s elsewhere. */
export const calling = (tool: string): ScenarioPlan => ({
  ...plainPlan,
  steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/0.0", tool, ms: 20_000 }] }, ...plainPlan.steps]
})

export const workingTwice: ScenarioPlan = {
  ...plainPlan,
  steps: [
    ...["p0/0.0", "p0/1.0"].map((key) => ({ words: 1, pauseMs: 1, calls: [{ key, tool: "repeat", ms: 2_000 }] })),
    ...plainPlan.steps
  ]
}

/** A plan whose call has to be approved, and what its caller does about it. */
export const asking = (...acts: ScenarioPlan["acts"]): ScenarioPlan => ({ ...working(500), approval: "always", acts })

/** A plan that talks for so many seconds. */
export const talking = (seconds: number): ScenarioPlan => ({
  ...plainPlan,
  steps: [{ words: seconds, pauseMs: 1_000, calls: [] }]
})

export const scenarioOf = (only: ScenarioPlan, replicas: number, ...faults: Scenario["faults"]): Scenario => ({
  seed: 1,
  replicas,
  plans: [only],
  faults
})

export interface Bug {
  readonly overrides: () => Overrides
  /** The rule that finds it. */
  readonly rule: string
  /** Drawn seeds that have found it. */
  readonly seeds: ReadonlyArray<number>
  /** What it takes to find it: what is left of a seed that was shrunk, in round numbers. */
  readonly scenario: Scenario
}
