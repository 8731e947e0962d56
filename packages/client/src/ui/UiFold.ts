import type { Frame } from "../PlanView.ts"
import { isPlanFrame } from "../Reduce.ts"
import type { Failure, Final, FrameHead, Json, PlanFrame } from "../Wire.ts"

type DataOf<Frame extends PlanFrame, Event> = Frame extends PlanFrame
  ? [Extract<Frame["event"], Event>] extends [never]
    ? never
    : Frame["data"]
  : never

/** What a frame of this event has. */
export type FrameData<Event extends PlanFrame["event"]> = DataOf<PlanFrame, Event>

/** A stretch of text or reasoning of one attempt. `part` counts those of its kind within the attempt, from 0. */
export interface Segment {
  readonly kind: "text" | "reasoning"
  readonly step: number
  readonly attempt: number
  readonly part: number
  text: string
}

/** A call of a tool that has ended. */
export interface EndedCall {
  readonly data: FrameData<"task.finished">
  readonly started: FrameData<"task.started">
  /** What it gave: null for nothing, and a list where it gave several things. */
  readonly output: Json
  /** Somebody has rejected it: it was not made. */
  readonly isRejected: boolean
  /** It was shown as one that the client makes. */
  readonly isOwn: boolean
  /** Its progress was shown. */
  readonly hasProgress: boolean
}

interface Running {
  readonly started: FrameData<"task.started">
  readonly artifacts: Array<Json>
  hasProgress: boolean
}

/** What can be said of a call in every protocol. */
export const errorOf = ({ error, state }: FrameData<"task.finished">): string =>
  error?.message ?? `The call is ${state}`

/** What is said of a call that waits for a person when its plan ends. */
export const neverMade = "The plan ended before the call was made"

const outputOf = (artifacts: ReadonlyArray<Json>): Json => (artifacts.length > 1 ? artifacts : (artifacts[0] ?? null))

/** How a UI protocol says what happens in a plan: each method gives the events for it. */
export interface Dialect<Event> {
  /** The stream begins. `step` is the one that is open where the stream goes on with a plan that the client has seen before. */
  begin(head: FrameHead & { readonly model: string | null }, step: number | undefined): ReadonlyArray<Event>
  startStep(step: number): ReadonlyArray<Event>
  endStep(step: number): ReadonlyArray<Event>
  open(segment: Segment): ReadonlyArray<Event>
  add(segment: Segment, delta: string): ReadonlyArray<Event>
  close(segment: Segment): ReadonlyArray<Event>
  /** Takes back segments of the step that runs; `kept` are its others. */
  retract(removed: ReadonlyArray<Segment>, kept: ReadonlyArray<Segment>): ReadonlyArray<Event>
  /** Shows a call, before it is made or decided about. `parent` is the text of its step, `isOwn` says that the client is to make it. */
  show(
    call: FrameData<"task.started" | "approval.requested">,
    parent: Segment | undefined,
    isOwn: boolean
  ): ReadonlyArray<Event>
  start(call: FrameData<"task.started">): ReadonlyArray<Event>
  progress(data: FrameData<"task.progress">, started: FrameData<"task.started">): ReadonlyArray<Event>
  finish(call: EndedCall): ReadonlyArray<Event>
  request(data: FrameData<"approval.requested">): ReadonlyArray<Event>
  resolve(data: FrameData<"approval.resolved">): ReadonlyArray<Event>
  /** The plan has ended before somebody decided about the call. */
  settle(data: FrameData<"approval.requested">): ReadonlyArray<Event>
  /** The client is to make a call that was shown when an approval was asked for. */
  hand(call: FrameData<"task.started">): ReadonlyArray<Event>
  /** The stream ends, while the plan waits for decisions about these calls, or for results of the client. */
  pause(waiting: ReadonlyArray<FrameData<"approval.requested">>): ReadonlyArray<Event>
  complete(final: Final): ReadonlyArray<Event>
  fail(failure: Pick<Failure, "code" | "message" | "reason">): ReadonlyArray<Event>
}

/**
 * Turns the frames of a plan into the events of a UI protocol. Behind the end, and behind a pause, it gives none. With `behind` it first
 * gives none either: the client has seen the plan up to the approval requests of these calls, and up to where the calls that it has `given`
 * results of have waited for them.
 */
export class UiFold<Event> {
  isOver = false
  readonly #dialect: Dialect<Event>
  readonly #behind: Set<string>
  readonly #given: ReadonlySet<string>
  #hasBegun = false
  #model: string | null = null
  #step: number | undefined
  /** Those of the step that runs. */
  #segments: ReadonlyArray<Segment> = []
  #open: Segment | undefined
  readonly #shown = new Set<string>()
  readonly #running = new Map<string, Running>()
  readonly #waiting = new Map<string, FrameData<"approval.requested">>()
  readonly #asked = new Set<string>()
  /** Calls whose result the client gives. */
  readonly #awaited = new Set<string>()
  readonly #rejected = new Set<string>()

  constructor(dialect: Dialect<Event>, behind: Iterable<string> = [], given: Iterable<string> = []) {
    this.#dialect = dialect
    this.#given = new Set(given)
    this.#behind = new Set([
      ...Array.from(behind, (call) => `approval.requested ${call}`),
      ...Array.from(this.#given, (call) => `waiting ${call}`)
    ])
  }

  /** The events for a frame. */
  next(frame: Frame): ReadonlyArray<Event> {
    if (this.isOver || !isPlanFrame(frame)) return []
    if (this.#behind.size === 0) return this.#read(frame)
    const step = this.#step
    const events = this.#read(frame)
    if ("task_id" in frame.data) this.#behind.delete(`${frame.event} ${frame.data.task_id}`)
    if (this.#behind.size > 0 && !this.isOver) return []
    const begun = this.#dialect.begin({ ...frame.data, model: this.#model }, step)
    return this.isOver ? [...begun, ...events] : begun
  }

  /** Whether nothing goes on before somebody decides about a call, or gives its result, beside those that were decided just now. */
  waits(decided: ReadonlySet<string>): boolean {
    const isOpen = (call: string) => this.#awaited.has(call) && !this.#given.has(call)
    const running = Array.from(this.#running.keys())
    if (this.isOver || this.#behind.size > 0 || !running.every(isOpen)) return false
    return running.length > 0 || this.waitsForDecision(decided)
  }

  /** Whether a call waits for a decision, beside those that were decided just now. */
  waitsForDecision(decided: ReadonlySet<string>): boolean {
    return this.#undecided(decided).length > 0
  }

  /** Ends the stream while only a decision or a result is waited for. The plan goes on. */
  pause(decided: ReadonlySet<string>): ReadonlyArray<Event> {
    this.isOver = true
    return [...this.#endStep(), ...this.#dialect.pause(this.#undecided(decided))]
  }

  /** Ends the stream for a reason that is not the plan's own. */
  fail(code: string, message: string): ReadonlyArray<Event> {
    if (this.isOver) return []
    this.isOver = true
    return [...this.#close(), ...this.#dialect.fail({ code, message })]
  }

  #undecided(decided: ReadonlySet<string>) {
    return Array.from(this.#waiting.values()).filter(({ task_id }) => !decided.has(task_id))
  }

  #read(frame: PlanFrame): ReadonlyArray<Event> {
    switch (frame.event) {
      case "plan":
        this.#model = frame.data.model
        return this.#begin(frame.data)
      case "step": {
        const ended = this.#endStep()
        this.#step = frame.data.step
        return [...ended, ...this.#dialect.startStep(frame.data.step)]
      }
      case "text.delta":
      case "reasoning.delta":
        return this.#add(frame.event === "text.delta" ? "text" : "reasoning", frame.data)
      case "text.retract":
        return this.#retract(frame.data)
      case "task.started":
        return this.#start(frame.data)
      case "task.progress":
        return this.#progress(frame.data)
      case "task.artifact":
        this.#running.get(frame.data.task_id)?.artifacts.push(frame.data.content)
        return []
      case "task.finished":
        return this.#finish(frame.data)
      case "approval.requested":
        this.#waiting.set(frame.data.task_id, frame.data)
        this.#asked.add(frame.data.task_id)
        return [...this.#show(frame.data), ...this.#dialect.request(frame.data)]
      case "approval.resolved":
        this.#waiting.delete(frame.data.task_id)
        if (frame.data.decision === "reject") this.#rejected.add(frame.data.task_id)
        return this.#dialect.resolve(frame.data)
      case "waiting":
        return this.#wait(frame.data)
      case "final":
        this.isOver = true
        return [...this.#endStep(), ...this.#dialect.complete(frame.data)]
      case "error":
        return this.#fail(frame.data)
      default:
        return []
    }
  }

  #begin(head: FrameHead): ReadonlyArray<Event> {
    this.#hasBegun = true
    return this.#dialect.begin({ ...head, model: this.#model }, undefined)
  }

  #add(kind: Segment["kind"], { attempt, delta, step }: FrameData<"text.delta">): ReadonlyArray<Event> {
    const open = this.#open
    if (open !== undefined && open.kind === kind && open.attempt === attempt) {
      open.text += delta
      return this.#dialect.add(open, delta)
    }
    const part = this.#segments.filter((segment) => segment.kind === kind && segment.attempt === attempt).length
    const segment = { kind, step, attempt, part, text: delta }
    const closed = this.#close()
    this.#open = segment
    this.#segments = [...this.#segments, segment]
    return [...closed, ...this.#dialect.open(segment), ...this.#dialect.add(segment, delta)]
  }

  #close(): ReadonlyArray<Event> {
    const open = this.#open
    this.#open = undefined
    return open === undefined ? [] : this.#dialect.close(open)
  }

  #retract({ attempt, step }: FrameData<"text.retract">): ReadonlyArray<Event> {
    const removed = this.#segments.filter((segment) => segment.step === step && segment.attempt === attempt)
    if (removed.length === 0) return []
    const closed = this.#close()
    this.#segments = this.#segments.filter((segment) => !removed.includes(segment))
    return [...closed, ...this.#dialect.retract(removed, this.#segments)]
  }

  #endStep(): ReadonlyArray<Event> {
    const step = this.#step
    const closed = this.#close()
    this.#step = undefined
    this.#segments = []
    return step === undefined ? closed : [...closed, ...this.#dialect.endStep(step)]
  }

  #show(call: FrameData<"task.started" | "approval.requested">, isOwn = false): ReadonlyArray<Event> {
    if (this.#shown.has(call.task_id)) return []
    this.#shown.add(call.task_id)
    const parent = this.#segments.findLast(({ kind }) => kind === "text")
    return [...this.#close(), ...this.#dialect.show(call, parent, isOwn)]
  }

  #start(started: FrameData<"task.started">): ReadonlyArray<Event> {
    this.#running.set(started.task_id, { started, artifacts: [], hasProgress: false })
    // One that is refused never gets to the client.
    if (started.kind === "client") return []
    return [...this.#show(started), ...this.#dialect.start(started)]
  }

  #wait({ kind, task_id }: FrameData<"waiting">): ReadonlyArray<Event> {
    const running = task_id === null || kind !== "result" ? undefined : this.#running.get(task_id)
    if (running === undefined) return []
    const { started } = running
    this.#awaited.add(started.task_id)
    return this.#asked.has(started.task_id) ? this.#dialect.hand(started) : this.#show(started, true)
  }

  #progress(data: FrameData<"task.progress">): ReadonlyArray<Event> {
    const running = this.#running.get(data.task_id)
    if (running === undefined) return []
    running.hasProgress = true
    return this.#dialect.progress(data, running.started)
  }

  #finish(data: FrameData<"task.finished">): ReadonlyArray<Event> {
    const running = this.#running.get(data.task_id)
    if (running === undefined) return []
    this.#running.delete(data.task_id)
    // The client has shown its own result.
    if (this.#given.has(data.task_id)) return []
    const { artifacts, hasProgress, started } = running
    const isRejected = this.#rejected.has(data.task_id)
    const isOwn = this.#awaited.has(data.task_id) && !this.#asked.has(data.task_id)
    const output = outputOf(artifacts)
    const shown = this.#show(started)
    return [...shown, ...this.#dialect.finish({ data, started, output, isRejected, isOwn, hasProgress })]
  }

  #fail(data: FrameData<"error">): ReadonlyArray<Event> {
    this.isOver = true
    const begun = this.#hasBegun ? [] : this.#begin(data)
    const settled = Array.from(this.#waiting.values()).flatMap((call) => this.#dialect.settle(call))
    return [...begun, ...settled, ...this.#endStep(), ...this.#dialect.fail(data)]
  }
}
