import type { PlanEvent } from "@bowline/domain/plan/PlanEvent"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Effect, Result } from "effect"
import * as Alarm from "../process/Alarm.ts"
import { sizeOf } from "../process/MemorySize.ts"
import type { Guard, PlanChange } from "../store/PlanStore.ts"
import { LeaseLost } from "../store/LeaseStore.ts"
import { withinAwayLimit } from "../store/RetryWhileAway.ts"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { fromEvents, isDelta, type PlanFrame, toFrame } from "../store/EventRow.ts"
import * as PlanGist from "../store/PlanGist.ts"
import type { Source, Taken } from "./GroupCommit.ts"
import type { LivePlan } from "./LivePlan.ts"

/** Why a plan must stop: another process has it, so that nothing more is written, or the database rejected its rows. */
export type Stopped = LeaseLost | StorageError

/** The last event of a plan that is stored. */
export type Head = Pick<PlanFrame, "seq" | "at">

/** How many events, and how many bytes of events and facts, may wait to be written. Beyond that their producer waits. */
const maxBacklog = 256
const maxBytes = 262_144

const bytesOf = (event: PlanEvent): number => (isDelta(event) ? event.data.delta.length : sizeOf(event.data))

/**
 * The one ordered queue of what a plan writes. Numbers are given when an event is appended; a frame is sent when it is
 * stored. A sealed journal drops what the plan's fibers still append: the plan is over.
 */
export class Journal implements Source {
  #guard: Guard
  readonly #plan: { readonly plan_id: PlanId; readonly session_id: SessionId }
  readonly #live: LivePlan
  readonly #notify: (source: Source) => void
  readonly #onStopped: (why: Stopped) => void
  #stopped: Stopped | undefined
  #head: number
  /** The time of the last write. Another process, whose clock is ahead, may have made it. */
  #at: string
  #events: Array<PlanEvent> = []
  #changes: Array<PlanChange> = []
  #bytes = 0
  #sealed = false
  #releases = false
  /** What the plan has come to; undefined if that is not known. */
  #gist: PlanGist.PlanGist | undefined
  /** Counts appends, and how many of them are stored. */
  #appended = 0
  #stored = 0
  /** Called whenever a batch is stored, and when the plan must stop. */
  readonly #waiters = new Set<() => void>()

  /** `onStopped` is called once at most: the plan must stop. */
  constructor(
    plan: { readonly plan_id: PlanId; readonly session_id: SessionId },
    guard: Guard,
    { seq, at }: Head,
    gist: PlanGist.PlanGist | undefined,
    live: LivePlan,
    notify: (source: Source) => void,
    onStopped: (why: Stopped) => void
  ) {
    this.#plan = plan
    this.#guard = guard
    this.#head = seq
    this.#at = at
    this.#gist = gist
    this.#live = live
    this.#notify = notify
    this.#onStopped = onStopped
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
    this.defer(changes, events)
    if (!this.#sealed) this.#notify(this)
  }

  /** The same for what is to be written together with what is appended next. A flush does not wait for that. */
  defer(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>): void {
    // An empty append is never written: a flush would wait for it in vain.
    if (this.#sealed || changes.length + events.length === 0) return
    this.#changes.push(...changes)
    this.#events.push(...events)
    if (changes.some(({ _tag }) => _tag === "Released")) this.#releases = true
    for (const event of events) this.#bytes += bytesOf(event)
    if (changes.length > 0) this.#bytes += sizeOf(changes)
    this.#appended++
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
    this.#notify(this)
    return Effect.andThen(withinAwayLimit(this.written), this.#unlessSealed)
  })
  readonly #unlessSealed = Effect.suspend(() => (this.#sealed ? Effect.never : Effect.void))

  /** The same without a bound. */
  readonly written: Effect.Effect<void> = Effect.suspend(() => this.#until(this.mark()))

  /**
   * Waits until all that was appended so far is stored, and says whether it is: not if the plan must stop for a reason for which
   * nobody waits on. Undefined if it took longer than so many milliseconds.
   */
  settled(isHopeless: (why: Stopped) => boolean, withinMs = Infinity): Effect.Effect<boolean | undefined> {
    return Effect.withFiber(({ context }) => {
      const isStored = this.mark()
      const isKnown = () => isStored() || (this.#stopped !== undefined && isHopeless(this.#stopped))
      if (isKnown()) return Effect.succeed(isStored())
      let isLate = false
      const giveUp = () => {
        isLate = true
        this.#advance()
      }
      const until = Effect.acquireUseRelease(
        Effect.sync(() => Alarm.set(withinMs, giveUp, context)),
        () => this.#until(() => isLate || isKnown()),
        (cancelAlarm) => Effect.sync(cancelAlarm)
      )
      return Effect.map(until, () => (isKnown() ? isStored() : undefined))
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
    this.#onStopped(why)
    this.#advance()
    return true
  }

  /** What the plan has come to, when it ends, is handed over, or waits for a decision. */
  #sum(changes: ReadonlyArray<PlanChange>, events: ReadonlyArray<PlanEvent>, at: string): ReadonlyArray<PlanChange> {
    const before = this.#gist
    const gist = before && PlanGist.add(before, events, at)
    this.#gist = gist
    const isEnding = changes.some(({ _tag }) => _tag === "Settled" || _tag === "HandedOver")
    const isTold = events.some((event) => !isDelta(event))
    if (!isEnding && !(isTold && gist && before && (PlanGist.isWaiting(gist) || PlanGist.isWaiting(before)))) {
      return []
    }
    return [PlanGist.summed(gist)]
  }

  take(now: number): Taken | undefined {
    if (this.#events.length === 0 && this.#changes.length === 0) return undefined
    const events = this.#events
    const gist = this.#gist
    const changes = this.#changes
    const until = this.#appended
    const first = this.#head + 1
    const time = fromMillis(now)
    const at = time > this.#at ? time : this.#at
    const written = Result.try(() => ({
      changes: [...changes, ...this.#sum(changes, events, at)],
      events: fromEvents(first, at, events)
    }))
    this.#at = at
    this.#head += events.length
    this.#events = []
    this.#changes = []
    this.#bytes = 0
    if (Result.isFailure(written)) {
      // What cannot be written as JSON ends its plan, not the writer of all plans.
      this.#head = first - 1
      this.#gist = gist
      this.#stop(new StorageError({ reason: new Rejected({ cause: written.failure }) }))
      return undefined
    }
    return {
      commit: { ...this.#plan, guard: this.#guard, ...written.success },
      stored: () => {
        this.#stored = until
        this.#live.publish(events.map((event, index) => toFrame(first + index, at, event)))
        this.#advance()
      },
      refused: () => this.lose(),
      failed: (error) => {
        // No reader has seen these events, so that their numbers can be given again.
        this.#head = first - 1
        // It may be what was rejected.
        this.#gist = undefined
        const settled = changes.filter(({ _tag }) => _tag === "Settled" || _tag === "Released")
        if (settled.length === 0 || changes.length === settled.length) {
          this.#stop(error)
          return
        }
        // A rejection of earlier rows must not lose the end of the plan.
        this.#changes = settled
        this.#events = events.slice(-2)
        this.#notify(this)
      }
    }
  }
}
