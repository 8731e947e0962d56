import { anonymous } from "@bowline/domain/caller/CallerName"
import type { Decision } from "@bowline/domain/plan/Approval"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Effect } from "effect"
import type { Overrides } from "../../src/simulation/replica/Replica.ts"
import {
  asking,
  type Bug,
  calling,
  onApprovals,
  onChanges,
  onPlans,
  onRequests,
  scenarioOf,
  working,
  workingTwice
} from "./Planting.ts"

/** Whatever was decided, the call is made. */
const rejectedMade = (): Overrides =>
  onApprovals((store) => ({
    decisions: (asked) =>
      Effect.map(store.decisions(asked), (all) =>
        all.map((one) => ({ ...one, decision: { ...one.decision, decision: "approve" } }))
      )
  }))

/** A call that waits is made before anybody has decided about it. */
const undecidedMade = (): Overrides =>
  onApprovals(() => ({
    decisions: (asked) =>
      Effect.succeed(
        asked.map(({ task_id }) => ({
          task_id,
          decision: { decision: "approve", by: anonymous, at: "1970-01-01T00:00:00.000Z" },
          tool_digest: null
        }))
      )
  }))

/** Who decides last is heard. */
const lastDecision = (): Overrides => {
  const last = new Map<TaskId, Decision["decision"]>()
  return onApprovals((store) => ({
    decide: (approval, given, owner) =>
      Effect.tap(store.decide(approval, given, owner), () =>
        Effect.sync(() => void last.set(approval.task_id, given.decision))
      ),
    decisions: (asked) =>
      // The plan learns of it a little late.
      Effect.delay(
        Effect.map(store.decisions(asked), (all) =>
          all.map((one) => ({
            ...one,
            decision: { ...one.decision, decision: last.get(one.task_id) ?? one.decision.decision }
          }))
        ),
        "2 seconds"
      )
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

/** Bugs of approvals and of single calls. */
export const callBugs: Readonly<Record<string, Bug>> = {
  "a rejected call that is made": {
    overrides: rejectedMade,
    rule: "approvals",
    seeds: [18, 30, 38],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 1_000, replica: 0, approves: false }), 1)
  },
  "a call that is made before anybody decides": {
    overrides: undecidedMade,
    rule: "approvals",
    seeds: [3, 12, 17],
    scenario: scenarioOf(asking({ _tag: "Decide", at: 1_000, replica: 0, approves: true }), 1)
  },
  "a decision that another one takes back": {
    overrides: lastDecision,
    rule: "approvals",
    seeds: [30, 237],
    scenario: scenarioOf(
      asking(
        { _tag: "Decide", at: 1_000, replica: 0, approves: false },
        { _tag: "Decide", at: 1_000, replica: 0, approves: true }
      ),
      1
    )
  },
  "a call repeated for the sake of another skill": {
    overrides: siblingRepeated,
    rule: "calls",
    seeds: [267, 306, 333],
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
    seeds: [1, 2, 3],
    scenario: scenarioOf(calling("one_ask"), 1, { _tag: "Peer", key: "p0/0.0", does: { _tag: "Fail" } })
  },
  "the result of another call": {
    overrides: mixedResults,
    rule: "trueCalls",
    seeds: [2, 3, 4],
    scenario: scenarioOf(workingTwice, 1)
  },
  "a call that has more time than its request gives it": {
    overrides: longCalls,
    rule: "trueCalls",
    seeds: [16, 159],
    scenario: scenarioOf({ ...working(8_000), toolTimeoutMs: 1_000 }, 1)
  },
  "an artifact that is told again after a take-over": {
    overrides: forgottenArtifacts,
    rule: "trueCalls",
    seeds: [101],
    scenario: scenarioOf(calling("one_ask"), 1, { _tag: "Kill", at: 2_000, replica: 0, tasks: 0, backMs: 1_000 })
  }
}
