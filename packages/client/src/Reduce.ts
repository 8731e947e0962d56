import {
  type ApprovalView,
  type AttemptView,
  type EntryView,
  type Frame,
  noUsage,
  type OutcomeView,
  type PlanView,
  type TaskView
} from "./PlanView.ts"
import {
  append,
  close,
  closeLastAttempt,
  closeLastStep,
  newAttempt,
  replaceLast,
  textOf,
  withAttempt
} from "./StepView.ts"
import type { PlanFrame, Usage } from "./Wire.ts"

const isOpen = ({ endedAt }: { readonly endedAt: number | null }): boolean => endedAt === null

/** The view of a plan that waits for its calls and approvals, if any is open. */
const staged = (view: PlanView): PlanView => {
  const stage = view.tasks.some(isOpen) ? "tool" : view.approvals.some(isOpen) ? "approval" : null
  return stage === view.stage ? view : { ...view, stage }
}

const withTask = (view: PlanView, id: string, replace: (task: TaskView) => TaskView): PlanView =>
  replaceLast(view, "tasks", replace, ({ taskId }) => taskId === id)

const withEntry = (view: PlanView, id: string, change: Partial<EntryView>): PlanView =>
  replaceLast(
    view,
    "entries",
    (entry) => ({ ...entry, ...change }),
    ({ entryId }) => entryId === id
  )

const addUsage = (a: Usage, b: Usage): Usage => {
  const sum: { -readonly [Count in keyof Usage]: number } = { ...a }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  for (const count in sum) sum[count as keyof Usage] += b[count as keyof Usage]
  return sum
}

interface Used {
  readonly usage: Usage | null
  readonly costUsd: number | null
}

/** A sum in which one price is unknown is unknown. A gateway of an earlier version says nothing of the cost. */
const addUse = ({ costUsd, usage }: Used, data: Data["usage"]) => {
  const cost = data.cost_usd ?? null
  const isFirst = usage === null || usage === noUsage
  return {
    usage: addUsage(usage ?? noUsage, data),
    costUsd: isFirst ? cost : costUsd === null || cost === null ? null : costUsd + cost
  }
}

/** What a failed plan failed of is its last attempt. Unless it is open, only these codes say so, and only where it made no calls. */
const ofAttempt = /^(provider|context|output)_/

/** Ends all that is open: nothing of a plan is shown as running after its outcome. */
const end = (before: PlanView, outcome: OutcomeView, at: number): PlanView => {
  // The wait before the last attempt was not over: the attempt was never made.
  const isMade = ({ startedAt, text, usage }: AttemptView): boolean => startedAt <= at || text !== "" || usage !== null
  const made = replaceLast(before, "steps", (step) => ({ ...step, attempts: step.attempts.filter(isMade) }))
  const last = made.steps.at(-1)
  const failure = "error" in outcome ? outcome.error : undefined
  const isOfAttempt =
    failure !== undefined &&
    (last?.attempts.at(-1)?.endedAt === null ||
      (failure.stage !== "compaction" &&
        ofAttempt.test(failure.code) &&
        !before.tasks.some(({ step }) => step === last?.step)))
  const view = closeLastStep(closeLastAttempt(made, at, isOfAttempt ? failure : undefined), at)
  return {
    ...view,
    tasks: view.tasks.map((task) => (task.endedAt === null ? { ...task, state: "interrupted", endedAt: at } : task)),
    approvals: view.approvals.map((approval) => close(approval, at)),
    queue: view.queue && close(view.queue, at),
    state: outcome.state,
    stage: null,
    outcome,
    endedAt: at,
    text: "final" in outcome ? outcome.final.text : view.text
  }
}

type Data = { readonly [Event in PlanFrame["event"]]: Extract<PlanFrame, { readonly event: Event }>["data"] }

const addDelta =
  (field: "text" | "reasoning") =>
  (view: PlanView, data: Data["text.delta"], at: number): PlanView => {
    const next = withAttempt(view, data, at, (attempt) => ({
      ...attempt,
      firstTokenAt: attempt.firstTokenAt ?? at,
      [field]: attempt[field] + data.delta
    }))
    const text = field === "text" && data.step === next.steps.at(-1)?.step ? view.text + data.delta : view.text
    return { ...next, stage: "provider", text }
  }

/** What a call and its approval begin with. */
const begin = (view: PlanView, { input, task_id, tool }: Data["approval.requested" | "task.started"], at: number) => ({
  taskId: task_id,
  step: view.steps.at(-1)?.step ?? 0,
  tool,
  input,
  startedAt: at,
  endedAt: null
})

type Events = { readonly [Event in keyof Data]: (view: PlanView, data: Data[Event], at: number) => PlanView }

/** What each event adds to the view of its plan. */
const events: Events = {
  session: (view, data) => ({ ...view, externalSessionId: data.external_session_id }),
  queued: (view, { position }, at) => ({
    ...view,
    stage: "queue",
    queue: { startedAt: view.queue?.startedAt ?? at, endedAt: null, position }
  }),
  plan: (view, data, at) => ({
    ...view,
    state: "running",
    stage: null,
    model: data.model,
    deadlineAt: Date.parse(data.deadline_at),
    queue: view.queue && close(view.queue, at)
  }),
  parked: (view) => ({ ...view, state: "waiting", deadlineAt: null }),
  woken: (view, { deadline_at }) => ({ ...view, state: "running", deadlineAt: Date.parse(deadline_at) }),
  step: (before, { attempt, step }, at) => {
    const view = closeLastStep(before, at)
    const next = { step, startedAt: at, endedAt: null, attempts: [newAttempt(attempt, at, view.model)] }
    return { ...append(view, "steps", next), stage: "provider", text: "" }
  },
  "text.delta": addDelta("text"),
  "reasoning.delta": addDelta("reasoning"),
  retry: (view, data, at) => {
    const { attempt, credential, delay_ms: delayMs, error, model } = data
    const retry = { at, delayMs, error, credential, model }
    const closed = closeLastAttempt(view, at, error)
    const next = withAttempt(closed, data, at, () => newAttempt(attempt, at + delayMs, model, retry))
    return { ...next, model, stage: delayMs > 0 ? "backoff" : "provider", retries: view.retries + 1 }
  },
  "text.retract": (view, data, at) => {
    const next = withAttempt(view, data, at, (attempt) => ({ ...close(attempt, at), isRetracted: true }))
    const last = next.steps.at(-1)
    return last === undefined ? next : { ...next, text: textOf(last) }
  },
  usage: (view, data, at) => {
    const counted = { ...view, ...addUse(view, data) }
    // Step 0 is a summary's.
    if (data.step === 0) return counted
    return withAttempt(counted, data, at, (attempt) => ({ ...close(attempt, at), ...addUse(attempt, data) }))
  },
  "task.started": (before, data, at) => {
    const view = closeLastAttempt(before, at)
    const task: TaskView = {
      ...begin(view, data, at),
      kind: data.kind,
      agent: data.agent,
      skill: data.skill,
      agentDid: data.agent_did,
      agentDidSource: data.agent_did_source,
      state: "running",
      durationMs: null,
      remoteTaskId: null,
      remoteContextId: null,
      error: null,
      progress: [],
      artifacts: []
    }
    return append({ ...view, stage: "tool" as const }, "tasks", task)
  },
  "task.progress": (view, data, at) => {
    const entry = { at, state: data.state, message: data.message ?? null }
    return withTask(view, data.task_id, (task) => append(task, "progress", entry))
  },
  "task.artifact": (view, data, at) => {
    const { content, media_type: mediaType, name = null, truncated, verified = null } = data
    const artifact = { at, content, mediaType, truncated, verified, name }
    return withTask(view, data.task_id, (task) => append(task, "artifacts", artifact))
  },
  "task.finished": (view, data, at) => {
    const next = withTask(view, data.task_id, (task) => ({
      ...task,
      state: data.state,
      endedAt: at,
      durationMs: data.duration_ms,
      remoteTaskId: data.remote_task_id,
      remoteContextId: data.remote_context_id,
      error: data.error ?? null,
      repeatOf: data.repeat_of
    }))
    return staged(next)
  },
  "approval.requested": (before, data, at) => {
    const view = closeLastAttempt(before, at)
    const approval: ApprovalView = {
      ...begin(view, data, at),
      // A gateway of an earlier version does not say it.
      agent: data.agent ?? null,
      why: data.why,
      data: data.data,
      expiresAt: Date.parse(data.expires_at),
      decision: null,
      note: null,
      by: null
    }
    return staged(append(view, "approvals", approval))
  },
  "approval.resolved": (view, { by, decision, note = null, task_id }, at) => {
    const replace = (approval: ApprovalView): ApprovalView => ({ ...approval, decision, note, by, endedAt: at })
    return staged(replaceLast(view, "approvals", replace, ({ taskId }) => taskId === task_id))
  },
  "inbox.accepted": (view, { by, entry_id: entryId, text }, at) =>
    append(view, "entries", { entryId, by, text, at, state: "accepted", step: null, movedTo: null }),
  "inbox.taken": (view, { entry_id, step }) => withEntry(view, entry_id, { state: "taken", step }),
  "inbox.moved": (view, { entry_id, moved_to: movedTo }) =>
    withEntry(view, entry_id, { state: movedTo === null ? "withdrawn" : "moved", movedTo }),
  waiting: (view) => ({ ...view, stage: "client" }),
  notice: (view, { code, data = null, message }, at) => append(view, "notices", { at, code, message, data }),
  compaction: (before, data, at) => {
    const view = closeLastAttempt(before, at)
    const compaction = {
      at,
      afterStep: view.steps.at(-1)?.step ?? 0,
      summary: data.summary,
      tokensBefore: data.tokens_before,
      tokensAfter: data.tokens_after,
      messagesCompacted: data.messages_compacted
    }
    return append(view, "compactions", compaction)
  },
  final: (view, final, at) => end(view, { state: "completed", final }, at),
  error: (view, error, at) => end(view, { state: error.code === "aborted" ? "aborted" : "failed", error }, at),
  done: (view) => ({ ...view, isDone: true, stage: null })
}

const add = <Event extends keyof Data>(
  view: PlanView,
  { data, event }: { readonly event: Event; readonly data: Data[Event] },
  at: number
): PlanView => (Object.hasOwn(events, event) ? events[event](view, data, at) : view)

/** Whether the frame is a plan's, so that its `event` says what its data has. The event may still be one of a later version. */
export const isPlanFrame = (frame: Frame): frame is PlanFrame => "plan_id" in frame.data

/**
 * Adds a frame to the view of its plan. Pure, and cheap for a delta. A frame that was added before, and an event that this version does not
 * know, change nothing.
 */
export const reduce = (view: PlanView, frame: Frame): PlanView => {
  if (frame.id <= view.lastId || !isPlanFrame(frame)) return view
  const { at: stored, plan_id: planId, session_id: sessionId } = frame.data
  const at = Date.parse(stored) || (view.lastAt ?? 0)
  // While the frame is added `lastAt` is still that of the frame before.
  const next = add(view, frame, at)
  if (next === view) return view
  return { ...next, planId, sessionId, lastId: frame.id, lastAt: at, startedAt: view.startedAt ?? at }
}
