import { Effect } from "effect"
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
  "at plan_id session_id duration_ms delay_ms expires_at deadline_at wakes_at elapsed_ms tokens_before tokens_after estimated_tokens credential".split(
    " "
  )
)
/** Tokens are counted with ids, whose tokens are drawn. */
const aboutTokens = /(?<=\babout )\d+(?= tokens\b)/g
/** Ids of this run alone: they are told apart by their order. */
const ids = new Set(["task_id", "entry_id", "repeat_of", "moved_to"])
const uuid = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g

/** Somebody cancels at any instant: what the plan did then is chance. */
const cancelled = ({ data, event }: ReplayedFrame): ReplayedFrame =>
  event === "error" && data["reason"] === "cancelled"
    ? { event, data: { ...data, message: "", stage: null } }
    : { event, data }

/** Frames of one run, without what no other run repeats. */
class Shown {
  readonly #ordinals = new Map<string, number>()

  of(value: unknown, key = ""): unknown {
    if (typeof value === "string")
      return ids.has(key) ? this.#ordinalOf(value) : value.replaceAll(uuid, "#").replaceAll(aboutTokens, "#")
    if (Array.isArray(value)) return value.map((one) => this.of(one, key))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(
      Object.entries(value)
        .filter(([name]) => !ofRun.has(name))
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([name, one]) => [name, this.of(one, name)])
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

/** A plan that runs again alone waits for no other one. */
export const isComparable = ({ event }: { readonly event: string }): boolean => event !== "queued"

/** Compares the frames of a run, one after the other, with the recorded ones, and says how far it has come. */
export class Comparison {
  readonly expected: ReadonlyArray<RecordedFrame>
  readonly came: Array<ReplayedFrame> = []
  difference: Difference | undefined
  readonly #recorded = new Shown()
  readonly #replayed = new Shown()
  readonly #waiters = new Set<() => void>()
  /** The task ids of this run, by those of the record. */
  readonly #tasks = new Map<string, string>()
  readonly #recordedTasks = new Map<string, string>()

  constructor({ frames }: PlanRecording) {
    this.expected = frames.filter(isComparable)
  }

  get isOver(): boolean {
    return this.difference !== undefined || this.came.length >= this.expected.length
  }

  take(frame: ReplayedFrame): void {
    if (!isComparable(frame) || this.difference !== undefined) return
    const expected = this.expected[this.came.length]
    this.came.push(frame)
    const [recorded, came] = [
      expected === undefined ? null : this.#recorded.of(cancelled({ ...expected, data: { ...expected.data } })),
      this.#replayed.of(cancelled(frame))
    ]
    if (JSON.stringify(recorded) !== JSON.stringify(came)) this.differ(frame.event, recorded, came)
    else if (expected !== undefined) this.#know(expected, frame)
    for (const look of this.#waiters) look()
  }

  differ(what: string, recorded: unknown, came: unknown): void {
    this.difference ??= { step: stepOf(this.came), what, recorded, came }
    for (const look of this.#waiters) look()
  }

  /** Waits until there is a difference. */
  readonly differs: Effect.Effect<void> = Effect.callback((resume) => {
    const look = () => {
      if (this.difference !== undefined) resume(Effect.void)
    }
    this.#waiters.add(look)
    look()
  })

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

  /** Waits until all frames in front of this recorded one have come. */
  before(index: number): Effect.Effect<void> {
    return this.#until(() => this.came.length >= index)
  }

  #know(expected: RecordedFrame, { data }: ReplayedFrame): void {
    const recorded = "task_id" in expected.data ? expected.data.task_id : undefined
    const { task_id } = data
    if (typeof recorded !== "string" || typeof task_id !== "string") return
    this.#tasks.set(recorded, task_id)
    this.#recordedTasks.set(task_id, recorded)
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
