import { Effect } from "effect"
import { isComparable, type Segment, segmentsOf } from "./RecordedTakeovers.ts"
import type { PlanRecording, RecordedFrame } from "./RecordFile.ts"

/** A frame of the plan that runs again. */
export interface ReplayedFrame {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** Where the plan that runs again is another one than the recorded one: `what` is a frame's event, `prompt`, or what else differs. */
export interface Difference {
  readonly step: number
  readonly what: string
  readonly recorded: unknown
  readonly came: unknown
}

/**
 * When something happened, how long it took, and what is drawn by chance: another run has others. Ids that are drawn have tokens. Which credential is the next one, other plans decide, too.
 */
const ofRun = new Set(
  "at plan_id session_id duration_ms delay_ms expires_at deadline_at wakes_at elapsed_ms retry_after_ms tokens_before tokens_after estimated_tokens credential".split(
    " "
  )
)
/** Tokens are counted with ids, whose tokens are drawn. */
const aboutTokens = /(?<=\babout )\d+(?= tokens\b)/g
const instants = /\d{4}-\d\d-\d\dT[\d:.]{8,}Z/g
/** Ids of this run alone: they are told apart by their order. */
const ids = new Set(["task_id", "entry_id", "repeat_of", "moved_to"])
const uuid = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g

/**
 * Somebody aborts a plan at any instant: what it did then is chance. Who it was is no matter of the planner, but for a deadline that has passed `byTime`.
 */
const aborted = ({ data, event }: ReplayedFrame, byTime: boolean): ReplayedFrame => {
  if (event !== "error" || typeof data["reason"] !== "string") return { event, data }
  const reason = byTime && data["reason"] === "deadline" ? "deadline" : "aborted"
  return { event, data: { ...data, code: "aborted", message: "", stage: null, data: null, reason, retryable: false } }
}

/** What a model or a tool has written: its fields are its own, whatever they are called. */
const foreign = new Set(["input", "content"])

/** Frames of one run, without what no other run repeats. */
class Shown {
  readonly #ordinals = new Map<string, number>()

  of(value: unknown, key = "", isForeign = false): unknown {
    if (typeof value === "string")
      return ids.has(key) && !isForeign
        ? this.#ordinalOf(value)
        : value.replaceAll(uuid, "#").replaceAll(aboutTokens, "#").replaceAll(instants, "#")
    if (Array.isArray(value)) return value.map((one) => this.of(one, key, isForeign))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(
      Object.entries(value)
        .filter(([name]) => isForeign || !ofRun.has(name))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, one]) => [name, this.of(one, name, isForeign || foreign.has(name))])
    )
  }

  #ordinalOf(id: string): string {
    const known = this.#ordinals.get(id) ?? this.#ordinals.size + 1
    this.#ordinals.set(id, known)
    return `#${known}`
  }
}

const stepOf = (frames: ReadonlyArray<ReplayedFrame>): number =>
  frames.reduce((last, { data: { step } }) => (typeof step === "number" ? Math.max(last, step) : last), 0)

const idIn = ({ data }: RecordedFrame, name: "entry_id" | "task_id"): unknown =>
  name in data ? Object.entries(data).find(([key]) => key === name)?.[1] : undefined

/** What the planner tells without waiting for anybody, in front of a step. */
const between = new Set(["usage", "notice", "compaction", "inbox.accepted", "inbox.taken"])

/**
 * The frames in an order in which the same can happen again. A text that was heard between the end of the last call and the next step has come at an instant that
 * no frame tells: one that this step has taken stands in front of that end here, and another one behind the beginning of the step.
 */
const inOrder = (frames: ReadonlyArray<RecordedFrame>): ReadonlyArray<RecordedFrame> => {
  const ordered = [...frames]
  const behindStep = new Set<RecordedFrame | undefined>()
  for (const text of frames.filter(({ event }) => event === "inbox.accepted")) {
    const from = ordered.indexOf(text)
    const isTaken = ({ event, ...frame }: RecordedFrame) =>
      event === "inbox.taken" && idIn({ event, ...frame }, "entry_id") === idIn(text, "entry_id")
    const taken = ordered.findIndex(isTaken)
    const next = ordered.findIndex(({ event }, index) => index > from && !between.has(event))
    if (ordered[next]?.event === "step" && (taken < 0 || taken > next)) {
      ordered.splice(from, 1)
      // Behind those that were heard in front of it.
      let to = next
      while (behindStep.has(ordered[to])) to++
      ordered.splice(to, 0, text)
      behindStep.add(text)
      continue
    }
    if (taken < 0 || ordered.slice(from, taken).some(({ event }) => event !== "inbox.accepted")) continue
    let to = from
    while (ordered[to - 1]?.event === "inbox.accepted") to--
    const last = ordered[to - 1]
    if (last?.event !== "task.finished") continue
    const ofLast = idIn(last, "task_id")
    while (to > 0 && ["task.finished", "task.artifact"].includes(ordered[to - 1]?.event ?? "")) {
      const before = ordered[to - 1]
      if (before === undefined || idIn(before, "task_id") !== ofLast) break
      to--
    }
    ordered.splice(from, 1)
    ordered.splice(to, 0, text)
  }
  return ordered
}

/** The frames with which a step begins, or is resumed by another process: that one retracts its text, or makes another attempt. */
const ofStep = new Set(["step", "text.retract", "retry"])

/** Compares the frames of a run, one after the other, with the recorded ones, and says how far it has come. */
export class Comparison {
  readonly expected: ReadonlyArray<RecordedFrame>
  readonly segments: ReadonlyArray<Segment>
  readonly came: Array<ReplayedFrame> = []
  /** How many attempts have begun. */
  attempts = 0
  /** The place of the first frame that this process does not tell. */
  to = Infinity
  difference: Difference | undefined
  readonly #shownOnRecord = new Shown()
  readonly #replayed = new Shown()
  readonly #waiters = new Set<() => void>()
  /** The task ids of this run, by those of the record. */
  readonly #tasks = new Map<string, string>()
  readonly #recordedTasks = new Map<string, string>()

  readonly #isByTime: boolean
  readonly #recording: PlanRecording

  constructor(recording: PlanRecording, isByTime = true) {
    this.#isByTime = isByTime
    this.#recording = recording
    const frames = recording.frames.filter(isComparable)
    this.segments = segmentsOf(recording)
    this.expected = this.segments.flatMap(({ from, to }) => inOrder(frames.slice(from, to)))
  }

  /** The place of the next frame with which a step begins or is resumed, or the end of this process. The planner looks for other tools in front of it. */
  get nextStep(): number {
    const next = this.expected.findIndex(({ event }, index) => index >= this.came.length && ofStep.has(event))
    return Math.min(next < 0 ? this.expected.length : next, this.to)
  }

  get isOver(): boolean {
    return this.difference !== undefined || this.came.length >= this.expected.length
  }

  take(frame: ReplayedFrame): void {
    if (!isComparable(frame) || this.difference !== undefined) return
    const expected = this.expected[this.came.length]
    this.came.push(frame)
    const [recorded, came] = [
      expected === undefined
        ? null
        : this.#shownOnRecord.of(aborted({ ...expected, data: { ...expected.data } }, this.#isByTime)),
      this.#replayed.of(aborted(frame, true))
    ]
    if (JSON.stringify(recorded) !== JSON.stringify(came)) this.differ(frame.event, recorded, came)
    else if (expected !== undefined) this.#know(expected, frame)
    for (const look of this.#waiters) look()
  }

  differ(what: string, recorded: unknown, came: unknown): void {
    this.difference ??= { step: stepOf(this.came), what, recorded, came }
    for (const look of this.#waiters) look()
  }

  /** Waits until there is a difference, or all has come. */
  readonly over: Effect.Effect<void> = Effect.callback((resume) => {
    const look = () => {
      if (this.isOver) resume(Effect.void)
    }
    this.#waiters.add(look)
    look()
  })

  /** The recorded id of a call of this run, if it is a call on record. */
  recordedIdOf(task_id: string): string | undefined {
    return this.#recordedTasks.get(task_id)
  }

  /** The call has this id in this run. */
  know(recorded: string, task_id: string): void {
    this.#tasks.set(recorded, task_id)
    this.#recordedTasks.set(task_id, recorded)
    for (const look of this.#waiters) look()
  }

  /** Calls that are lost with the process that would have made them: the next one makes others in their place. */
  forget(isLost: (recorded: string) => boolean): void {
    for (const [recorded, task_id] of Array.from(this.#tasks)) {
      if (!isLost(recorded)) continue
      this.#tasks.delete(recorded)
      this.#recordedTasks.delete(task_id)
    }
  }

  /** The recorded id of a call of this run. */
  recordedTask(task_id: string): Effect.Effect<string> {
    return Effect.map(
      this.#until(() => this.#recordedTasks.has(task_id)),
      () => this.#recordedTasks.get(task_id) ?? ""
    )
  }

  /** The id that a recorded call has in this run. */
  replayedTask(task_id: string): string | undefined {
    return this.#tasks.get(task_id)
  }

  /** Another attempt has begun. */
  attempt(): void {
    this.attempts++
    for (const look of this.#waiters) look()
  }

  /** Waits until so many attempts have begun. */
  begun(attempts: number): Effect.Effect<void> {
    return this.#until(() => this.attempts >= attempts)
  }

  /** Waits until all frames in front of this recorded one have come. */
  before(index: number): Effect.Effect<void> {
    return this.#until(() => this.came.length >= index)
  }

  /** The place of the first frame that stands behind this answer on record, if there is one. */
  placeOfAnswer(task_id: string, round: unknown): number | undefined {
    const given = this.#recording.givens.find(
      ({ entry, ...one }) => entry.type === "answer" && entry.task_id === task_id && one.round === round
    )
    return given && this.#placeBehind(given)
  }

  /** The place of the first frame that stands behind all answers and decisions on record. */
  get behindGivens(): number {
    return Math.max(0, ...this.#recording.givens.map((given) => this.#placeBehind(given)))
  }

  #placeBehind({ place }: PlanRecording["givens"][number]): number {
    const next = this.#recording.frames.slice(place).find(isComparable)
    return next === undefined ? this.expected.length : this.expected.indexOf(next)
  }

  /** Waits until this recorded frame is the next one; for ever if another process tells it. */
  turn(index: number): Effect.Effect<void> {
    return Effect.suspend(() => (index < this.to ? this.before(index) : Effect.never))
  }

  #know(expected: RecordedFrame, { data }: ReplayedFrame): void {
    const recorded = "task_id" in expected.data ? expected.data.task_id : undefined
    const { task_id } = data
    if (typeof recorded !== "string" || typeof task_id !== "string") return
    this.know(recorded, task_id)
  }

  #until(isReached: () => boolean): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const look = () => {
        if (!isReached() || this.difference !== undefined) return
        this.#waiters.delete(look)
        resume(Effect.void)
      }
      this.#waiters.add(look)
      look()
      return Effect.sync(() => this.#waiters.delete(look))
    })
  }
}
