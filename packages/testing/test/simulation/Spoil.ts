import type { AbortReason, Outcome, StopReason } from "@bowline/domain/plan/Outcome"
import type { Observed } from "../../src/simulation/scenario/Observed.ts"
import { events, framesOf } from "./Sound.ts"

/** The run with its only member of a list changed, or the first one. */
export const first =
  <Key extends "plans" | "sessions" | "readers" | "calls" | "attempts" | "replicas" | "files">(
    key: Key,
    change: (one: Observed[Key][number]) => Partial<Observed[Key][number]>
  ) =>
  (run: Observed): Observed => ({
    ...run,
    [key]: run[key].map((one, index) => (index === 0 ? { ...one, ...change(one) } : one))
  })

export const frames = (change: (all: typeof events) => typeof events) =>
  first("plans", () => ({ frames: framesOf(change([...events])) }))

export const plan = (change: (one: Observed["plans"][number]["plan"]) => object) =>
  first("plans", (one) => ({ plan: { ...one.plan, ...change(one.plan) } }))

/** The run with its last request to a provider changed. */
export const lastAttempt =
  (change: (one: Observed["attempts"][number]) => Partial<Observed["attempts"][number]>) =>
  (run: Observed): Observed => ({
    ...run,
    attempts: run.attempts.map((one, index) => (index === run.attempts.length - 1 ? { ...one, ...change(one) } : one))
  })

/** The run with another end of its plan. */
const ended =
  (outcome: Outcome) =>
  (run: Observed): Observed => {
    const isOver = outcome.state === "completed"
    const end = isOver
      ? ({ event: "final", data: outcome.final } as const)
      : ({ event: "error", data: outcome.error } as const)
    const row = isOver ? { final: outcome.final } : { state: outcome.state, final: null, error: outcome.error }
    return {
      ...first("plans", (one) => ({
        plan: { ...one.plan, ...row },
        frames: framesOf([...events.slice(0, -2), end, ...events.slice(-1)])
      }))(run),
      commits: run.commits.map((commit) => ({
        ...commit,
        changes: commit.changes.map((change) => (change._tag === "Settled" ? { ...change, outcome } : change))
      }))
    }
  }

export const failed = (code: string) =>
  ended({ state: "failed", error: { code, message: "", retryable: false, stage: null } })

export const aborted = (reason: AbortReason) => (run: Observed) => ({
  ...ended({ state: "aborted", error: { code: "aborted", message: "", retryable: false, stage: null, reason } })(run),
  readers: []
})

export const stopped = (stop_reason: StopReason) => (run: Observed) => {
  const [one] = run.plans
  return one?.plan.final ? ended({ state: "completed", final: { ...one.plan.final, stop_reason } })(run) : run
}

/** The run in which no end of a call is stored. */
export const unfinished = (run: Observed): Observed => ({
  ...run,
  commits: run.commits.map((one) => ({ ...one, changes: one.changes.filter(({ _tag }) => _tag !== "TaskFinished") }))
})
