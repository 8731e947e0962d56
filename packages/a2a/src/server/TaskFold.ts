import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanFacts } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { handedBack, type TaskState } from "@bowline/domain/tool/TaskState"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import { isOver, type Standing, standingOf, type TaskPlan } from "@bowline/runtime/unstable/store/TaskStore"
import type { Part } from "../task/Task.ts"
import { AnswerText } from "./AnswerText.ts"
import { partsOf } from "./PeerArtifact.ts"
import type { Metadata, ServedArtifact, ServedMessage, ServedStatus, ServedTask, ServedUpdate } from "./ServedTask.ts"

/** The frames that change what a client sees. Nothing of the others is parsed. */
const matters: ReadonlySet<PlanEvent["event"]> = new Set<PlanEvent["event"]>([
  "queued",
  "plan",
  "step",
  "text.delta",
  "text.retract",
  "task.started",
  "task.artifact",
  "task.finished",
  "approval.requested",
  "approval.resolved",
  "final",
  "error"
])

type PeerArtifact = Extract<PlanEvent, { readonly event: "task.artifact" }>["data"]
type Approval = Extract<PlanEvent, { readonly event: "approval.requested" }>["data"]

const text = (text: string): ReadonlyArray<Part> => [{ _tag: "Text", text }]

/** What a client may know of a plan besides its answer. */
const bowlineOf = ({ error, final, plan_id, usage }: PlanFacts): Metadata => ({
  bowline: {
    plan_id,
    ...(error !== null && { code: error.code, retryable: error.retryable }),
    ...(error?.reason !== undefined && { reason: error.reason }),
    ...(final !== null && { stop_reason: final.stop_reason }),
    usage: { ...usage }
  }
})

const approvalParts = ({ expires_at, input, task_id, tool }: Approval): ReadonlyArray<Part> => [
  { _tag: "Text", text: `The call of ${tool} needs an approval` },
  { _tag: "Data", data: { kind: "approval", task_id, tool, input, expires_at } }
]

/**
 * A task, made from the frames of its plans, in their order. For each plan: `begin`, then `next` with its frames, and `end` when `hasEnded`.
 * The same frames give the same updates, whoever reads them, and from wherever.
 *
 *   begin ──▶ submitted ──▶ working ◀──▶ input-required (an approval)
 *                 │             │
 *                 └──── end ────┴──▶ completed, failed, canceled, rejected, input-required, auth-required ──begin──▶ …
 */
export class TaskFold {
  readonly #id: string
  readonly #contextId: string
  #plan: PlanFacts
  #status: ServedStatus = { standing: "submitted" }
  readonly #history: Array<ServedMessage> = []
  readonly #artifacts = new Map<string, ServedArtifact>()
  readonly #answer = new AnswerText()
  /** The calls by their ids: what is called, and the name of the tool. */
  #calls = new Map<string, { readonly name: string; readonly tool: string }>()
  /** The newest end of each tool whose call a peer has handed back. */
  #open = new Map<string, TaskState>()
  #approvals: Array<Approval> = []
  readonly #decided = new Set<string>()
  #hasEnded = false
  /** How many messages the plan has said. */
  #said = 0

  constructor(id: string, contextId: string, first: TaskPlan) {
    this.#id = id
    this.#contextId = contextId
    this.#plan = first.plan
  }

  /** A plan of the task, before its frames. */
  begin({ message, plan }: TaskPlan): ReadonlyArray<ServedUpdate> {
    const { message: said } = this.#status
    if (said !== undefined && this.isWaiting) this.#history.push(said)
    this.#plan = plan
    this.#answer.restart()
    this.#calls = new Map()
    this.#open = new Map()
    this.#approvals = []
    this.#hasEnded = false
    this.#said = 0
    this.#history.push({
      messageId: message?.message_id ?? `${plan.plan_id}-question`,
      role: "user",
      parts: text(plan.question),
      ...(message !== null && { metadata: message.metadata })
    })
    return this.#become("submitted", undefined, plan.created_at)
  }

  /** The calls that wait for a decision, the oldest first. */
  get approvals(): ReadonlyArray<string> {
    return this.#approvals.map(({ task_id }) => task_id)
  }

  /** The client has decided about this call: the task no longer waits for it, although its plan may not know yet. */
  decide(task_id: string): void {
    this.#decided.add(task_id)
    this.#resolve(task_id)
  }

  /** Whether the plan has told its end: `end` follows. */
  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get standing(): Standing {
    return this.#status.standing
  }

  /** Whether the task waits for its client. */
  get isWaiting(): boolean {
    return this.standing === "input-required" || this.standing === "auth-required"
  }

  get task(): ServedTask {
    const answer = this.#answer.artifact
    return {
      id: this.#id,
      contextId: this.#contextId,
      status: this.#status,
      artifacts: [...this.#artifacts.values(), ...(answer === undefined ? [] : [answer])],
      history: this.#history,
      metadata: bowlineOf(this.#plan)
    }
  }

  next(frame: PlanFrame): ReadonlyArray<ServedUpdate> {
    return matters.has(frame.event) ? this.tell(toEvent(frame), frame.seq) : []
  }

  /** The same with what a frame tells. */
  tell(event: PlanEvent, seq: number): ReadonlyArray<ServedUpdate> {
    switch (event.event) {
      case "queued":
        return this.#become("submitted", `waiting for its session, at place ${event.data.position}`)
      case "plan":
        return this.#become("working")
      case "step":
        return this.#become("working", `step ${event.data.step}`)
      case "text.delta":
        return this.#answer.add(event.data)
      case "text.retract":
        return this.#answer.retract(event.data)
      case "task.started": {
        const { agent, skill, task_id, tool } = event.data
        const name = agent === null || skill === null ? tool : `${agent}.${skill}`
        this.#calls.set(task_id, { name, tool })
        this.#open.delete(name)
        return this.#become("working", `calling ${name}`)
      }
      case "task.artifact":
        return this.#addArtifact(event.data, seq)
      case "task.finished": {
        const { state, task_id } = event.data
        const name = this.#calls.get(task_id)?.name ?? task_id
        if (handedBack.has(state)) this.#open.set(name, state)
        return this.#become("working", `${name}: ${state}`)
      }
      case "approval.requested":
        if (!this.#decided.has(event.data.task_id)) this.#approvals.push(event.data)
        return this.#approvals.length === 1 ? this.#wait() : []
      case "approval.resolved":
        return this.#resolve(event.data.task_id)
      case "final":
      case "error":
        this.#hasEnded = true
        return []
      default:
        return []
    }
  }

  /** The plan has come further than it has told. */
  stand(): ReadonlyArray<ServedUpdate> {
    const { state } = this.#plan
    return (state === "running" || state === "waiting") && !this.isWaiting ? this.#become("working") : []
  }

  /** The end of the plan as it is stored, or, if another plan `continues` the task, the end of its answer alone. */
  end(plan: PlanFacts, continues: boolean): ReadonlyArray<ServedUpdate> {
    this.#plan = plan
    const { error, final, finished_at } = plan
    const open = Array.from(this.#open.values()).at(-1) ?? null
    const updates = final === null ? [] : this.#answer.end(final)
    const standing = standingOf(plan, open, null)
    this.#approvals = []
    const why = error?.message ?? this.#whyCompleted(final, standing)
    const ended = this.#become(standing, why, finished_at ?? undefined)
    return continues ? updates : [...updates, ...ended]
  }

  /** The client has cancelled the task that waited for it, at this time. */
  cancel(cancelled_at: string): ReadonlyArray<ServedUpdate> {
    return this.#become("canceled", "The task was cancelled while it waited", cancelled_at)
  }

  #whyCompleted(final: Final | null, standing: Standing): string | undefined {
    if (standing !== "completed") return final?.text === "" ? `a peer waits: ${standing}` : final?.text
    return final === null || final.stop_reason === "stop" ? undefined : `It stopped: ${final.stop_reason}`
  }

  #resolve(task_id: string): ReadonlyArray<ServedUpdate> {
    const first = this.#approvals[0]?.task_id
    this.#approvals = this.#approvals.filter((approval) => approval.task_id !== task_id)
    if (first !== task_id) return []
    return this.#approvals.length > 0 ? this.#wait() : this.#become("working")
  }

  #wait(): ReadonlyArray<ServedUpdate> {
    const [approval] = this.#approvals
    return approval === undefined ? [] : this.#become("input-required", approvalParts(approval))
  }

  #become(standing: Standing, said?: string | ReadonlyArray<Part>, timestamp?: string): ReadonlyArray<ServedUpdate> {
    // A call that goes on beside one that waits for an approval changes nothing.
    if (this.#approvals.length > 0 && standing === "working") return []
    const before = this.#status.standing
    this.#status = {
      standing,
      ...(said !== undefined && { message: this.#say(typeof said === "string" ? text(said) : said) }),
      ...(timestamp !== undefined && { timestamp })
    }
    const isFinal = this.isWaiting || isOver(standing)
    return [
      {
        _tag: "Status",
        status: this.#status,
        metadata: isFinal ? bowlineOf(this.#plan) : { bowline: { plan_id: this.#plan.plan_id } },
        weight: isFinal ? "final" : standing === before ? "progress" : "change"
      }
    ]
  }

  /** What the gateway says has the same id for whoever reads it. */
  #say(parts: ReadonlyArray<Part>): ServedMessage {
    return { messageId: `${this.#plan.plan_id}-${++this.#said}`, role: "agent", parts }
  }

  #addArtifact({ content, media_type, task_id, verified }: PeerArtifact, seq: number): ReadonlyArray<ServedUpdate> {
    if (verified === "no" || verified === "unsigned") return []
    const artifact: ServedArtifact = {
      artifactId: `${task_id}-${seq}`,
      name: this.#calls.get(task_id)?.tool ?? task_id,
      parts: partsOf(content, media_type),
      metadata: { bowline: { task_id } }
    }
    this.#artifacts.set(artifact.artifactId, artifact)
    return [{ _tag: "Artifact", artifact, append: false, lastChunk: true }]
  }
}
