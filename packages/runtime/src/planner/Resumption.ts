import type { GivenDecision } from "@bowline/domain/plan/Approval"
import type { Stage } from "@bowline/domain/plan/Outcome"
import type { Agent } from "@bowline/domain/peer/Agent"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { Result, Schema } from "effect"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { agentsOf, type Preset } from "../config/Presets.ts"
import { type EventRow, toEvent } from "../store/EventRow.ts"
import type { Lack } from "../store/StoredRequest.ts"
import type { Head } from "../stream/Journal.ts"
import type { Tool } from "../tool/Tool.ts"
import { toolName as waitTool } from "../tool/WaitTool.ts"
import { waitOfCall } from "../store/AccountWait.ts"
import type { StoredWait } from "../store/InboxStore.ts"
import type { AbandonedPlan, Progress, StoredTask } from "../store/PlanStore.ts"

/** The attempts of a step that has no answer yet: the number of the last one, and those that readers have seen text of. */
export interface Attempts {
  readonly last: number
  readonly shown: ReadonlyArray<number>
}

/** How far another process has brought a plan. */
export interface Resumed {
  readonly progress: Progress
  /** What it has cost in US dollars, without what has no price. */
  readonly knownCost: number
  /** The stage in which it waited for somebody; null if it did not. */
  readonly waitedIn: Stage | null
  /** Whether its question is in the history. */
  readonly isAsked: boolean
  /** Undefined before the first step, and once a call of the last step has started, or waits for an approval: then that step has its answer. */
  readonly attempts: Attempts | undefined
  /** All its calls, open or ended. */
  readonly tasks: ReadonlyArray<StoredTask>
  /** The calls that its history has no result for. */
  readonly unanswered: ReadonlyArray<TaskId>
  /** What readers have seen of the calls of its last step: the payloads of those events. */
  readonly seen: ReadonlySet<string>
  /** The calls of its last step whose approval was requested, with the decisions that readers have seen. */
  readonly approvals: ReadonlyMap<TaskId, { readonly decision: GivenDecision | undefined }>
  /** What its calls wait for, or waited for last. */
  readonly waits: ReadonlyMap<TaskId, StoredWait>
  /** When it was woken last, if it was parked since its last step began: ISO 8601 in UTC. */
  readonly wokenAt: string | undefined
}

/** How many deaths a plan may have. Beyond that, the plan itself may be what kills its processes. */
const maxDeaths = 2

interface Rules {
  /** Whether this replica resumes plans at all. */
  readonly resume: boolean
  readonly localTools: ReadonlyArray<Tool>
  /** The preset of its request. Undefined if there is none of that name, or its caller may not use it. */
  readonly preset: Preset | undefined
}

const isIdempotent = (
  { agent, kind, skill, tool }: StoredTask,
  agents: ReadonlyArray<Agent>,
  { localTools }: Rules
): boolean => {
  // To load one is to read it, and a wait for the client goes on.
  if (kind === "recipe" || kind === "client") return true
  return kind === "peer"
    ? agents.some(
        ({ name, skills = [] }) => name === agent && skills.some(({ id, idempotent }) => id === skill && idempotent)
      )
    : (localTools.find(({ name }) => name === tool)?.isIdempotent ?? tool === waitTool)
}

/** What is said of a plan whose request this replica does not have. */
const lacking: Record<Lack | "request", string> = {
  request: "the version that stored it did not keep its request",
  secret: "a secret of its request was not stored: BOWLINE_SECRET_KEY (plans.secret_key in the file) was not set",
  key: "the secrets of its request cannot be read with this BOWLINE_SECRET_KEY (plans.secret_key in the file)",
  shape: "this version cannot read its request, which another version has stored"
}

type Waiting = Pick<AbandonedPlan, "inbox" | "waits">

/** Whether the call waits for an answer, or for an account, that it has not used: then the mark of its question is all that is needed to go on with it. */
const isPaused = ({ task_id }: StoredTask, { inbox, waits }: Waiting): boolean =>
  waits.some((wait) => {
    const isIts = wait.kind === "answer" ? wait.task_id === task_id : isForAccount(wait, task_id)
    if (!isIts || wait.mark === null) return false
    return wait.settlement?.given === undefined || inbox.settlements.some((unused) => unused.task_id === wait.task_id)
  })

const isForAccount = ({ kind, task_id }: StoredWait, call: TaskId): boolean =>
  kind === "account" && task_id === waitOfCall(call)

/**
 * Why an abandoned plan cannot be resumed, if so. An open call can be resumed if its remote task id is stored, or if it waits for an answer, or repeated if its
 * tool is idempotent; of any other call nobody knows whether it was made.
 */
export const obstacle = (
  { deaths, tasks, ...waiting }: Pick<AbandonedPlan, "deaths" | "tasks"> & Waiting,
  restored: Result.Result<PlanRequest, keyof typeof lacking>,
  rules: Rules
): string | undefined => {
  if (!rules.resume) return "this replica resumes no plans"
  if (Result.isFailure(restored)) return lacking[restored.failure]
  const request = restored.success
  const { preset } = rules
  if (preset === undefined) return `its preset ${request.preset} does not exist, or its caller may not use it`
  if (deaths > maxDeaths) return `${deaths} processes died while they ran it`
  const agents = agentsOf({ preset, request })
  const open = tasks.find(
    (task) =>
      task.state === "running" &&
      task.remote_task_id === null &&
      request.fork?.tools !== "recorded" &&
      !isIdempotent(task, agents, rules) &&
      !isPaused(task, waiting)
  )
  return open === undefined ? undefined : `the effect of a call of ${open.tool} is unknown`
}

const decodeAttempt = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ attempt: Schema.Int })))

const attemptsOf = (rows: ReadonlyArray<EventRow>): Attempts => {
  const shown = new Set<number>()
  let last = 0
  for (const { event, payload } of rows) {
    if (event === "step" || event === "retry") last = Math.max(last, decodeAttempt(payload).attempt)
    if (event === "text.retract") shown.delete(decodeAttempt(payload).attempt)
    if (event !== "text.delta" && event !== "reasoning.delta") continue
    // The continuation of an answer that was cut is an attempt, too, and no event announces it.
    const { attempt } = decodeAttempt(payload)
    shown.add(attempt)
    last = Math.max(last, attempt)
  }
  return { last, shown: Array.from(shown) }
}

const approvalsOf = (rows: ReadonlyArray<EventRow>): Resumed["approvals"] => {
  const approvals = new Map<TaskId, { readonly decision: GivenDecision | undefined }>()
  for (const row of rows) {
    if (row.event !== "approval.requested" && row.event !== "approval.resolved") continue
    const { data, event } = toEvent(row)
    if (event === "approval.requested") approvals.set(data.task_id, { decision: undefined })
    if (event === "approval.resolved") approvals.set(data.task_id, { decision: data })
  }
  return approvals
}

const decodeTaken = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({ step: Schema.Int })))

/** Whether the last step, of this number, has its answer: a call of it has begun, or the next step has taken a text. */
const isAnswered = (steps: number, rows: ReadonlyArray<EventRow>): boolean =>
  rows.some(
    ({ event, payload }) =>
      event === "task.started" ||
      event === "approval.requested" ||
      (event === "inbox.taken" && decodeTaken(payload).step > steps)
  )

const stageOf = (open: ReadonlyArray<StoredWait>): Stage | null => {
  if (open.length === 0) return null
  return open.some(({ kind }) => kind === "approval") ? "approval" : "client"
}

/** Reads from what the store has told how far the plan has come, but for its cost where some price is not known. */
export const read = ({
  plan,
  tail,
  tasks,
  unanswered,
  waits
}: Pick<AbandonedPlan, "plan" | "tail" | "tasks" | "unanswered" | "waits">): Omit<Resumed, "knownCost"> => {
  const { model, steps, tool_calls, retries, usage, cost_usd } = plan
  const has = (event: EventRow["event"]) => tail.some((row) => row.event === event)
  const isOfTask = ({ event }: EventRow) => event === "task.progress" || event === "task.artifact"
  return {
    progress: { model, steps, tool_calls, retries, usage, cost_usd },
    waitedIn: stageOf(waits.filter(({ settlement }) => settlement === undefined)),
    isAsked: has("plan") || has("step"),
    attempts: has("step") && !isAnswered(steps, tail) ? attemptsOf(tail) : undefined,
    tasks,
    unanswered,
    seen: new Set(tail.filter(isOfTask).map(({ payload }) => payload)),
    approvals: approvalsOf(tail),
    waits: new Map(waits.map((wait) => [wait.task_id, wait])),
    wokenAt: tail.findLast(({ event }) => event === "woken")?.at
  }
}

/**
 * How much of its own time, in milliseconds, an open call had used by `now`. What it waits for an answer does not count: the store has what it had used
 * then, and it goes on with the answer, or when its plan was woken for that.
 */
export const spentBefore = ({ waits, wokenAt = "" }: Resumed, task: StoredTask, now: number): number => {
  const since = (at: string) => Math.max(now - Date.parse(at), 0)
  const own = waits.get(task.task_id)
  const forAccount = waits.get(waitOfCall(task.task_id))
  // Whichever came last.
  const isNewer = forAccount !== undefined && (own?.spent_ms ?? 0) <= (forAccount.spent_ms ?? 0)
  const { kind, spent_ms, taken_at } = (isNewer ? forAccount : own) ?? {}
  if (kind === "answer" || kind === "account") {
    const gone = taken_at == null ? 0 : since(wokenAt > taken_at ? wokenAt : taken_at)
    return spent_ms == null ? 0 : spent_ms + gone
  }
  return task.remote_task_id === null ? 0 : since(task.started_at)
}

const Deltas = Schema.Struct({
  attempt: Schema.Int,
  delta: Schema.optionalKey(Schema.String),
  deltas: Schema.optionalKey(Schema.Array(Schema.String))
})
const decodeDeltas = Schema.decodeUnknownSync(Schema.fromJsonString(Deltas))

/** The text that readers have seen of a step that has no answer. */
export const shownText = (plan: Parameters<typeof read>[0]): string => {
  const shown = new Set(read(plan).attempts?.shown)
  return plan.tail
    .filter(({ event }) => event === "text.delta")
    .map(({ payload }) => decodeDeltas(payload))
    .flatMap(({ attempt, delta = "", deltas = [delta] }) => (shown.has(attempt) ? deltas : []))
    .join("")
}

/** The last event. */
export const headOf = ({ plan, tail }: Pick<AbandonedPlan, "plan" | "tail">): Head => {
  const last = tail.at(-1)
  return last === undefined ? { seq: 0, at: plan.created_at } : { seq: last.seq + last.count - 1, at: last.at }
}
