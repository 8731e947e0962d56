import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { type FileReference, MessageId, type Message, type MessagePart } from "@bowline/domain/session/Message"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { TaskId, TaskState, ToolKind } from "@bowline/domain/tool/TaskState"
import { notMade, unknownEffect } from "../provider/LegalHistory.ts"
import type { PlanChange, StoredTask } from "../store/PlanStore.ts"
import type { Journal } from "../stream/Journal.ts"
import type { MeasureCall } from "../telemetry/PlanMetrics.ts"

/** A call that was started or refused. The record stays when the call has ended. */
export interface PlanTask {
  readonly tool: string
  readonly kind: ToolKind
  readonly agent: string | null
  readonly endpoint: string | null
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly isIdempotent: boolean
  /** It waits for an answer with which any process can go on. */
  readonly isPaused: boolean
  /** Another process started it, and no fiber of this one has resumed it yet. */
  readonly isInherited: boolean
  readonly remote_task_id: string | null
  readonly remote_context_id: string | null
  /** Whether its remote ids are stored: then the process that takes the plan over knows them. */
  readonly isKnown: () => boolean
}

/** How a task ended, for the store, the stream and the model. */
export interface TaskEnd {
  readonly state: TaskState
  readonly result: string
  readonly error?: { readonly code: string; readonly message: string }
  /** The earlier call whose result it has. */
  readonly repeat_of?: TaskId
  /** What it has given besides. */
  readonly references?: ReadonlyArray<FileReference>
}

/** What is stored and shown of a task when it starts. */
export type TaskStart = Omit<Extract<PlanChange, { readonly _tag: "TaskStarted" }>, "_tag" | "at">

/** Who the agent of a task is, as far as it is known when the task starts. */
export type TaskAgent = Pick<
  Extract<PlanEvent, { readonly event: "task.started" }>["data"],
  "agent_did" | "agent_did_source"
>

type MessageAppended = Extract<PlanChange, { readonly _tag: "MessageAppended" }>

/** A message of the history, as it is written. */
export const messageOf = (
  uuid: () => string,
  role: Message["role"],
  parts: ReadonlyArray<MessagePart>,
  now: number
): MessageAppended => ({
  _tag: "MessageAppended",
  message: { message_id: MessageId.make(`msg_${uuid()}`), role, parts },
  at: fromMillis(now)
})

/** What is stored and shown of calls that have ended. */
interface Finished {
  readonly changes: ReadonlyArray<PlanChange>
  readonly events: ReadonlyArray<PlanEvent>
}

interface Given {
  readonly journal: Journal
  readonly uuid: () => string
  /** Whether another process may have the plan by now. */
  readonly isOverdue: () => boolean
  readonly measureCall: MeasureCall
}

/**
 * The tool calls of a plan. Each change is journalled here, and nowhere else: so every task that starts ends once, and nothing is
 * told of a task that has ended.
 */
export class PlanTasks {
  readonly #journal: Journal
  readonly #uuid: () => string
  readonly #isOverdue: () => boolean
  readonly #measureCall: MeasureCall
  readonly #tasks = new Map<TaskId, PlanTask>()
  readonly #open = new Set<TaskId>()
  readonly #inherited = new Set<TaskId>()
  /** Calls that the history has no result for, started or not. */
  readonly #unanswered = new Set<TaskId>()
  readonly #abandoned: Array<PlanTask> = []

  constructor({ isOverdue, journal, measureCall, uuid }: Given) {
    this.#journal = journal
    this.#uuid = uuid
    this.#isOverdue = isOverdue
    this.#measureCall = measureCall
  }

  /** Takes over the tasks that another process started, and what the history owes: the plan may end before it comes to those that have not started. */
  inherit(tasks: ReadonlyArray<StoredTask>, unanswered: ReadonlyArray<TaskId>): void {
    // First: so they end in the same order in whichever process.
    this.expect(unanswered)
    for (const { task_id, started_at, state, ...task } of tasks) {
      const isInherited = state === "running"
      const isIdempotent = task.remote_task_id === null
      this.#tasks.set(task_id, {
        ...task,
        startedAt: Date.parse(started_at),
        isIdempotent,
        isPaused: false,
        isInherited,
        isKnown: () => true
      })
      if (!isInherited) continue
      this.#open.add(task_id)
      this.#inherited.add(task_id)
      this.#unanswered.add(task_id)
    }
  }

  get(task_id: TaskId): PlanTask | undefined {
    return this.#tasks.get(task_id)
  }

  /** The open tasks in the order in which they started. */
  get open(): ReadonlyArray<readonly [TaskId, PlanTask]> {
    return Array.from(this.#tasks).filter(([task_id]) => this.#open.has(task_id))
  }

  /** Whether a task of another process waits for a fiber that resumes it. */
  get hasInherited(): boolean {
    return this.#inherited.size > 0
  }

  /** What the peers call the tasks that have ended. */
  get remoteTasks(): ReadonlyMap<TaskId, string> {
    const remote = new Map<TaskId, string>()
    for (const [task_id, { remote_task_id }] of this.#tasks) {
      if (remote_task_id !== null && !this.#open.has(task_id)) remote.set(task_id, remote_task_id)
    }
    return remote
  }

  /** Tasks that have ended for the plan but may run on at their peers. They are cancelled once the plan's end is stored. */
  get abandoned(): ReadonlyArray<PlanTask> {
    return this.#abandoned
  }

  /** The model asked for these calls: from now on the history owes each of them a result. */
  expect(tasks: ReadonlyArray<TaskId>): void {
    for (const task_id of tasks) this.#unanswered.add(task_id)
  }

  /** What is `also` stored, is so with the intent. */
  start(task: TaskStart, isIdempotent: boolean, agent: TaskAgent, also: ReadonlyArray<PlanChange>, now: number): void {
    const { task_id, tool, kind, endpoint, skill, input } = task
    this.#open.add(task_id)
    this.#tasks.set(task_id, {
      tool,
      kind,
      agent: task.agent,
      endpoint,
      startedAt: now,
      isIdempotent,
      isPaused: false,
      isInherited: false,
      remote_task_id: null,
      remote_context_id: null,
      isKnown: () => false
    })
    const changes: ReadonlyArray<PlanChange> = [{ _tag: "TaskStarted", ...task, at: fromMillis(now) }, ...also]
    const data = { task_id, tool, kind, agent: task.agent, skill, input, ...agent }
    // An append may be written at once. What is refused is stored with its end, or not at all: nobody would end it behind a crash.
    if (task.state === "running") this.#journal.append(changes, [{ event: "task.started", data }])
    else this.#journal.defer(changes, [{ event: "task.started", data }])
  }

  /** The peer has named the task; nulls say that it has not received it. */
  accept(task_id: TaskId, remote: Pick<PlanTask, "remote_task_id" | "remote_context_id">): void {
    if (!this.#open.has(task_id)) return
    this.#journal.append([{ _tag: "TaskAccepted", task_id, ...remote }], [])
    this.#change(task_id, { ...remote, isKnown: this.#journal.mark() })
  }

  /** A fiber of this process looks after the task from now on. */
  resume(task_id: TaskId): void {
    this.#inherited.delete(task_id)
    this.#change(task_id, { isInherited: false })
  }

  /** The call waits for an answer with which any process can go on; or it does so no longer. */
  pause(task_id: TaskId, isPaused: boolean): void {
    this.#change(task_id, { isPaused })
  }

  /** Emits an event of an open task. Drops an event that a call emits after its task has ended, as an abandoned call may. */
  tell(event: Extract<PlanEvent, { readonly event: "task.progress" | "task.artifact" }>): void {
    if (this.#open.has(event.data.task_id)) this.#journal.emit(event)
  }

  /**
   * Answers a call in the history and, if it was started, ends its task. `taken` is what the call has used for that. The events of its result, `given`, are stored together with its
   * end: if the process dies, readers have seen both or neither.
   */
  finish(
    task_id: TaskId,
    end: TaskEnd,
    content: string,
    now: number,
    taken: ReadonlyArray<PlanChange> = [],
    given: ReadonlyArray<PlanEvent> = []
  ): void {
    const { changes, events } = this.#finished(task_id, end, content, now)
    this.#journal.append([...taken, ...changes], events.length > 0 ? [...given, ...events] : [])
  }

  /**
   * Gives every call that has no result the same end. Of one that has started nobody knows whether it had an effect. The caller appends
   * it with the plan's end: the next process would give a result again that was stored before it.
   */
  finishAll(end: TaskEnd, now: number): Finished {
    const all = Array.from(this.#unanswered, (task_id) =>
      this.#finished(task_id, end, this.#tasks.has(task_id) ? unknownEffect : notMade, now)
    )
    return { changes: all.flatMap(({ changes }) => changes), events: all.flatMap(({ events }) => events) }
  }

  #finished(task_id: TaskId, end: TaskEnd, content: string, now: number): Finished {
    this.#unanswered.delete(task_id)
    const { state, result, error, references = [], repeat_of } = end
    const answer = messageOf(this.#uuid, "tool", [{ type: "tool_result", task_id, state, content }, ...references], now)
    const task = this.#tasks.get(task_id)
    if (task === undefined || !this.#open.delete(task_id)) return { changes: [answer], events: [] }
    this.#inherited.delete(task_id)
    const { kind, remote_context_id, remote_task_id, startedAt } = task
    // Of an inherited task: permissions have changed, so that nobody continues it.
    const isCut = state === "interrupted" || state === "timed-out" || state === "rejected"
    if (isCut && (task.isInherited || this.#isOverdue())) this.#abandoned.push(task)
    // Somebody may have set the clock back, or the process that started it has another one.
    const duration_ms = Math.max(now - startedAt, 0)
    this.#measureCall(kind, state, duration_ms)
    const shown = {
      task_id,
      state,
      remote_task_id,
      remote_context_id,
      duration_ms,
      ...(repeat_of !== undefined && { repeat_of })
    }
    return {
      changes: [{ _tag: "TaskFinished", task_id, state, result, error: error ?? null, at: fromMillis(now) }, answer],
      events: [{ event: "task.finished", data: error === undefined ? shown : { ...shown, error } }]
    }
  }

  #change(task_id: TaskId, change: Partial<PlanTask>): void {
    const task = this.#tasks.get(task_id)
    if (task !== undefined) this.#tasks.set(task_id, { ...task, ...change })
  }
}
