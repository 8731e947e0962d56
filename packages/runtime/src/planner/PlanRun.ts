import type { AbortReason, Final, Stage } from "@bowline/domain/plan/Outcome"
import * as Usage from "@bowline/domain/plan/Usage"
import type { MessagePart, Message } from "@bowline/domain/session/Message"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { SessionId } from "@bowline/domain/session/Session"
import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Effect } from "effect"
import type { Preset } from "../config/Presets.ts"
import type { Subject } from "../asking/Retries.ts"
import { Looks } from "../record/BlockedRecord.ts"
import type { Journal, Stopped } from "../stream/Journal.ts"
import type { MeasureCall } from "../telemetry/PlanMetrics.ts"
import type { PlanStart } from "../store/PlanStart.ts"
import type { Charge, PlanChange, Progress } from "../store/PlanStore.ts"
import type { PlanInbox } from "./PlanInbox.ts"
import { messageOf, type PlanTask, PlanTasks } from "./PlanTasks.ts"
import type { Resumed } from "./Resumption.ts"
import { Stages } from "./Stages.ts"
import { StepState } from "./StepState.ts"

interface Given extends PlanStart {
  readonly preset: Preset
  readonly session_id: SessionId
  /** Its deadline, in milliseconds of this process's `Monotonic` clock. */
  readonly endsAt: number
  /** As `provider/model`: the one that is asked, and those that may take its place, in order. */
  readonly models: ReadonlyArray<string>
  /** How far another process has brought it, if one has. */
  readonly resumed: Resumed | undefined
  /** Whether the session had neither a history nor a summary when the plan got it. */
  readonly isEmpty: boolean
  /** Whether this process could not renew its lease in time: another process may have the session by now. */
  readonly isOverdue: () => boolean
  /** Whether another process could resume it. */
  readonly isKept: () => boolean
  readonly journal: Journal
  /** What is said to it. */
  readonly inbox: PlanInbox
  /** Runs a wait for a client whose answers end with it: meanwhile nobody has to read the plan. */
  readonly unread: <A, E>(wait: Effect.Effect<A, E>) => Effect.Effect<A, E>
  readonly uuid: () => string
  readonly measureCall: MeasureCall
}

/** The answer that ends a plan: what callers are told, and what the history keeps. */
export interface PlanAnswer {
  readonly final: Final
  readonly parts: ReadonlyArray<MessagePart>
}

/** What ends a plan from outside: an abort, a hand-over to the next process, or to whoever it waits for, or a journal that may not write any more. */
export type Ending =
  | { readonly _tag: "Aborted"; readonly reason: AbortReason }
  | { readonly _tag: "HandedOver" }
  | { readonly _tag: "Parked" }
  | { readonly _tag: "Stopped"; readonly why: Stopped }

/** What a plan was doing when it ended. */
export interface Snapshot {
  readonly stage: Stage | null
  /** The stage that the last failure came out of, if nothing was waited for since. */
  readonly failedIn: Stage | null | undefined
  readonly open: ReadonlyArray<readonly [TaskId, PlanTask]>
  /** Why the attempts of the step have failed. */
  readonly failures: ReadonlyArray<ProviderErrorReason>
  /** The credential of the last one of those. */
  readonly failedWith: string | undefined
  /** The text of an answer that has not ended. */
  readonly shownText: string
}

/**
 * What a plan in this process knows of itself. The plan's fiber writes it, and whoever ends the plan reads it: so an abort
 * can say what was running, and settle what is open, without waiting for the fiber's own finalizers.
 */
export class PlanRun {
  readonly given: Given
  readonly stages = new Stages()
  readonly tasks: PlanTasks
  readonly inbox: PlanInbox
  /** Requests to providers that are over, of this process. */
  inferences = 0
  /** The tools whose calls somebody has approved for the rest of the plan. */
  readonly approvedTools = new Set<string>()
  /** How often what waits for accounts has done so, by the ids of the waits. */
  readonly accountRounds = new Map<TaskId, number>()
  /** What closes the connections of its attempts. */
  readonly connections = new Set<() => void>()
  readonly #looks = new Looks((record) => this.given.journal.record(record))
  #elsewhere: "handed over" | "lost" | undefined
  #models: ReadonlyArray<string>
  #counts: Omit<Progress, "model">
  #step: StepState | undefined
  #day: string
  #knownCost: number
  #hasSpoken: boolean
  #ending: Ending | undefined
  #tell: (ending: Ending) => void = () => undefined
  #complete: (answer: PlanAnswer, mayGoOn: boolean) => Effect.Effect<boolean> = () => Effect.succeed(true)
  /** Whether what its end leaves in the history is written. */
  hasLeft = false

  constructor(given: Given) {
    const { cost_usd, journal, models, resumed, uuid, isOverdue, measureCall } = given
    this.given = given
    this.inbox = given.inbox
    this.#models = models
    this.#day = fromMillis(given.createdAt).slice(0, 10)
    this.tasks = new PlanTasks({ journal, uuid, isOverdue, measureCall })
    this.#hasSpoken = resumed !== undefined
    this.#knownCost = resumed?.knownCost ?? 0
    this.#counts = resumed?.progress ?? { steps: 0, tool_calls: 0, retries: 0, usage: Usage.empty, cost_usd }
    if (resumed === undefined) return
    for (const { decision, tool } of resumed.waits.values()) {
      if (decision?.entry.remember !== undefined) this.approvedTools.add(tool)
    }
    this.tasks.inherit(resumed.tasks, resumed.unanswered)
  }

  /** For how many milliseconds the plan has been there, over all its processes: 0 if somebody has set the clock back since then. */
  age(now: number): number {
    return Math.max(now - this.given.createdAt, 0)
  }

  /** The models that may still be asked, the one in use first. */
  get models(): ReadonlyArray<string> {
    return this.#models
  }

  get model(): string {
    return this.#models[0] ?? ""
  }

  /** Whom to ask for an answer in this stage. */
  subject(stage: Stage): Subject {
    const { endsAt, session_id: session } = this.given
    return { session, looks: this.#looks, models: this.#models, endsAt, stage }
  }

  /** Asks this model from now on: those in front of it have failed. */
  use(model: string): void {
    this.#models = this.#models.slice(this.#models.indexOf(model))
  }

  /** The step that runs, until its answer is in the history. */
  get step(): StepState | undefined {
    return this.#step
  }

  beginStep(): StepState {
    this.#step = new StepState()
    return this.#step
  }

  endStep(): void {
    this.#step = undefined
  }

  get progress(): Progress {
    return { ...this.#counts, model: this.model }
  }

  /** US dollars, without what has no price. */
  get knownCost(): number {
    return this.#knownCost
  }

  /** Charges this day with what the plan uses from now on. */
  chargeTo(now: number): void {
    this.#day = fromMillis(now).slice(0, 10)
  }

  /** Charges the caller, on the day that was named last. It is to be appended together with the event or the message that says what was used. */
  charged(charge: Partial<Charge>): PlanChange {
    const { cost_usd = 0, model = this.model, plans = 0, tool_calls = 0, usage = Usage.empty } = charge
    return { _tag: "Charged", day: this.#day, model, plans, tool_calls, usage, cost_usd }
  }

  count(change: Partial<Omit<Progress, "model">>): void {
    this.#counts = { ...this.#counts, ...change }
  }

  /** How far the plan has come, as it is stored. */
  progressed(stage: Stage | null): PlanChange {
    return { _tag: "Progressed", stage, progress: this.progress }
  }

  get stage(): Stage | null {
    const { current } = this.stages
    const { waitedIn = null } = this.given.resumed ?? {}
    // Until it waits for that here, it is where another process has left it.
    const isLeft = waitedIn !== null && this.#step === undefined && !this.stages.hasBeenIn(waitedIn)
    if (current === null && isLeft) return waitedIn
    return this.tasks.hasInherited ? "tool" : current
  }

  /** Another process has the plan now, or is to have it: it was handed over to that process, or this one has lost it. */
  get elsewhere(): "handed over" | "lost" | undefined {
    return this.#elsewhere
  }

  leave(why: "handed over" | "lost"): void {
    this.#elsewhere = why
  }

  abort(reason: AbortReason): void {
    this.#end({ _tag: "Aborted", reason })
  }

  /** The journal may not write any more. */
  stop(why: Stopped): void {
    this.#end({ _tag: "Stopped", why })
  }

  /** What ends the plan from outside, as soon as something does. The first one wins. */
  get ending(): Ending | undefined {
    return this.#ending
  }

  /** Calls `tell` once, as soon as something ends the plan from outside. */
  onEnding(tell: (ending: Ending) => void): void {
    if (this.#ending === undefined) this.#tell = tell
    else tell(this.#ending)
  }

  #end(ending: Ending): void {
    if (this.#ending !== undefined) return
    this.#ending = ending
    // Before anything else is done about it: many plans may end at this instant, and each takes its time.
    for (const close of this.connections) close()
    this.#tell(ending)
  }

  /** Whether the next process can resume the plan as it is now. */
  get isResumable(): boolean {
    const canGoOn = ({ isIdempotent, isPaused, remote_task_id }: PlanTask) =>
      isIdempotent || isPaused || remote_task_id !== null
    return this.given.isKept() && this.tasks.open.every(([, task]) => canGoOn(task))
  }

  /** Hands the plan over to the next process, if that can resume it; else aborts it. */
  end(reason: AbortReason): void {
    if (this.isResumable) this.#end({ _tag: "HandedOver" })
    else this.abort(reason)
  }

  /** The plan is parked: no process has it now. */
  park(): void {
    this.#elsewhere = "handed over"
    this.#end({ _tag: "Parked" })
  }

  /**
   * Whether the remote task of a call is not for this process to cancel: another process resumes it, or may have done so by now.
   * One that only this process knows of is.
   */
  isHandedOver(task_id: TaskId): boolean {
    const task = this.tasks.get(task_id)
    if (task === undefined) return false
    if (this.#elsewhere === "lost") return task.isIdempotent || task.isKnown()
    return this.#elsewhere === "handed over" || this.given.isOverdue()
  }

  /** How a plan completes: see `complete`. */
  onComplete(complete: PlanRun["complete"]): void {
    this.#complete = complete
  }

  /**
   * Ends the plan with this answer, unless somebody has said something that the plan has not read, and it `mayGoOn`. Says whether the plan is over.
   */
  complete(answer: PlanAnswer, mayGoOn: boolean): Effect.Effect<boolean> {
    return this.#complete(answer, mayGoOn)
  }

  /** Whether this is the first text of the plan. A resumed plan may have shown some before. */
  speak(): boolean {
    const isFirst = !this.#hasSpoken
    this.#hasSpoken = true
    return isFirst
  }

  /** Counts what the attempt has used, however it ended. */
  countUsage(): void {
    const used = this.#step?.takeUsage()
    if (used === undefined) return
    const { step, attempt, model, usage, cost_usd } = used
    this.#knownCost = Usage.addCost(this.#knownCost, cost_usd ?? 0) ?? 0
    this.count({
      usage: Usage.add(this.#counts.usage, usage),
      cost_usd: Usage.addCost(this.#counts.cost_usd, cost_usd)
    })
    this.given.journal.append(
      [this.progressed(this.stage), this.charged({ model, usage, cost_usd })],
      [{ event: "usage", data: { step, attempt, ...usage, cost_usd } }]
    )
  }

  /** A request to a provider is over, however it ended. */
  attempted(): void {
    this.inferences++
    this.countUsage()
  }

  /** What the plan was doing at this instant: who ends it blames that. */
  snapshot(): Snapshot {
    const { failedWith, failures = [], shownText = "" } = this.#step ?? {}
    return { stage: this.stage, failedIn: this.stages.failedIn, open: this.tasks.open, failures, failedWith, shownText }
  }

  message(role: Message["role"], parts: ReadonlyArray<MessagePart>, now: number) {
    return messageOf(this.given.uuid, role, parts, now)
  }
}
