import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanFacts, PlanId } from "@bowline/domain/plan/Plan"
import type { TaskMessage } from "@bowline/domain/plan/PlanRequest"
import type { NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
import { Context, type Effect } from "effect"
import type { Told } from "./PlanStore.ts"
import type { HandedBack } from "./SessionStore.ts"

/** How a task stands for the client of another agent, in the words of A2A. */
export const standings = [
  "submitted",
  "working",
  "input-required",
  "auth-required",
  "completed",
  "failed",
  "canceled",
  "rejected"
] as const
export type Standing = (typeof standings)[number]

/** A task that is over takes no further message. */
export const isOver = (standing: Standing): boolean =>
  standing === "completed" || standing === "failed" || standing === "canceled" || standing === "rejected"

/** A peer has handed a call of the plan back: the plan's client is the one who can answer. */
const handedBackAs = (state: TaskState): Standing => (state === "auth-required" ? "auth-required" : "input-required")

/**
 * How a task stands whose last plan is this one. `open` is the state of its newest call that a peer has handed back, if there is one; `auth-required` of a plan that waits for accounts alone. `cancelled_at` says that its client has cancelled it while it waited.
 */
export const standingOf = (
  { error, stage, state, steps }: Pick<PlanFacts, "error" | "stage" | "state" | "steps">,
  open: TaskState | null,
  cancelled_at: string | null
): Standing => {
  switch (state) {
    case "queued":
      return "submitted"
    case "running":
    case "waiting":
      if (stage === "client" && open === "auth-required") return "auth-required"
      return stage === "approval" || stage === "client" ? "input-required" : "working"
    case "completed":
      if (cancelled_at !== null) return "canceled"
      return open === null || !handedBack.has(open) ? "completed" : handedBackAs(open)
    case "failed":
      return error?.code === "budget_exceeded" && steps === 0 ? "rejected" : "failed"
    case "aborted":
      return error?.reason === "deadline" || error?.reason === "shutdown" ? "failed" : "canceled"
  }
}

/**
 * A plan of a task, and the message that asked it; null if no A2A client has. `cancelled_at` (ISO 8601 in UTC) says that the plan was the
 * last one of a task that waited for its client, and was cancelled then.
 */
export interface TaskPlan {
  readonly plan: PlanFacts
  readonly message: TaskMessage | null
  readonly cancelled_at: string | null
}

/** A plan of this task, with what it has come to. */
export type ToldPlan = { readonly task_id: PlanId } & TaskPlan & Told<PlanFacts>

/** A task in a list: its newest plan, and how it stands. `status_at` is when the task was cancelled or that plan ended or, if it has not, when it was asked. */
export interface TaskSummary {
  readonly task_id: PlanId
  readonly plan: PlanFacts
  readonly standing: Standing
  readonly status_at: string
}

export interface TaskFilter {
  readonly session?: SessionId
  readonly standing?: Standing
  /** Only tasks whose `status_at` is this or later (ISO 8601 in UTC). */
  readonly since?: string
}

/** The place of a task in the list, after which the next page begins. */
export interface TaskCursor {
  readonly status_at: string
  readonly task_id: string
}

export interface TaskPage {
  readonly items: ReadonlyArray<TaskSummary>
  readonly next: TaskCursor | null
  /** How many tasks pass the filter, on all pages. */
  readonly total: number
}

/**
 * Plans as tasks. A task is a chain of plans: the id of the first one is the task's, and each later one continues it
 * (`task_message.task_id`). `PlanStore` writes them.
 */
export class TaskStore extends Context.Service<
  TaskStore,
  {
    /** The plans of the task, the oldest first. Another owner's task is not found, and neither is the id of a later plan. */
    readonly plans: (
      owner: CallerName,
      task: PlanId
    ) => Effect.Effect<readonly [TaskPlan, ...ReadonlyArray<TaskPlan>], NotFound | StorageError>
    /** The plans of these tasks of the owner, the oldest first, with what they have come to. One statement, a row for each plan. */
    readonly told: (
      owner: CallerName,
      tasks: ReadonlyArray<PlanId>
    ) => Effect.Effect<ReadonlyArray<ToldPlan>, StorageError>
    /** The owner's tasks, the newest `status_at` first. */
    readonly list: (
      owner: CallerName,
      filter: TaskFilter,
      page: { readonly limit: number; readonly cursor?: TaskCursor }
    ) => Effect.Effect<TaskPage, StorageError>
    /**
     * Cancels a task that waits for its client and whose last plan this is, now (ISO 8601 in UTC). Returns what peers have handed back
     * to its plans: no later call continues that. If the plan is not over, or the task is cancelled already, nothing is written.
     */
    readonly cancel: (
      owner: CallerName,
      last: PlanId,
      now: string
    ) => Effect.Effect<ReadonlyArray<HandedBack>, StorageError>
  }
>()("@bowline/runtime/store/TaskStore") {}
