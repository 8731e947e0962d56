import type { PlanId } from "@bowline/domain/plan/Plan"
import type { Committed, PlanChange } from "@bowline/runtime/unstable/store/PlanStore"
import { Effect } from "effect"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import { type CallerAct, plainPlan, type Scenario } from "../../src/simulation/scenario/Scenario.ts"
import { type Bug, onInboxes, onPlans, scenarioOf, talking, workingTwice } from "./Planting.ts"

const isTaking = (change: PlanChange): boolean => change._tag === "EntryChanged" && change.state === "taken"

/** What is taken stays in the inbox: whoever takes the plan over takes it again. */
const takenTwice = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) => {
      const kept = batch.map((commit) => ({ ...commit, changes: commit.changes.filter((change) => !isTaking(change)) }))
      return store.commit(kept)
    }
  }))

/** A plan ends without a look at what was said to it since, and no write tells it of that. */
const unreadEnd = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) => {
      const blind = batch.map(({ inbox, ...commit }) =>
        inbox ? { ...commit, inbox: { ...inbox, closes: false } } : commit
      )
      const isTold = ([, committed]: readonly [PlanId, Committed]) => committed !== "behind"
      return Effect.map(store.commit(blind), (told) => new Map(Array.from(told).filter(isTold)))
    }
  }))

/** Whoever takes a plan over believes that nothing was said to it. */
const emptyAtTakeOver = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((plan) => ({ ...plan, inbox: { ...plan.inbox, texts: [] } }))
      )
  }))

/** Whatever is said to a plan that is over counts as accepted. */
const acceptedByEnded = (): Overrides =>
  onInboxes((store) => ({
    accept: (accepting) =>
      Effect.catchTag(store.accept(accepting), "EntryRefused", (refused) =>
        refused.code === "plan_over"
          ? Effect.succeed({ _tag: "Known" as const, entry_id: accepting.entry_id, moved_to: null })
          : Effect.fail(refused)
      )
  }))

/** Whoever takes a parked plan over hears nothing of what has woken it. */
const deafAtTakeOver = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((plan) => ({
          ...plan,
          inbox: { ...plan.inbox, settlements: [] },
          waits: plan.waits.map((wait) => ({ ...wait, settlement: undefined }))
        }))
      )
  }))

/** Nobody ends what has waited for too long. */
const endlessWaits = (): Overrides =>
  onInboxes(() => ({ expire: Effect.succeed({ plans: [], isWaking: false, isMore: false }) }))

/** A replica that takes over what an entry has woken forgets it at once. */
const forgottenWakeUp = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) => taken.filter(({ wokenBy }) => wokenBy !== "entry"))
  }))

/** A plan that waits for a result of its caller, and is parked meanwhile. */
const waiting = (...acts: ReadonlyArray<CallerAct>): Scenario => ({
  ...scenarioOf(
    {
      ...plainPlan,
      waitMs: 20_000,
      steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/9.0", tool: "page", ms: 0 }] }, ...plainPlan.steps],
      acts
    },
    2
  ),
  parkAfterMs: 500
})

/** A plan whose peer asks something, and is parked meanwhile. */
const asking = (...acts: ReadonlyArray<CallerAct>): Scenario => ({
  ...scenarioOf(
    {
      ...plainPlan,
      waitMs: 20_000,
      answers: true,
      steps: [{ words: 1, pauseMs: 1, calls: [{ key: "p0/8.0", tool: "one_ask", ms: 0 }] }, ...plainPlan.steps],
      acts
    },
    2,
    { _tag: "Peer", key: "p0/8.0", does: { _tag: "Asks", rounds: 1 } }
  ),
  parkAfterMs: 500
})

const give: CallerAct = { _tag: "Give", at: 5_000, replica: 1, number: 0 }

const say = (at: number, replica = 0): CallerAct => ({
  _tag: "Say",
  at,
  replica,
  number: 0,
  when: "boundary",
  else: "reject"
})

const kill = { _tag: "Kill", replica: 0, tasks: 0, backMs: undefined } as const

/** Bugs of what people say to plans. */
export const entryBugs: Readonly<Record<string, Bug>> = {
  "a text that is taken twice": {
    overrides: takenTwice,
    rule: "entries",
    seeds: [6, 11, 12],
    scenario: scenarioOf({ ...workingTwice, acts: [say(1_000)] }, 2, { ...kill, at: 3_000 })
  },
  "a text that is lost at the end": {
    overrides: unreadEnd,
    rule: "entries",
    seeds: [6, 30, 40],
    scenario: scenarioOf({ ...talking(3), acts: [say(2_000)] }, 1, {
      _tag: "Notices",
      at: 1_500,
      replica: 0,
      ms: 10_000,
      become: "lost"
    })
  },
  "a text that is lost at a hand-over": {
    overrides: emptyAtTakeOver,
    rule: "entries",
    seeds: [12, 16, 22],
    scenario: scenarioOf({ ...workingTwice, acts: [say(1_000)] }, 2, { ...kill, at: 1_500 })
  },
  "a result that is taken twice": {
    overrides: takenTwice,
    rule: "entries",
    seeds: [30, 57],
    scenario: waiting(give)
  },
  "a result for a parked plan that is lost at its take-over": {
    overrides: deafAtTakeOver,
    rule: "liveness",
    seeds: [30, 57, 78],
    scenario: waiting(give)
  },
  "an answer that its peer gets, and that nobody takes": {
    overrides: takenTwice,
    rule: "entries",
    seeds: [30, 57, 67],
    scenario: asking(give)
  },
  "an answer for a parked plan that is lost at its take-over": {
    overrides: deafAtTakeOver,
    rule: "liveness",
    seeds: [30, 43, 57],
    scenario: asking(give)
  },
  "the end of a wait that wakes nobody": {
    overrides: endlessWaits,
    rule: "parking",
    seeds: [30, 43, 57],
    scenario: waiting()
  },
  "a wake-up that is forgotten": {
    overrides: forgottenWakeUp,
    rule: "inTime",
    seeds: [30, 57, 78],
    scenario: waiting(give)
  },
  "a text that a plan accepts that is over": {
    overrides: acceptedByEnded,
    rule: "entries",
    seeds: [1, 6, 44],
    scenario: scenarioOf({ ...talking(2), acts: [say(5_000)] }, 1)
  }
}
