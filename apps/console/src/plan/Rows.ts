import type { PlanView } from "@bowline/client"
import type { Tone } from "../shell/Sign.tsx"
import { counted, cutMiddle, duration, firstLine, pretty } from "../text/Format.ts"

type Kind = "queue" | "compaction" | "step" | "retry" | "attempt" | "approval" | "task"

/** A row of the timeline: something that took time in a plan. Times are epoch milliseconds by the gateway's clock. */
export interface Row {
  /** Stable for as long as the plan is: `step-2`, `attempt-2-1`, `task-<id>`. */
  readonly id: string
  readonly kind: Kind
  readonly level: 1 | 2
  /** The row that this one belongs to. */
  readonly parent: string | null
  readonly label: string
  /** How it is doing, in a word or two. */
  readonly state: string
  readonly tone: Tone
  readonly from: number
  /** Null while it runs. */
  readonly to: number | null
}

const tones: Readonly<Record<string, Tone>> = {
  running: "running",
  completed: "good",
  "input-required": "waiting",
  "auth-required": "waiting",
  "payment-required": "waiting",
  "trust-verification-required": "waiting",
  canceled: "warn",
  interrupted: "warn",
  rejected: "warn"
}

// A call that has not changed has the same row: its input is not written anew with each picture.
const taskRows = new WeakMap<PlanView["tasks"][number], Row>()

const task = (entry: PlanView["tasks"][number], parent: string | null): Row => {
  const known = taskRows.get(entry) ?? taskRow(entry, parent)
  taskRows.set(entry, known)
  return known
}

const taskRow = (entry: PlanView["tasks"][number], parent: string | null): Row => ({
  id: `task-${entry.taskId}`,
  kind: "task",
  level: parent === null ? 1 : 2,
  parent,
  label: `${cutMiddle(entry.tool, 28)} ${firstLine(pretty(entry.input).replaceAll(/\s+/g, " "), 60)}`,
  state: entry.state,
  tone: tones[entry.state] ?? "bad",
  from: entry.startedAt,
  to: entry.endedAt
})

const approvalState = ({ by, decision, endedAt }: PlanView["approvals"][number]): readonly [string, Tone] => {
  if (decision === "approve") return [`approved by ${by ?? "somebody"}`, "good"]
  if (decision === "reject") return [`rejected by ${by ?? "somebody"}`, "bad"]
  return endedAt === null ? ["waits for a decision", "waiting"] : ["never decided", "warn"]
}

const approval = (entry: PlanView["approvals"][number], parent: string | null): Row => {
  const [state, tone] = approvalState(entry)
  const { endedAt: to, startedAt: from, taskId, tool } = entry
  return {
    id: `approval-${taskId}`,
    kind: "approval",
    level: parent === null ? 1 : 2,
    parent,
    label: `Approval of ${cutMiddle(tool, 28)}`,
    state,
    tone,
    from,
    to
  }
}

/** How something ended that did not succeed. What a plan's abort has cut did not fail, unless its time was over. */
const ended = (error: { readonly code: string; readonly reason?: string }): readonly [string, Tone] =>
  error.code !== "aborted" ? ["failed", "bad"] : error.reason === "deadline" ? ["out of time", "bad"] : ["cut", "warn"]

const attemptState = ({
  endedAt,
  error,
  isRetracted
}: PlanView["steps"][number]["attempts"][number]): readonly [string, Tone] => {
  if (isRetracted) return ["retracted", "bad"]
  if (error !== null) return ended(error)
  return endedAt === null ? ["running", "running"] : ["finished", "good"]
}

const attempts = ({ attempts, step }: PlanView["steps"][number], parent: string): ReadonlyArray<Row> =>
  attempts.flatMap((entry): ReadonlyArray<Row> => {
    const { attempt, endedAt: to, retry, startedAt: from, text, usage } = entry
    const [state, tone] = attemptState(entry)
    const name = `attempt-${step}-${attempt}`
    const row: Row = { id: name, kind: "attempt", level: 2, parent, label: `Attempt ${attempt}`, state, tone, from, to }
    if (retry === null) return [row]
    // No frame says that the wait is over: what the attempt has brought does.
    const isOver = to !== null || text !== "" || usage !== null
    const wait: Row = {
      id: `retry-${step}-${attempt}`,
      kind: "retry",
      level: 2,
      parent,
      label: `Retry after ${retry.error.code}`,
      state: `${isOver ? "waited" : "waits"} ${duration(retry.delayMs)}`,
      tone: isOver ? "plain" : "waiting",
      from: retry.at,
      to: Math.max(from, retry.at)
    }
    return [wait, row]
  })

/** What a plan failed of that is no attempt's and no call's own failure: its last step's. */
const ofStep = new Set(["loop_detected", "output_invalid", "storage", "internal", "interrupted"])

const stepState = (view: PlanView, { attempts, endedAt, step }: PlanView["steps"][number]): readonly [string, Tone] => {
  if (endedAt === null) return ["running", "running"]
  const { outcome } = view
  if (outcome === null || outcome.state === "completed" || step !== view.steps.at(-1)?.step)
    return ["finished", "plain"]
  const isCut = view.tasks.some((task) => task.step === step && task.state === "interrupted")
  return isCut || attempts.at(-1)?.error != null || ofStep.has(outcome.error.code)
    ? ended(outcome.error)
    : ["finished", "plain"]
}

const compaction = (entry: PlanView["compactions"][number], index: number): Row => ({
  id: `compaction-${index + 1}`,
  kind: "compaction",
  level: 1,
  parent: null,
  label: `Compaction of ${counted(entry.messagesCompacted, "message")}`,
  state: `${entry.tokensBefore} to ${entry.tokensAfter} tokens`,
  tone: "plain",
  from: entry.at,
  to: entry.at
})

const grouped = <A>(entries: ReadonlyArray<A>, step: (entry: A) => number) => Map.groupBy(entries, step)

/** The rows of a plan, in the order in which they are read: what belongs to a step stands below it. */
export const rowsOf = (view: PlanView): ReadonlyArray<Row> => {
  const tasks = grouped(view.tasks, ({ step }) => step)
  const approvals = grouped(view.approvals, ({ step }) => step)
  const compactions = grouped(
    view.compactions.map((entry, index) => ({ ...entry, index })),
    ({ afterStep }) => afterStep
  )
  const after = (step: number) => compactions.get(step)?.map((entry) => compaction(entry, entry.index)) ?? []
  const calls = (step: number, parent: string | null) => [
    ...(approvals.get(step)?.map((entry) => approval(entry, parent)) ?? []),
    ...(tasks.get(step)?.map((entry) => task(entry, parent)) ?? [])
  ]
  const rows: Array<Row> = []
  if (view.queue !== null) {
    const { endedAt: to, position, startedAt: from } = view.queue
    const state = to === null ? `place ${position} in the line` : "waited"
    const tone = to === null ? "waiting" : "plain"
    rows.push({
      id: "queue",
      kind: "queue",
      level: 1,
      parent: null,
      label: "Queue of the session",
      state,
      tone,
      from,
      to
    })
  }
  // A plan that makes one call has no step.
  rows.push(...calls(0, null), ...after(0))
  for (const step of view.steps) {
    const id = `step-${step.step}`
    const children = [...attempts(step, id), ...calls(step.step, id)].sort((a, b) => a.from - b.from)
    const to = step.endedAt
    const [state, tone] = stepState(view, step)
    rows.push({
      id,
      kind: "step",
      level: 1,
      parent: null,
      label: `Step ${step.step}`,
      state,
      tone,
      from: step.startedAt,
      to
    })
    rows.push(...children, ...after(step.step))
  }
  return rows
}

/** The rows that are shown while some are closed. */
export const openRows = (rows: ReadonlyArray<Row>, closed: ReadonlySet<string>): ReadonlyArray<Row> =>
  closed.size === 0 ? rows : rows.filter(({ parent }) => parent === null || !closed.has(parent))
