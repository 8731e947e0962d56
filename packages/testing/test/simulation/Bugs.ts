import type { PlanId } from "@bowline/domain/plan/Plan"
import type { GivenPreferences } from "@bowline/domain/plan/PlanRequest"
import type { MessageId } from "@bowline/domain/session/Message"
import type { SessionId } from "@bowline/domain/session/Session"
import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { LeaseStore } from "@bowline/runtime/unstable/store/LeaseStore"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { type PlanChange, type Committed, type PlanCommit, PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { Context, Effect } from "effect"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import { plainPlan } from "../../src/simulation/scenario/Scenario.ts"
import { callBugs } from "./CallBugs.ts"
import { effectBugs } from "./EffectBugs.ts"
import { entryBugs } from "./EntryBugs.ts"
import { fileBugs } from "./FileBugs.ts"
import {
  type Bug,
  calling,
  onLeases,
  onPlans,
  onRequests,
  scenarioOf,
  talking,
  unsent,
  working,
  workingTwice
} from "./Planting.ts"

/** A writer that has lost its session is not told: its writes count as done. */
const missingFence = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) => Effect.map(store.commit(batch), (): ReadonlyMap<PlanId, Committed> => new Map())
  }))

/** An answer that did not come is taken for a yes. */
const lostAnswerBelieved = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) => Effect.orElseSucceed(store.commit(batch), (): ReadonlyMap<PlanId, Committed> => new Map())
  }))

/** The lease of a plan that is over stays. */
const skippedFinalizer = (): Overrides => ({
  stores: (stores) => {
    const plans = Context.get(stores, PlanStore)
    const keep = (commit: PlanCommit) => ({
      ...commit,
      changes: commit.changes.filter(({ _tag }) => _tag !== "Released")
    })
    return stores.pipe(
      Context.add(PlanStore, { ...plans, commit: (batch) => plans.commit(batch.map(keep)) }),
      Context.add(LeaseStore, { ...Context.get(stores, LeaseStore), release: () => Effect.void })
    )
  }
})

/** Leases are renewed when they are over already. */
const lateRenewal = (): Overrides =>
  onLeases((store) => {
    let count = 0
    return {
      renew: (replica, ttl) =>
        count++ % 8 === 0
          ? store.renew(replica, ttl)
          : Effect.succeed({ held: new Map<SessionId, number>(), isOldest: false, mayPark: false, others: 1 })
    }
  })

/** A commit counts as stored before the store has it. */
const earlyFrames = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) =>
      batch.some(({ changes, events }) => changes.length > 0 || events.length === 0)
        ? store.commit(batch)
        : Effect.as(
            Effect.forkDetach(Effect.delay(Effect.ignore(store.commit(batch)), "20 millis")),
            new Map<PlanId, Committed>()
          )
  }))

/** Whoever takes over a plan does not learn of its open calls. */
const secondDispatch = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((plan) => ({ ...plan, tasks: plan.tasks.filter(({ state }) => state !== "running") }))
      )
  }))

/** An abort is looked for when a notice says so, and never else. */
const noticeBelieved = (): Overrides => ({
  stores: (stores) => {
    const plans = Context.get(stores, PlanStore)
    const notices = Context.get(stores, Notices)
    let isTold = false
    return stores.pipe(
      Context.add(Notices, {
        ...notices,
        subscribe: (hear) =>
          notices.subscribe((heard) => {
            if (heard._tag === "AbortRequested") isTold = true
            hear(heard)
          })
      }),
      Context.add(PlanStore, {
        ...plans,
        abortRequests: (replica) =>
          Effect.suspend(() => {
            const hasNews = isTold
            isTold = false
            return hasNews ? plans.abortRequests(replica) : Effect.succeed([])
          })
      })
    )
  }
})

/** A fault of the first key puts the second one aside. */
const wrongCredential = (): Overrides => ({
  stores: (stores) => {
    const store = Context.get(stores, CredentialStore)
    const other = (credential: string | null) =>
      credential && credential.replace(/[12]$/, (end) => `${3 - Number(end)}`)
    return Context.add(stores, CredentialStore, {
      ...store,
      open: (scope, ...given) => store.open({ ...scope, credential: other(scope.credential) }, ...given)
    })
  }
})

/** A summary covers one message more than it should: the question of the turn behind it. */
const cutTurn = (): Overrides => {
  const histories = new Map<SessionId, Array<MessageId>>()
  return onPlans((store) => ({
    commit: (batch) =>
      Effect.suspend(() => {
        const moved = batch.map((commit) => {
          const history = histories.get(commit.session_id) ?? []
          histories.set(commit.session_id, history)
          const changes = commit.changes.map((change): PlanChange => {
            if (change._tag === "MessageAppended" && !history.includes(change.message.message_id)) {
              history.push(change.message.message_id)
            }
            if (change._tag !== "Compacted") return change
            const through = history[history.indexOf(change.compaction.through) + 1] ?? change.compaction.through
            return { ...change, compaction: { ...change.compaction, through } }
          })
          return { ...commit, changes }
        })
        return store.commit(moved)
      })
  }))
}

/** Nobody learns who reads a plan at another replica. */
const readerUncounted = (): Overrides => ({
  stores: (stores) => {
    const notices = Context.get(stores, Notices)
    return Context.add(stores, Notices, {
      ...notices,
      publish: (all) => notices.publish(all.filter(({ _tag }) => _tag !== "Reading"))
    })
  }
})

/** Every limit of a request is checked a little late. */
const lateBudget = (): Overrides => {
  const later = ({ max_steps, max_tool_calls, max_total_tokens, ...rest }: GivenPreferences): GivenPreferences => ({
    ...rest,
    ...(max_steps !== undefined && { max_steps: max_steps + 1 }),
    ...(max_tool_calls !== undefined && { max_tool_calls: max_tool_calls + 1 }),
    ...(max_total_tokens !== undefined && { max_total_tokens: 2 * max_total_tokens })
  })
  return onRequests(later)
}

/** Whoever takes over a plan begins to count once more. */
const forgottenBudget = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((one) => ({ ...one, plan: { ...one.plan, steps: 0, tool_calls: 0 } }))
      )
  }))

const nothing = { tokens: 0, tool_calls: 0, cost_usd: 0, month_cost_usd: 0 }

/** What is left of a day does not become less. */
const endlessDay = (): Overrides => onPlans(() => ({ spent: () => Effect.succeed(nothing) }))

/** Bugs that systems like this one have had. */
export const bugs: Readonly<Record<string, Bug>> = {
  "a missing fence": {
    overrides: missingFence,
    rule: "streams",
    seeds: [54],
    scenario: scenarioOf(talking(30), 2, { _tag: "Pause", at: 3_000, replica: 0, ms: 22_000 })
  },
  "a retry of a commit taken for stored": {
    overrides: lostAnswerBelieved,
    rule: "streams",
    seeds: [6, 64],
    scenario: scenarioOf(talking(5), 1, { _tag: "Partition", at: 2_000, replica: 0, ms: 900 })
  },
  "a finalizer skipped": {
    overrides: skippedFinalizer,
    rule: "oneEnd",
    seeds: [1, 2, 3],
    scenario: scenarioOf(plainPlan, 1)
  },
  "a lease renewed too late": {
    overrides: lateRenewal,
    rule: "trueEnd",
    seeds: [9, 10, 14],
    scenario: scenarioOf(working(20_000), 2)
  },
  "a delta published before it is stored": {
    overrides: earlyFrames,
    rule: "streams",
    seeds: [1, 2, 3],
    scenario: scenarioOf(plainPlan, 1)
  },
  "a double dispatch after a take-over": {
    overrides: secondDispatch,
    rule: "calls",
    seeds: [62, 67, 73],
    scenario: scenarioOf(working(5_000), 2, { _tag: "Kill", at: 1_000, replica: 0, tasks: 0, backMs: undefined })
  },
  "a lost notice believed": {
    overrides: noticeBelieved,
    rule: "inTime",
    seeds: [100, 108, 214],
    scenario: scenarioOf({ ...talking(20), acts: [{ _tag: "Cancel", at: 2_000, replica: 1 }] }, 2, {
      _tag: "Notices",
      at: 1_000,
      replica: 0,
      ms: 10_000,
      become: "lost"
    })
  },
  "a window put on the wrong credential": {
    overrides: wrongCredential,
    rule: "spending",
    seeds: [44, 60],
    scenario: scenarioOf(plainPlan, 1, {
      _tag: "Provider",
      plan: "p0",
      request: 0,
      does: { _tag: "Refuse", status: 429, retryAfterS: 20 }
    })
  },
  "a compaction that cuts a turn": {
    overrides: cutTurn,
    rule: "histories",
    seeds: [2, 7, 13],
    scenario: scenarioOf({ ...plainPlan, ballast: 5_000 }, 1)
  },
  "a limit checked too late": {
    overrides: lateBudget,
    rule: "budgets",
    seeds: [2, 3, 5],
    scenario: scenarioOf({ ...working(100), budget: { max_tool_calls: 0 } }, 1)
  },
  "a limit forgotten at a take-over": {
    overrides: forgottenBudget,
    rule: "budgets",
    seeds: [23, 118, 129],
    scenario: scenarioOf({ ...workingTwice, budget: { max_tool_calls: 1 } }, 2, {
      _tag: "Kill",
      at: 1_000,
      replica: 0,
      tasks: 0,
      backMs: undefined
    })
  },
  "a day that is never spent": {
    overrides: endlessDay,
    rule: "budgets",
    seeds: [49, 138],
    scenario: { ...scenarioOf(workingTwice, 1), day: { tokens: 100_000, tool_calls: 1 } }
  },
  "a peer that is not told to cancel": {
    overrides: () => unsent("tasks/cancel", "CancelTask"),
    rule: "calls",
    seeds: [111, 145],
    scenario: scenarioOf({ ...calling("auto_ask"), acts: [{ _tag: "Cancel", at: 2_000, replica: 0 }] }, 1)
  },
  "an MCP server that is not told to cancel": {
    overrides: () => unsent("notifications/cancelled"),
    rule: "calls",
    seeds: [203, 222],
    scenario: scenarioOf({ ...calling("desk_note"), acts: [{ _tag: "Cancel", at: 2_000, replica: 0 }] }, 1)
  },
  "a reader counted as gone": {
    overrides: readerUncounted,
    rule: "trueEnd",
    seeds: [146, 324],
    scenario: scenarioOf(
      {
        ...talking(10),
        onDisconnect: "cancel",
        acts: [
          { _tag: "AskAgain", at: 2_000, replica: 1 },
          { _tag: "Leave", at: 5_000 }
        ]
      },
      2
    )
  },
  ...callBugs,
  ...entryBugs,
  ...effectBugs,
  ...fileBugs
}
