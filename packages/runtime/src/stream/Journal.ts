import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Effect, Result } from "effect"
import * as Alarm from "../process/Alarm.ts"
import { sizeOf } from "../process/MemorySize.ts"
import type { Guard, PlanChange } from "../store/PlanStore.ts"
import { LeaseLost } from "../store/LeaseStore.ts"
import { withinAwayLimit } from "../store/RetryWhileAway.ts"
import { fromEvents, isDelta, type PlanFrame, toFrame } from "../store/EventRow.ts"
import * as PlanGist from "../store/PlanGist.ts"
import type { Source, Taken } from "./GroupCommit.ts"
import type { LivePlan } from "./LivePlan.ts"

/** Why a plan must stop: another process has it, so that nothing more is written, or the database rejected its rows. */
export type Stopped = LeaseLost | StorageError

/** The last event of a plan that is stored. */
export type Head = Pick<PlanFrame, "seq" | "at">

/** What has become of a proposal. `stopped`: the plan must stop, and nobody waits on. `late`: nothing is known in time. */
export type Proposed = "stored" | "unread" | "stopped" | "late"

/** With what a plan leaves its process. */
const closing: ReadonlySet<PlanChange["_tag"]> = new Set<PlanChange["_tag"]>(["Settled", "HandedOver", "Parked"])

/** How many events, and how many bytes of events and facts, may wait to be written. Beyond that their producer waits. */
const maxBacklog = 256
const maxBytes = 262_144

const bytesOf = (event: PlanEvent): number => (isDelta(event) ? event.data.delta.length : sizeOf(event.data))

/** Whether each append is stored by itself, not together with those behind it. A replay ends a process between two of them. */
export const StoresEach = Context.Reference<boolean>("@bowline/runtime/stream/StoresEach", {
  defaultValue: () => false
})

/** What was appended at once. */
interface Piece {
  readonly changes: number
  readonly events: number
  /** How many appends there were with it. */
  readonly until: number
}

/** What a journal begins with. */
interface Given {
  readonly plan: { readonly plan_id: PlanId; readonly session_id: SessionId }
  readonly guard: Guard
  readonly head: Head
  /** What the plan has come to; undefined if that is not known. */
  readonly gist: PlanGist.PlanGist | undefined
  readonly live: LivePlan
  readonly notify: (source: Source, mayLinger?: boolean) => void
  /** Called once at most: the plan must stop. */
  readonly onStopped: (why: Stopped) => void
  /** How much of the plan's inbox is read. */
  readonly seen: number
  /** Called when the plan's inbox has more than was read. */
  readonly onBehind: () => void
  /** See `StoresEach`. */
  readonly storesEach?: boolean
}

/**
 * The one ordered queue of what a plan writes. Numbers are given when an event is appended; a frame is sent when it is
 * stored. A sealed journal drops what the plan's fibers still append: the plan is over.
 */
export class Journal implements Source {
  readonly #given: Given
  #guard: Guard
  #stopped: Stopped | undefined
  #head: number
  /** The time of the last write. Another process, whose clock is ahead, may have made it. */
  #at: string
  #events: Array<PlanEvent> = []
  #changes: Array<PlanChange> = []
  #bytes = 0
  /** What is stored by itself of what waits, in order; what was deferred is in front of it. */
  #pieces: Array<Piece> = []
  /** The kind of text that the last event is a piece of. */
  #speaks: PlanEvent["event"] | undefined
  #sealed = false
  #seen: number
  /** What is only stored if the whole inbox is read. */
  #proposal:
    | {
        readonly changes: ReadonlySet<PlanChange>
        readonly events: ReadonlySet<PlanEvent>
        /** How much of the inbox was read when it was made: what is read later, it does not know. */
        readonly seen: number
        readonly dropped: () => void
      }
    | undefined
  #isUnread = false
  #releases = false
  #gist: PlanGist.PlanGist | undefined
  /** What is recorded with the next event, and with those that wait. */
  #records: ReadonlyArray<object> = []
  readonly #recorded = new WeakMap<PlanEvent, ReadonlyArray<object>>()
  /** Counts appends, and how many of them are stored. */
  #appended = 0
  #stored = 0
  /** Called whenever a batch is stored, and when the plan must stop. */
  readonly #waiters = new Set<() => void>()

  constructor(given: Given) {
    this.#given = given
    this.#guard = given.guard
    this.#head = given.head.seq
    this.#at = given.head.at
    this.#gist = given.gist
    this.#seen = given.seen
  }

  /** So much of the plan's inbox is read. */
  read(count: number): void {
    this.#seen = count
  }

  /** The guard of the next write. */
  get guard(): Guard {
    return this.#guard
  }

  /** The session is held: from now on its fence guards every write. */
  hold(fence: number): void {
    this.#guard = { _tag: "Held", fence }
    this.append([this.#guard], [])
  }

  /** Appends facts and the events that tell them: they are stored together. */
  append(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>): void {
    // The first piece of a text is what its reader waits for.
    const isMore = events.every(({ event }) => event === this.#speaks)
    this.defer(changes, events)
    const mayLinger = isMore && this.#changes.length === 0
    if (this.#sealed) return
    this.#endPiece()
    this.#given.notify(this, mayLinger)
  }

  /** The same for what is to be written together with what is appended next. A flush does not wait for that. */
  defer(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>): void {
    // An empty append is never written: a flush would wait for it in vain.
    if (this.#sealed || changes.length + events.length === 0) return
    this.#add(changes, events)
  }

  /** Keeps this with the plan, in JSON: it is stored together with the next event. Readers do not get it. */
  record(what: object): void {
    this.#records = [...this.#records, what]
  }

  #add(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>): void {
    const [first] = events
    if (first !== undefined && this.#records.length > 0) {
      this.#recorded.set(first, this.#records)
      this.#records = []
    }
    this.#changes.push(...changes)
    this.#events.push(...events)
    if (changes.some(({ _tag }) => _tag === "Released")) this.#releases = true
    for (const event of events) {
      this.#bytes += bytesOf(event)
      this.#speaks = isDelta(event) ? event.event : undefined
    }
    if (changes.length > 0) this.#bytes += sizeOf(changes)
    this.#appended++
  }

  /**
   * Appends what is stored only if the whole inbox of the plan is read, with all that was appended before. If it is not, the proposal is `dropped`, and
   * what came with it waits for the next write. A sealed journal takes one, too: the end of the plan.
   */
  propose(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>, dropped: () => void): void {
    this.#add(changes, events)
    this.#isUnread = false
    this.#proposal = { changes: new Set(changes), events: new Set(events), seen: this.#seen, dropped }
    this.#endPiece()
    this.#given.notify(this)
  }

  #endPiece(): void {
    if (this.#given.storesEach !== true) return
    const taken = (name: "changes" | "events") => this.#pieces.reduce((sum, piece) => sum + piece[name], 0)
    const [changes, events] = [this.#changes.length - taken("changes"), this.#events.length - taken("events")]
    if (changes + events > 0) this.#pieces.push({ changes, events, until: this.#appended })
  }

  /** What is written next: all that waits, or the first piece of it. Then the rest waits on. */
  #takeNext() {
    const [changes, events, proposal] = [this.#changes, this.#events, this.#proposal]
    const piece = this.#pieces.shift()
    this.#changes = piece === undefined ? [] : changes.slice(piece.changes)
    this.#events = piece === undefined ? [] : events.slice(piece.events)
    this.#bytes = 0
    this.#proposal = undefined
    if (piece === undefined) return { changes, events, proposal, until: this.#appended }
    const next = { changes: changes.slice(0, piece.changes), events: events.slice(0, piece.events), until: piece.until }
    const isProposed = next.changes.some((change) => proposal?.changes.has(change) === true)
    if (!isProposed) this.#proposal = proposal
    if (this.#pieces.length > 0) this.#given.notify(this)
    return { ...next, proposal: isProposed ? proposal : undefined }
  }

  /** The same in the middle of a plan, up to the answer: whether it is stored. Waits for its interruption if the plan is over. */
  proposed(
    changes: ReadonlyArray<PlanChange>,
    events: ReadonlyArray<PlanEvent>,
    dropped: () => void
  ): Effect.Effect<boolean, StorageError> {
    return Effect.suspend(() => {
      if (this.#sealed) return Effect.never
      this.propose(changes, events, dropped)
      const isStored = this.mark()
      const answered = this.#until(() => this.#isUnread || isStored())
      return Effect.andThen(
        withinAwayLimit(answered),
        Effect.suspend(() => (this.#sealed ? Effect.never : Effect.succeed(isStored())))
      )
    })
  }

  /** Whether readers can be told of the inbox: not while the plan's end is proposed. */
  get isHeard(): boolean {
    return !this.#sealed || this.#isUnread
  }

  /** Appends what readers are told of the inbox: also between two proposals of the plan's end. */
  tell(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>): void {
    if (!this.#sealed) this.append(changes, events)
    else if (this.#isUnread && changes.length > 0) this.#add(changes, events)
  }

  emit(event: PlanEvent): void {
    this.append([], [event])
  }

  /** Returns a function that says whether all that was appended before this call is stored. */
  mark(): () => boolean {
    const until = this.#appended
    return () => this.#stored >= until
  }

  /** Another process has the plan: it stops here, and writes nothing more. Returns whether it had not stopped yet. */
  lose(): boolean {
    this.#sealed = true
    return this.#stop(new LeaseLost())
  }

  /** A renewal did not find the lease. If the end of the plan releases it, the write of that end says whether it was lost before. */
  loseLease(): boolean {
    return !this.#releases && this.lose()
  }

  /** Nothing can be appended from now on. */
  seal(): void {
    this.#sealed = true
  }

  /** The plan goes on: its end was not stored. */
  reopen(): void {
    this.#sealed = false
    if (this.#changes.length + this.#events.length > 0) this.#given.notify(this)
    // Nobody is to wait for what was dropped.
    else this.#stored = this.#appended
  }

  /** Waits for the writer while too much waits to be written. */
  readonly keepUp: Effect.Effect<void, StorageError> = Effect.suspend(() =>
    this.#events.length > maxBacklog || this.#bytes > maxBytes ? this.flush : Effect.void
  )

  /**
   * Waits until all that was appended so far is stored, 30 s at most. Once the journal is sealed nothing is stored any more: a
   * caller then waits for its interruption, and does nothing that is not stored.
   */
  readonly flush: Effect.Effect<void, StorageError> = Effect.suspend(() => {
    if (this.#sealed) return Effect.never
    if (this.#stored >= this.#appended) return Effect.void
    this.#given.notify(this)
    return Effect.andThen(withinAwayLimit(this.written), this.#unlessSealed)
  })
  readonly #unlessSealed = Effect.suspend(() => (this.#sealed ? Effect.never : Effect.void))

  /** The same without a bound. */
  readonly written: Effect.Effect<void> = Effect.suspend(() => this.#until(this.mark()))

  /**
   * Waits until it is known what has become of the proposal, or of all that was appended so far if there is none. It is `stopped` if the plan
   * must stop for a reason for which nobody waits on, and `late` after so many milliseconds.
   */
  settled(isHopeless: (why: Stopped) => boolean, withinMs = Infinity): Effect.Effect<Proposed> {
    return Effect.withFiber(({ context }) => {
      const isStored = this.mark()
      const known = (): Proposed | undefined => {
        if (this.#isUnread) return "unread"
        if (isStored()) return "stored"
        return this.#stopped !== undefined && isHopeless(this.#stopped) ? "stopped" : undefined
      }
      const now = known()
      if (now !== undefined) return Effect.succeed(now)
      let isLate = false
      const giveUp = () => {
        isLate = true
        this.#advance()
      }
      const until = Effect.acquireUseRelease(
        Effect.sync(() => Alarm.set(withinMs, giveUp, context)),
        () => this.#until(() => isLate || known() !== undefined),
        (cancelAlarm) => Effect.sync(cancelAlarm)
      )
      return Effect.map(until, () => known() ?? "late")
    })
  }

  #until(isReached: () => boolean): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const look = () => {
        if (!isReached()) return
        this.#waiters.delete(look)
        resume(Effect.void)
      }
      this.#waiters.add(look)
      look()
      return Effect.sync(() => this.#waiters.delete(look))
    })
  }

  #advance(): void {
    for (const look of this.#waiters) look()
  }

  /** Returns whether the plan had not stopped yet. */
  #stop(why: Stopped): boolean {
    if (this.#stopped !== undefined) return false
    this.#stopped = why
    this.#given.onStopped(why)
    this.#advance()
    return true
  }

  /** What the plan has come to, when it ends, is handed over, or waits for a decision. */
  #sum(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>, at: string): ReadonlyArray<PlanChange> {
    const before = this.#gist
    const gist = before && PlanGist.add(before, events, at)
    this.#gist = gist
    const isEnding = changes.some(({ _tag }) => closing.has(_tag))
    const isTold = events.some((event) => !isDelta(event))
    if (!isEnding && !(isTold && gist && before && (PlanGist.isWaiting(gist) || PlanGist.isWaiting(before)))) {
      return []
    }
    return [PlanGist.summed(gist, changes)]
  }

  take(now: string): Taken | undefined {
    if (this.#events.length === 0 && this.#changes.length === 0) return undefined
    const gist = this.#gist
    const { changes, events, proposal, until } = this.#takeNext()
    const first = this.#head + 1
    const at = now > this.#at ? now : this.#at
    const written = Result.try(() => ({
      changes: [...changes, ...this.#sum(changes, events, at)],
      events: fromEvents(first, at, events, (event) => this.#recorded.get(event) ?? [])
    }))
    this.#at = at
    this.#head += events.length
    if (Result.isFailure(written)) {
      // What cannot be written as JSON ends its plan, not the writer of all plans.
      this.#head = first - 1
      this.#gist = gist
      this.#stop(new StorageError({ reason: new Rejected({ cause: written.failure }) }))
      return undefined
    }
    return {
      commit: {
        ...this.#given.plan,
        guard: this.#guard,
        ...written.success,
        inbox: { seen: proposal?.seen ?? this.#seen, closes: proposal !== undefined }
      },
      stored: (isBehind) => {
        this.#stored = until
        const rows = written.success.events
        // Most rows are one frame, whose JSON they have.
        const frames =
          rows.length === events.length
            ? rows.map(({ at, event, payload, seq }) => ({ seq, at, event, payload }))
            : events.map((event, index) => toFrame(first + index, at, event))
        this.#given.live.publish(frames)
        this.#advance()
        if (isBehind) this.#given.onBehind()
      },
      unread: () => {
        // No reader has seen these events, so that their numbers can be given again.
        this.#head = first - 1
        this.#gist = gist
        this.#pieces = []
        // The plan's end may have been proposed meanwhile: it does not know of what comes back now, and is proposed again.
        const dropped = [proposal, this.#proposal].filter((one) => one !== undefined)
        this.#changes = [...changes, ...this.#changes].filter(
          (change) => !dropped.some((one) => one.changes.has(change))
        )
        const isDropped = (event: PlanEvent) => dropped.some((one) => one.events.has(event))
        const back = [...events, ...this.#events]
        this.#records = [
          ...back.filter(isDropped).flatMap((event) => this.#recorded.get(event) ?? []),
          ...this.#records
        ]
        this.#events = back.filter((event) => !isDropped(event))
        for (const one of dropped) one.dropped()
        this.#proposal = undefined
        this.#isUnread = true
        this.#releases = false
        this.#advance()
      },
      refused: () => this.lose(),
      failed: (error) => {
        // No reader has seen these events, so that their numbers can be given again.
        this.#head = first - 1
        // It may be what was rejected.
        this.#gist = undefined
        const settled = changes.filter(({ _tag }) => _tag === "Settled" || _tag === "Released" || _tag === "Continued")
        if (settled.length === 0 || changes.length === settled.length) {
          this.#stop(error)
          return
        }
        // A rejection of earlier rows must not lose the end of the plan.
        this.#changes = settled
        this.#events = events.slice(-2)
        this.#pieces = []
        this.#proposal = proposal
        this.#given.notify(this)
      }
    }
  }
}
