import { type ApprovalView, type Frame, noUsage, type OutcomeView, type PlanView, type TaskView } from "./PlanView.ts"
import { always, closeLastAttempt, closeLastStep, newAttempt, replaceLast, textOf, withAttempt } from "./StepView.ts"
import type { PlanFrame, Stage, Usage } from "./Wire.ts"

/** What a plan waits for that has these calls and approvals. */
const stageOfCalls = (tasks: ReadonlyArray<TaskView>, approvals: ReadonlyArray<ApprovalView>): Stage | null => {
  if (tasks.some(({ endedAt }) => endedAt === null)) return "tool"
  return approvals.some(({ endedAt }) => endedAt === null) ? "approval" : null
}

const withTask = (view: PlanView, taskId: string, replace: (task: TaskView) => TaskView): PlanView => {
  const tasks = replaceLast(view.tasks, (task) => task.taskId === taskId, replace)
  return tasks === view.tasks ? view : { ...view, tasks }
}

const addUsage = (a: Usage, b: Usage): Usage => ({
  input_tokens: a.input_tokens + b.input_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cached_input_tokens: a.cached_input_tokens + b.cached_input_tokens,
  reasoning_tokens: a.reasoning_tokens + b.reasoning_tokens
})

/** What a failed plan failed of is its last attempt. Unless it is open, only these codes say so, and only where it made no calls. */
const ofAttempt = /^(provider|context|output)_/

/** Ends all that is open: nothing of a plan is shown as running after its outcome. */
const end = (before: PlanView, at: number, outcome: OutcomeView): PlanView => {
  // The wait before the last attempt was not over: the attempt was never made.
  const made = replaceLast(before.steps, always, (last) => ({
    ...last,
    attempts: last.attempts.filter(({ startedAt, text, usage }) => startedAt <= at || text !== "" || usage !== null)
  }))
  const last = made.at(-1)
  const failure = outcome.state === "completed" ? undefined : outcome.error
  const isOpen = last?.attempts.at(-1)?.endedAt === null
  const isFailed =
    failure !== undefined &&
    failure.stage !== "compaction" &&
    ofAttempt.test(failure.code) &&
    !before.tasks.some(({ step }) => step === last?.step)
  const error = isOpen || isFailed ? failure : undefined
  const view = closeLastStep(closeLastAttempt({ ...before, steps: made }, at, error), at)
  return {
    ...view,
    tasks: view.tasks.map((task) => (task.endedAt === null ? { ...task, state: "interrupted", endedAt: at } : task)),
    approvals: view.approvals.map((approval) => (approval.endedAt === null ? { ...approval, endedAt: at } : approval)),
    queue: view.queue === null ? null : { ...view.queue, endedAt: view.queue.endedAt ?? at },
    state: outcome.state,
    stage: null,
    outcome,
    endedAt: at,
    text: outcome.state === "completed" ? outcome.final.text : view.text
  }
}

type Data<Event extends PlanFrame["event"]> = Extract<PlanFrame, { readonly event: Event }>["data"]

const addDelta = (view: PlanView, data: Data<"text.delta">, at: number, field: "text" | "reasoning"): PlanView => {
  const next = withAttempt(view, data, at, (attempt) => ({
    ...attempt,
    firstTokenAt: attempt.firstTokenAt ?? at,
    [field]: attempt[field] + data.delta
  }))
  const text = field === "text" && data.step === next.steps.at(-1)?.step ? view.text + data.delta : view.text
  return { ...next, stage: "provider", text }
}

const addRetry = (view: PlanView, data: Data<"retry">, at: number): PlanView => {
  const { attempt, credential, delay_ms: delayMs, error, model } = data
  const retry = { at, delayMs, error, credential, model }
  const closed = closeLastAttempt(view, at, error)
  const next = withAttempt(closed, data, at, () => newAttempt(attempt, at + delayMs, model, retry))
  return { ...next, model, stage: delayMs > 0 ? "backoff" : "provider", retries: view.retries + 1 }
}

const addRetract = (view: PlanView, data: Data<"text.retract">, at: number): PlanView => {
  const next = withAttempt(view, data, at, (attempt) => ({
    ...attempt,
    isRetracted: true,
    endedAt: attempt.endedAt ?? at
  }))
  const last = next.steps.at(-1)
  return last === undefined ? next : { ...next, text: textOf(last) }
}

const addUse = (view: PlanView, data: Data<"usage">, at: number): PlanView => {
  const { cached_input_tokens, input_tokens, output_tokens, reasoning_tokens } = data
  const usage = { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens }
  // A gateway of an earlier version says nothing of the cost.
  const costUsd = data.cost_usd ?? null
  const isFirst = view.usage === noUsage
  const counted = {
    ...view,
    usage: addUsage(view.usage, usage),
    costUsd: isFirst ? costUsd : view.costUsd === null || costUsd === null ? null : view.costUsd + costUsd
  }
  // Step 0 is a summary's.
  if (data.step === 0) return counted
  return withAttempt(counted, data, at, (attempt) => ({
    ...attempt,
    usage: attempt.usage === null ? usage : addUsage(attempt.usage, usage),
    costUsd:
      attempt.usage === null
        ? costUsd
        : attempt.costUsd === null || costUsd === null
          ? null
          : attempt.costUsd + costUsd,
    endedAt: attempt.endedAt ?? at
  }))
}

const addTask = (before: PlanView, data: Data<"task.started">, at: number): PlanView => {
  const view = closeLastAttempt(before, at)
  const task: TaskView = {
    taskId: data.task_id,
    step: view.steps.at(-1)?.step ?? 0,
    tool: data.tool,
    kind: data.kind,
    agent: data.agent,
    skill: data.skill,
    agentDid: data.agent_did,
    agentDidSource: data.agent_did_source,
    input: data.input,
    state: "running",
    startedAt: at,
    endedAt: null,
    durationMs: null,
    remoteTaskId: null,
    remoteContextId: null,
    error: null,
    progress: [],
    artifacts: []
  }
  return { ...view, stage: "tool", tasks: [...view.tasks, task] }
}

const addApproval = (before: PlanView, data: Data<"approval.requested">, at: number): PlanView => {
  const view = closeLastAttempt(before, at)
  const approval: ApprovalView = {
    taskId: data.task_id,
    step: view.steps.at(-1)?.step ?? 0,
    tool: data.tool,
    agent: "agent" in data && typeof data.agent === "string" ? data.agent : null,
    input: data.input,
    why: data.why,
    expiresAt: Date.parse(data.expires_at),
    startedAt: at,
    endedAt: null,
    decision: null,
    note: null,
    by: null
  }
  const approvals = [...view.approvals, approval]
  return { ...view, approvals, stage: stageOfCalls(view.tasks, approvals) }
}

const addDecision = (view: PlanView, data: Data<"approval.resolved">, at: number): PlanView => {
  const approvals = replaceLast(
    view.approvals,
    ({ taskId }) => taskId === data.task_id,
    (approval) => ({ ...approval, decision: data.decision, note: data.note ?? null, by: data.by, endedAt: at })
  )
  return { ...view, approvals, stage: stageOfCalls(view.tasks, approvals) }
}

const addEnd = (view: PlanView, data: Data<"task.finished">, at: number): PlanView => {
  const next = withTask(view, data.task_id, (task) => ({
    ...task,
    state: data.state,
    endedAt: at,
    durationMs: data.duration_ms,
    remoteTaskId: data.remote_task_id,
    remoteContextId: data.remote_context_id,
    error: data.error ?? null
  }))
  return { ...next, stage: stageOfCalls(next.tasks, next.approvals) }
}

const addArtifact = (view: PlanView, data: Data<"task.artifact">, at: number): PlanView => {
  const { content, media_type: mediaType, truncated, verified = null } = data
  const name = "name" in data && typeof data.name === "string" ? data.name : null
  const artifact = { at, content, mediaType, truncated, verified, name }
  return withTask(view, data.task_id, (task) => ({ ...task, artifacts: [...task.artifacts, artifact] }))
}

const addCompaction = (before: PlanView, data: Data<"compaction">, at: number): PlanView => {
  const view = closeLastAttempt(before, at)
  const {
    messages_compacted: messagesCompacted,
    summary,
    tokens_after: tokensAfter,
    tokens_before: tokensBefore
  } = data
  const afterStep = view.steps.at(-1)?.step ?? 0
  const compaction = { at, afterStep, summary, tokensBefore, tokensAfter, messagesCompacted }
  return { ...view, compactions: [...view.compactions, compaction] }
}

const addStep = (before: PlanView, { attempt, step }: Data<"step">, at: number): PlanView => {
  const view = closeLastStep(before, at)
  const next = { step, startedAt: at, endedAt: null, attempts: [newAttempt(attempt, at, view.model)] }
  return { ...view, stage: "provider", text: "", steps: [...view.steps, next] }
}

const add = (view: PlanView, { data, event }: PlanFrame, at: number): PlanView => {
  switch (event) {
    case "session":
      return { ...view, externalSessionId: data.external_session_id }
    case "queued":
      return {
        ...view,
        stage: "queue",
        queue: { startedAt: view.queue?.startedAt ?? at, endedAt: null, position: data.position }
      }
    case "plan":
      return {
        ...view,
        state: "running",
        stage: null,
        model: data.model,
        deadlineAt: Date.parse(data.deadline_at),
        queue: view.queue === null ? null : { ...view.queue, endedAt: at }
      }
    case "step":
      return addStep(view, data, at)
    case "text.delta":
      return addDelta(view, data, at, "text")
    case "reasoning.delta":
      return addDelta(view, data, at, "reasoning")
    case "retry":
      return addRetry(view, data, at)
    case "text.retract":
      return addRetract(view, data, at)
    case "usage":
      return addUse(view, data, at)
    case "task.started":
      return addTask(view, data, at)
    case "task.progress": {
      const entry = { at, state: data.state, message: data.message ?? null }
      return withTask(view, data.task_id, (task) => ({ ...task, progress: [...task.progress, entry] }))
    }
    case "task.artifact":
      return addArtifact(view, data, at)
    case "task.finished":
      return addEnd(view, data, at)
    case "approval.requested":
      return addApproval(view, data, at)
    case "approval.resolved":
      return addDecision(view, data, at)
    case "notice": {
      const notice = { at, code: data.code, message: data.message, data: data.data ?? null }
      return { ...view, notices: [...view.notices, notice] }
    }
    case "compaction":
      return addCompaction(view, data, at)
    case "final":
      return end(view, at, { state: "completed", final: data })
    case "error":
      return end(view, at, { state: data.code === "aborted" ? "aborted" : "failed", error: data })
    case "done":
      return { ...view, isDone: true, stage: null }
    default:
      return view
  }
}

/** Whether the frame is a plan's, so that its `event` says what its data has. The event may still be one of a later version. */
export const isPlanFrame = (frame: Frame): frame is PlanFrame => "plan_id" in frame.data

/**
 * Adds a frame to the view of its plan. Pure, and cheap for a delta. A frame that was added before, and an event that this version does not
 * know, change nothing.
 */
export const reduce = (view: PlanView, frame: Frame): PlanView => {
  if (frame.id <= view.lastId || !isPlanFrame(frame)) return view
  const { at: stored, plan_id: planId, session_id: sessionId } = frame.data
  const parsed = Date.parse(stored)
  const at = Number.isNaN(parsed) ? (view.lastAt ?? 0) : parsed
  // While the frame is added `lastAt` is still that of the frame before.
  const next = add(view, frame, at)
  if (next === view) return view
  return { ...next, planId, sessionId, lastId: frame.id, lastAt: at, startedAt: view.startedAt ?? at }
}
