import { anonymous } from "@bowline/domain/caller/CallerName"
import type { Decision } from "@bowline/domain/plan/Approval"
import type { DecisionEntry } from "@bowline/domain/plan/Inbox"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { CredentialStore } from "@bowline/runtime/unstable/store/CredentialStore"
import { InboxStore } from "@bowline/runtime/unstable/store/InboxStore"
import type { PlanChange, PlanCommit } from "@bowline/runtime/unstable/store/PlanStore"
import { Array as Arrays, Context, type Duration, Effect } from "effect"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import { type Fault, plainPlan } from "../../src/simulation/scenario/Scenario.ts"
import {
  asking,
  type Bug,
  calling,
  onInboxes,
  onChanges,
  onPlans,
  onRequests,
  scenarioOf,
  talking,
  working,
  workingTwice
} from "./Planting.ts"

/** What plans read of the decisions about their calls. */
const onDecisions =
  (bug: (decision: DecisionEntry) => DecisionEntry["decision"], lag: Duration.Input = 0) =>
  (store: InboxStore["Service"]): Pick<InboxStore["Service"], "read"> => ({
    read: (plans) =>
      Effect.delay(
        Effect.map(store.read(plans), (contents) =>
          contents.map((content) => ({
            ...content,
            settlements: content.settlements.map((settlement) => {
              const { given } = settlement
              if (given?.entry.type !== "decision") return settlement
              return { ...settlement, given: { ...given, entry: { ...given.entry, decision: bug(given.entry) } } }
            })
          }))
        ),
        lag
      )
  })

/** Whatever was decided, the call is made. */
const rejectedMade = (): Overrides => onInboxes(onDecisions(() => "approve"))

/** A call that waits is made before anybody has decided about it. */
const undecidedMade = (): Overrides =>
  onInboxes((store) => ({
    read: Effect.fnUntraced(function* (plans) {
      const contents = yield* store.read(plans)
      return yield* Effect.forEach(plans, ({ plan_id, seen }) =>
        Effect.map(store.waiting(anonymous, { plan: plan_id }, { limit: 100 }), ({ items }) => ({
          plan_id,
          count: contents.find((content) => content.plan_id === plan_id)?.count ?? seen,
          texts: [],
          tools: undefined,
          settlements: items.map(({ task_id }) => ({
            task_id,
            round: 1,
            tool_digest: null,
            given: {
              entry_id: null,
              by: anonymous,
              entry: { type: "decision" as const, task_id, decision: "approve" as const }
            }
          }))
        }))
      )
    })
  }))

/** Who decides last is heard. */
const lastDecision = (): Overrides => {
  const last = new Map<TaskId, Decision["decision"]>()
  return onInboxes((store) => ({
    accept: (accepting) => {
      const { entry } = accepting
      if (entry.type === "decision") last.set(entry.task_id, entry.decision)
      return store.accept(accepting)
    },
    // The plan learns of it a little late.
    ...onDecisions(({ decision, task_id }) => last.get(task_id) ?? decision, "2 seconds")(store)
  }))
}

/** Whoever takes over a plan finds a skill idempotent, since another skill of its agent is. */
const siblingRepeated = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((one) => ({
          ...one,
          tasks: one.tasks.map((task) => (task.skill === "ask" ? { ...task, skill: "again" } : task))
        }))
      )
  }))

/** A call that did not come to its end counts as completed. */
const failureHidden = (): Overrides =>
  onChanges((change) => (change._tag === "TaskFinished" ? { ...change, state: "completed" } : change))

/** The result of each call is that of the first one. */
const mixedResults = (): Overrides => {
  let first: string | undefined
  return onChanges((change) => {
    if (change._tag !== "TaskFinished" || change.state !== "completed") return change
    first ??= change.result
    return { ...change, result: first }
  })
}

/** A call may take ten times as long as its request says. */
const longCalls = (): Overrides =>
  onRequests(({ tool_timeout_ms, ...rest }) => ({
    ...rest,
    ...(tool_timeout_ms !== undefined && { tool_timeout_ms: 10 * tool_timeout_ms })
  }))

/** Whoever takes over a plan does not know what readers have seen of its calls. */
const forgottenArtifacts = (): Overrides =>
  onPlans((store) => ({
    takeOver: (...given) =>
      Effect.map(store.takeOver(...given), (taken) =>
        taken.map((one) => ({
          ...one,
          tail: one.tail.map((row) => (row.event === "task.artifact" ? { ...row, payload: `${row.payload} ` } : row))
        }))
      )
  }))

/** A plan that interrupts ends nothing at another replica. */
const interruptUnheard = (): Overrides =>
  onPlans((store) => ({
    requestAbort: (id, reason) => (reason === "superseded" ? Effect.void : store.requestAbort(id, reason))
  }))

/** Windows last ten times as long as they should. */
const longWindows = (): Overrides => ({
  stores: (stores) => {
    const store = Context.get(stores, CredentialStore)
    const longer = (durations: Parameters<typeof store.open>[2]) => Arrays.map(durations, (ms) => 10 * ms)
    return Context.add(stores, CredentialStore, {
      ...store,
      open: (scope, reason, durations) => store.open(scope, reason, longer(durations))
    })
  }
})

/** An inbox is read when a notice says so, and never else. */
const decisionUnpolled = (): Overrides => ({
  stores: (stores) => {
    const inboxes = Context.get(stores, InboxStore)
    const notices = Context.get(stores, Notices)
    let isTold = false
    return stores.pipe(
      Context.add(Notices, {
        ...notices,
        subscribe: (hear) =>
          notices.subscribe((heard) => {
            if (heard._tag === "InboxChanged") isTold = true
            hear(heard)
          })
      }),
      Context.add(InboxStore, {
        ...inboxes,
        read: (plans) => Effect.suspend(() => (isTold ? inboxes.read(plans) : Effect.succeed([])))
      })
    )
  }
})

/** The row of a plan goes on to say that a call waits. */
const waitStays = (): Overrides =>
  onPlans((store) => ({
    commit: (batch) => {
      const isOver = ({ _tag }: PlanChange) => _tag === "Settled" || _tag === "HandedOver"
      const keep = ({ events }: PlanCommit) => events.every(({ event }) => event !== "approval.resolved")
      const kept = batch.map((commit) =>
        keep(commit) || commit.changes.some(isOver)
          ? commit
          : { ...commit, changes: commit.changes.filter(({ _tag }) => _tag !== "Summed") }
      )
      return store.commit(kept)
    }
  }))

/** The webhooks of a plan are not stored with it. */
const webhooksLeft = (): Overrides =>
  onPlans((store) => ({ create: (plan, maxQueue) => store.create({ ...plan, webhooks: [] }, maxQueue) }))

const refused = (request: number): Fault => ({
  _tag: "Provider",
  plan: "p0",
  request,
  does: { _tag: "Refuse", status: 503 }
})

/** Bugs of approvals, of single calls, and of what ends plans. */
export const callBugs: Readonly<Record<string, Bug>> = {
  "an interrupt that does not reach the other replica": {
    overrides: interruptUnheard,
    rule: "inTime",
    seeds: [88],
    scenario: {
      ...scenarioOf(talking(30), 2),
      plans: [talking(30), { ...plainPlan, name: "p1", at: 3_000, replica: 1, onBusy: "interrupt" }]
    }
  },
  "a window that is too long": {
    overrides: longWindows,
    rule: "spending",
    seeds: [44, 52, 60],
    scenario: scenarioOf(plainPlan, 1, {
      _tag: "Provider",
      plan: "p0",
      request: 0,
      does: { _tag: "Refuse", status: 429, retryAfterS: 20 }
    })
  },
  "a plan that gives up without its retries": {
    overrides: () => ({ config: { maxRetries: 0 } }),
    rule: "trueEnd",
    seeds: [21, 25, 52],
    scenario: scenarioOf(plainPlan, 1, ...Array.from({ length: 8 }, (_, request) => refused(request)))
  },
  "a rejected call that is made": {
    overrides: rejectedMade,
    rule: "approvals",
    seeds: [18, 30, 38],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 1_000, replica: 0, approves: false }), 1)
  },
  "a call that is made before anybody decides": {
    overrides: undecidedMade,
    rule: "approvals",
    seeds: [12, 17],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 1_000, replica: 0, approves: true }), 1)
  },
  "a decision that another one takes back": {
    overrides: lastDecision,
    rule: "approvals",
    seeds: [34, 60],
    // With this seed both see the call wait.
    scenario: {
      ...scenarioOf(
        asking(
          { _tag: "Decide", at: 1_000, replica: 0, approves: false },
          { _tag: "Decide", at: 1_000, replica: 1, approves: true }
        ),
        2
      ),
      seed: 2
    }
  },
  "a decision that only a notice tells": {
    overrides: decisionUnpolled,
    rule: "approvals",
    seeds: [11],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 2_000, replica: 0, approves: true }), 1, {
      _tag: "Notices",
      at: 1_500,
      replica: 0,
      ms: 10_000,
      become: "lost"
    })
  },
  "a row that tells of a wait that is over": {
    overrides: waitStays,
    rule: "gists",
    seeds: [11],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 2_000, replica: 0, approves: true }), 1)
  },
  "an end that no webhook is told": {
    overrides: webhooksLeft,
    rule: "toldOnce",
    seeds: [1],
    scenario: scenarioOf(talking(1), 1)
  },
  "a call repeated for the sake of another skill": {
    overrides: siblingRepeated,
    rule: "calls",
    seeds: [267, 306],
    scenario: scenarioOf(
      calling("one_ask"),
      1,
      { _tag: "Peer", key: "p0/0.0", does: { _tag: "Late", ms: 5_000 } },
      { _tag: "Kill", at: 2_000, replica: 0, tasks: 0, backMs: 1_000 }
    )
  },
  "a failed call that counts as completed": {
    overrides: failureHidden,
    rule: "trueCalls",
    seeds: [1, 2],
    scenario: scenarioOf(calling("one_ask"), 1, { _tag: "Peer", key: "p0/0.0", does: { _tag: "Fail" } })
  },
  "the result of another call": {
    overrides: mixedResults,
    rule: "trueCalls",
    seeds: [4],
    scenario: scenarioOf(workingTwice, 1)
  },
  "a call that has more time than its request gives it": {
    overrides: longCalls,
    rule: "trueCalls",
    seeds: [16],
    scenario: scenarioOf({ ...working(8_000), toolTimeoutMs: 1_000 }, 1)
  },
  "an artifact that is told again after a take-over": {
    overrides: forgottenArtifacts,
    rule: "trueCalls",
    seeds: [10],
    scenario: scenarioOf(calling("one_ask"), 1, { _tag: "Kill", at: 2_000, replica: 0, tasks: 0, backMs: 1_000 })
  }
}
