import { Struct } from "effect"
import type { Final } from "@bowline/domain/plan/Outcome"
import type { PlanFacts } from "@bowline/domain/plan/Plan"
import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import { handedBack, type TaskId, type TaskState } from "@bowline/domain/tool/TaskState"
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
  "task.progress",
  "task.artifact",
  "task.finished",
  "waiting",
  "approval.requested",
  "approval.resolved",
  "final",
  "error"
])

type PeerArtifact = Extract<PlanEvent, { readonly event: "task.artifact" }>["data"]
type Approval = Extract<PlanEvent, { readonly event: "approval.requested" }>["data"]

type Waiting = Extract<PlanEvent, { readonly event: "waiting" }>["data"]

/** What a call asks of the client: the result of a tool that the client runs, or an answer. */
export interface Asked extends Waiting {
  readonly kind: "result" | "answer"
  readonly task_id: TaskId
}

/** By what a question is known again: a call may ask more than once. */
export const keyOf = ({ kind, round, task_id }: Asked): string => `${kind} ${task_id} ${round}`

const isAsked = (wait: Waiting): wait is Asked =>
  wait.task_id !== null && (wait.kind === "result" || wait.kind === "answer")

/** What the client may see of what a plan names. */
export interface Shown {
  /** The file of an artifact, if it can be shown. */
  readonly fileOf: (artifact: PeerArtifact) => (Part & { readonly _tag: "File" }) | undefined
  /** The link by which a person connects an account, as it is good now; undefined where it is not shown. */
  readonly linkOf: (url: string) => string | undefined
}

const shownAsTold: Shown = { fileOf: () => undefined, linkOf: (url) => url }

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

const askedText = ({ kind, message, tool, url }: Waiting): string => {
  if (kind === "result" || message === undefined) return `The call of ${tool} waits for its ${kind}`
  return kind === "account" && url !== undefined ? `${message}: ${url}` : message
}

const askedParts = (asks: ReadonlyArray<Waiting>): ReadonlyArray<Part> => [
  ...asks.map((asked): Part => ({ _tag: "Text", text: askedText(asked) })),
  ...asks.map((asked): Part => ({ _tag: "Data", data: { ...Struct.omit(asked, ["agent"]) } }))
]

/**
 * A task, made from the frames of its plans, in their order. For each plan: `begin`, then `next` with its frames, and `end` when `hasEnded`.
 * The same frames give the same updates, whoever reads them, and from wherever.
 *
 *   begin ──▶ submitted ──▶ working ◀──▶ input-required (an approval, a result, an answer), auth-required (an account)
 *                 │             │
 *                 └──── end ────┴──▶ completed, failed, canceled, rejected, input-required, auth-required ──begin──▶ …
 */
export class TaskFold {
  readonly #id: string
  readonly #contextId: string
  readonly #shownOf: Shown
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
  /** The calls that have not ended. */
  readonly #running = new Set<string>()
  /** What they ask of the client, the oldest first. */
  #asks: ReadonlyArray<Asked> = []
  /** The accounts that are missing: nothing that the client says ends these waits. */
  #accounts: ReadonlyArray<Waiting> = []
  /** What the status says that the task waits for. */
  #shown = ""
  #hasEnded = false
  /** How many messages the plan has said. */
  #said = 0

  constructor(id: string, contextId: string, first: TaskPlan, shown: Shown = shownAsTold) {
    this.#shownOf = shown
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
    this.#stopWaiting()
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

  /** What calls ask of the client, the oldest first. */
  get asks(): ReadonlyArray<Asked> {
    return this.#asks
  }

  /** The client has decided about this call, or answered this question: the task no longer waits for it, although its plan may not know yet. */
  decide(key: string): void {
    this.#decided.add(key)
    this.#asks = this.#asks.filter((asked) => keyOf(asked) !== key)
    this.#resolve(key)
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

  /** Whether the task waits for an account alone: it continues by itself when that is there. */
  get isAuthorizing(): boolean {
    return this.standing === "auth-required" && !this.#hasEnded
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
        // The account of a server is awaited in front of the first one.
        this.#accounts = this.#accounts.filter(({ task_id }) => task_id !== null)
        return this.#become("working", `step ${event.data.step}`)
      case "text.delta":
        return this.#answer.add(event.data)
      case "text.retract":
        return this.#answer.retract(event.data)
      case "task.started": {
        const { agent, skill, task_id, tool } = event.data
        const name = agent === null || skill === null ? tool : `${agent}.${skill}`
        this.#calls.set(task_id, { name, tool })
        this.#running.add(task_id)
        this.#open.delete(name)
        return this.#become("working", `calling ${name}`)
      }
      case "waiting":
        if (event.data.kind === "account") return this.#miss(event.data)
        if (!isAsked(event.data)) return []
        // What the call asked before has its answer.
        this.#goOn(event.data.task_id)
        if (this.#decided.has(keyOf(event.data))) return this.isWaiting ? this.#become("working") : []
        this.#asks = [...this.#asks, event.data]
        return this.#mustWait ? this.#wait() : []
      case "task.progress":
        return this.#goOn(event.data.task_id) ? this.#become("working") : []
      case "task.artifact":
        this.#goOn(event.data.task_id)
        return this.#addArtifact(event.data, seq)
      case "task.finished": {
        const { state, task_id } = event.data
        this.#goOn(task_id)
        this.#running.delete(task_id)
        const name = this.#calls.get(task_id)?.name ?? task_id
        if (handedBack.has(state)) this.#open.set(name, state)
        return this.#become("working", `${name}: ${state}`)
      }
      case "approval.requested":
        if (!this.#decided.has(event.data.task_id)) this.#approvals.push(event.data)
        return this.#mustWait ? this.#wait() : []
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
    const { stage, state } = this.#plan
    if (state !== "running" && state !== "waiting") return []
    // Something of it runs: what was asked has its answer.
    if (stage !== "client") {
      this.#asks = []
      this.#accounts = []
    }
    return this.#become("working")
  }

  /** The end of the plan as it is stored, or, if another plan `continues` the task, the end of its answer alone. */
  end(plan: PlanFacts, continues: boolean): ReadonlyArray<ServedUpdate> {
    this.#plan = plan
    const { error, final, finished_at } = plan
    const open = Array.from(this.#open.values()).at(-1) ?? null
    const updates = final === null ? [] : this.#answer.end(final)
    const standing = standingOf(plan, open, null)
    this.#stopWaiting()
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
    return first === task_id || this.isWaiting ? this.#become("working") : []
  }

  /** The call runs. Says whether it has waited for the client. */
  #goOn(task_id: string): boolean {
    const before = this.#asks.length + this.#accounts.length
    this.#asks = this.#asks.filter((asked) => asked.task_id !== task_id)
    this.#accounts = this.#accounts.filter((wait) => wait.task_id !== task_id)
    return this.#asks.length + this.#accounts.length < before
  }

  #miss({ url, ...wait }: Waiting): ReadonlyArray<ServedUpdate> {
    const link = url === undefined ? undefined : this.#shownOf.linkOf(url)
    const others = this.#accounts.filter(({ agent, task_id }) => task_id !== wait.task_id || agent !== wait.agent)
    this.#accounts = [...others, { ...wait, ...(link !== undefined && { url: link }) }]
    return this.#mustWait ? this.#wait() : []
  }

  #stopWaiting(): void {
    this.#approvals = []
    this.#asks = []
    this.#accounts = []
    this.#running.clear()
    this.#shown = ""
  }

  /** Whether nothing goes on without the client. Calls beside one that waits for an approval change nothing. */
  get #mustWait(): boolean {
    if (this.#approvals.length > 0) return true
    const waits = [...this.#asks, ...this.#accounts]
    const asking = new Set<string | null>(waits.map(({ task_id }) => task_id))
    return waits.length > 0 && Array.from(this.#running).every((task) => asking.has(task))
  }

  /** Asks for one decision after the other, else for all that calls ask. */
  #wait(): ReadonlyArray<ServedUpdate> {
    const [approval] = this.#approvals
    const accounts = this.#accounts.map(({ expires_at, task_id }) => `account ${task_id} ${expires_at}`)
    const shown = approval?.task_id ?? [...this.#asks.map(keyOf), ...accounts].join()
    if (shown === this.#shown && this.isWaiting) return []
    this.#shown = shown
    if (approval !== undefined) return this.#become("input-required", approvalParts(approval))
    const standing = this.#asks.length === 0 ? "auth-required" : "input-required"
    return this.#become(standing, askedParts([...this.#asks, ...this.#accounts]))
  }

  #become(standing: Standing, said?: string | ReadonlyArray<Part>, timestamp?: string): ReadonlyArray<ServedUpdate> {
    if (standing === "working" && this.#mustWait) return this.#wait()
    const before = this.#status.standing
    this.#status = {
      standing,
      ...(said !== undefined && { message: this.#say(typeof said === "string" ? text(said) : said) }),
      ...(timestamp !== undefined && { timestamp })
    }
    const isFinal = (this.isWaiting && !this.isAuthorizing) || isOver(standing)
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

  #addArtifact(data: PeerArtifact, seq: number): ReadonlyArray<ServedUpdate> {
    const { content, media_type, task_id, verified } = data
    const file = this.#shownOf.fileOf(data)
    if (verified === "no" || verified === "unsigned") return []
    const artifact: ServedArtifact = {
      artifactId: `${task_id}-${seq}`,
      name: this.#calls.get(task_id)?.tool ?? task_id,
      parts: file === undefined ? partsOf(content, media_type) : [file],
      metadata: { bowline: { task_id } }
    }
    this.#artifacts.set(artifact.artifactId, artifact)
    return [{ _tag: "Artifact", artifact, append: false, lastChunk: true }]
  }
}
