import { type Cause, Clock, Context, Deferred, Duration, Effect, Queue, type Scope, Stream } from "effect"
import * as Alarm from "../process/Alarm.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { claim } from "../lock/Claim.ts"
import type { PlanFrame } from "../store/EventRow.ts"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { counter } from "../telemetry/Instrument.ts"

/**
 * What a reader of a plan gets: a frame; `ping`, after 10 s of silence; or `reconnect`, when the gateway ends the stream before
 * the plan is over for this reader. The reader then comes back with the last seq that it has seen.
 */
export type ReaderItem = PlanFrame | "ping" | "reconnect"

/** Ends after the `done` frame or a `reconnect`. */
export type PlanReader = Stream.Stream<ReaderItem, StorageError>

/** Writes frames to a connection, and says whether it takes more at once. If undefined, it has written none: they have to go through the reader's stream. */
export type Write = (frames: ReadonlyArray<PlanFrame>) => boolean | undefined

/** The frames for one reader. */
export interface Reading {
  readonly frames: PlanReader
  /**
   * Joins the reader to its connection. `close` is called 10 s after the reader was cut off: if it has not read its queue to the end by
   * then, it does not read any more. What it gives says that the connection has ended. The scope says so, too, but closes later when
   * many readers disconnect at once: a plan that waits for its provider does not wait for that.
   */
  readonly connect: (close: () => void) => () => void
  /**
   * Hands frames to the connection itself. While the reader waits and has taken everything, what is published goes to `write` and not to `frames`: no
   * fiber wakes for it. If the connection does not take more at once, the next frames go to `frames`, which waits for it.
   */
  readonly shortCut?: ((write: Write) => void) | undefined
  /** From now on the plan runs on when this reader disconnects, though nobody else reads it: the reader has what it came for. */
  readonly leaveRunning: Effect.Effect<void>
  /** The reader reads on by another reading: this one does not count any more. */
  readonly replaced: Effect.Effect<void>
  /** Whether the plan runs in this process. */
  readonly isHere: () => boolean
}

const cutOff = counter({
  name: "bowline.readers.cut_off",
  description: "Readers that were cut off, since too much waited for them"
})

/** How much may wait for a reader before it is cut off. The frame that exceeds it always fits. */
const maxFrames = 1_024
const maxCharacters = 1_048_576

/** How many frames, and how much of them, are kept for readers who come a little later, so that they need not be read from the store. */
const keptFrames = 256
const keptCharacters = 262_144

const silenceMs = 10_000

/** How long at least a reader that the gateway cut off still counts as connected. */
const cutOffGrace = Duration.seconds(60)

/** How long a reader that was cut off has to read the rest of its queue. */
const takeWithinMs = 10_000

/** How a stream ends for its readers: after the frame `done`, or before the plan is over; of a parked plan they read on from the store. */
type End = "done" | "reconnect" | "parked"

interface Reader {
  /** The last seq that the reader has seen elsewhere: it gets no frame before it. */
  readonly after: number
  readonly queue: Queue.Queue<ReaderItem, Cause.Done>
  /** Frames that are waiting in the queue, and their size. */
  frames: number
  characters: number
  /** In milliseconds of its clock's `Monotonic` time. */
  lastSent: number
  leavesRunning: boolean
  isGone: boolean
  isCut: boolean
  /** Whether it has taken everything, and waits for more. */
  isWaiting: boolean
  write: Write | undefined
  readonly context: Context.Context<never>
  readonly clock: Clock.Clock
  /** Cancels the alarm that is set: for the next ping or, once the reader is cut off, for its connection. */
  cancelAlarm: () => void
  close: () => void
}

/** Says `ping` whenever nothing was sent for a while. */
const awaitSilence = (reader: Reader): void => {
  const idle = Monotonic.millis(reader.clock) - reader.lastSent
  if (idle >= silenceMs) {
    Queue.offerUnsafe(reader.queue, "ping")
    reader.lastSent += idle
  }
  reader.cancelAlarm = Alarm.set(silenceMs - (idle % silenceMs), () => awaitSilence(reader), reader.context)
}

/**
 * The stored frames of a plan that runs in this process, and who reads them. It never waits for a reader: one that falls
 * too far behind is cut off, and can come back with the last seq that it has seen.
 */
export class LivePlan {
  /** The seq of the last frame that was published. */
  head = 0
  /** Done when no frame comes any more. */
  readonly closed = Deferred.makeUnsafe<void>()
  #recent: Array<PlanFrame> = []
  #recentCharacters = 0
  readonly #readers = new Set<Reader>()
  readonly #watchers = new Set<() => void>()
  #connected = 0
  /** Those of the connected ones that nobody is behind now: they may come back, or come for the first time. */
  #absent = 0
  /** Those of the connected ones that stand for a client which has yet to come back. */
  #held = 0
  #isOutdated = false
  #runsOn = false
  /** How many waits of it need no reader. */
  #holding = 0
  /** Done when the first reader has come. */
  readonly #met = Deferred.makeUnsafe<void>()
  #closed: End | undefined
  readonly #scope: Scope.Scope
  readonly #onAbandoned: (isOutdated: boolean) => void
  readonly #grace: Duration.Duration

  /**
   * The scope is the plan's. `onAbandoned` is called when the last reader has gone while the plan runs; a disconnected one counts as
   * connected for the grace, unless the plan is outdated.
   */
  constructor(
    scope: Scope.Scope,
    onAbandoned: (isOutdated: boolean) => void,
    grace: Duration.Duration = Duration.zero
  ) {
    this.#scope = scope
    this.#onAbandoned = onAbandoned
    this.#grace = grace
  }

  /** Frames that are stored: they go to every reader. */
  publish(frames: ReadonlyArray<PlanFrame>): void {
    const last = frames.at(-1)
    if (last === undefined) return
    this.head = last.seq
    this.#keep(frames)
    for (const reader of this.#readers) {
      this.#give(reader, frames)
      reader.lastSent = Monotonic.millis(reader.clock)
    }
    for (const tell of this.#watchers) tell()
  }

  /** No frame comes any more. Readers get what they have not taken yet, and `reconnect` if the plan is not over for them. */
  close(how: End): void {
    if (this.#closed !== undefined) return
    this.#closed = how
    Deferred.doneUnsafe(this.closed, Effect.void)
    for (const reader of this.#readers) this.#end(reader, how)
    this.#readers.clear()
  }

  /** Whether somebody reads it now, and not only may come back. */
  get isRead(): boolean {
    return this.#connected > this.#absent
  }

  /** Whether it is without a reader as long as it waits, and waits for one then. */
  get isHeld(): boolean {
    return this.#holding > 0
  }

  /** Whether a reader has left it running. */
  get runsOn(): boolean {
    return this.#runsOn
  }

  /** Whether another process has the plan, or will have it. */
  get isLeft(): boolean {
    return this.#closed === "reconnect" || this.#closed === "parked"
  }

  /** The frames from `after + 1` to `until` if they are still in memory. */
  recent(after: number, until: number): ReadonlyArray<PlanFrame> | undefined {
    if (after >= until) return []
    const first = this.#recent[0]
    if (first === undefined || first.seq > after + 1) return undefined
    return this.#recent.slice(after + 1 - first.seq, until + 1 - first.seq)
  }

  /**
   * The frames after `head`, which is `after`, unless frames after that are no longer in memory. The scope is the reader's
   * connection.
   */
  attach(after: number): Effect.Effect<
    Reading & {
      readonly head: number
      readonly frames: Stream.Stream<ReaderItem>
      readonly shortCut: (write: Write) => void
      /** Whether the reader has to read on from the store, behind `head` of the plan, once it has taken its frames. */
      readonly isParked: () => boolean
      /** Ends the stream of a reader that is still connected. */
      readonly cutOff: Effect.Effect<void>
    },
    never,
    Scope.Scope
  > {
    return Effect.flatMap(Queue.unbounded<ReaderItem, Cause.Done>(), (queue) =>
      Effect.contextWith((context) => {
        const clock = Context.get(context, Clock.Clock)
        const reader: Reader = {
          after,
          queue,
          frames: 0,
          characters: 0,
          lastSent: Monotonic.millis(clock),
          leavesRunning: false,
          isGone: false,
          isCut: false,
          isWaiting: false,
          write: undefined,
          context,
          clock,
          cancelAlarm: () => undefined,
          close: () => undefined
        }
        const entering = claim(
          Effect.sync(() => this.#enter(reader)),
          () => this.#detach(reader)
        )
        const taken = Effect.map(Queue.takeAll(reader.queue), (items) => {
          reader.isWaiting = false
          reader.frames = 0
          reader.characters = 0
          return items
        })
        const take = Effect.suspend(() => {
          reader.isWaiting = Queue.sizeUnsafe(reader.queue) === 0
          return taken
        })
        const shortCut = (write: Write) => {
          reader.write = write
        }
        const cutOff = Effect.sync(() => this.#cutOff(reader))
        const connect = (close: () => void) => {
          reader.close = close
          return () => this.#disconnect(reader)
        }
        const leaveRunning = Effect.sync(() => {
          this.#runsOn = true
          reader.leavesRunning = true
        })
        const replaced = Effect.sync(() => this.#replace(reader))
        const isHere = () => this.#closed === undefined
        const isParked = () => this.#closed === "parked" && !reader.isCut
        const frames = Stream.fromPull(Effect.succeed(take))
        return Effect.map(entering, (head) => ({
          head,
          frames,
          connect,
          shortCut,
          cutOff,
          leaveRunning,
          replaced,
          isHere,
          isParked
        }))
      })
    )
  }

  /** Connects a reader, and gives it the frames that are still in memory. Returns the seq after which it gets all of them. */
  #enter(reader: Reader): number {
    this.#connected++
    this.#releaseHeld()
    Deferred.doneUnsafe(this.#met, Effect.void)
    const recent = this.recent(reader.after, this.head)
    if (recent !== undefined) Queue.offerAllUnsafe(reader.queue, recent)
    if (this.#closed !== undefined) this.#end(reader, this.#closed)
    else {
      this.#readers.add(reader)
      awaitSilence(reader)
    }
    return recent === undefined ? this.head : reader.after
  }

  /** The session has a newer question: from now on the plan is abandoned as soon as nobody reads it, and no reader is waited for. */
  outdate(): void {
    this.#isOutdated = true
    if (this.#connected === this.#absent && this.#closed === undefined) this.#onAbandoned(true)
  }

  /** Counts as a reader until the first one comes, for so long at most: the plan's readers do not know yet that it is here. */
  awaitReader(within: Duration.Input): Effect.Effect<void> {
    return Effect.acquireUseRelease(
      Effect.sync(() => this.#connected++),
      () => this.#absence(Effect.asVoid(Effect.timeoutOption(Deferred.await(this.#met), within))),
      () => Effect.sync(() => this.#gone())
    )
  }

  /** Ends `awaitReader`: nobody has read the plan for long. */
  awaitNobody(): void {
    Deferred.doneUnsafe(this.#met, Effect.void)
  }

  /**
   * Counts as a reader while the plan waits, and then until somebody reads it who has come since the wait began: a client whose answer ends with
   * the wait comes back with what the plan waits for.
   */
  holdWhile<A, E, R>(wait: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.#connected++
        this.#holding++
        return new Set<unknown>([...this.#readers, ...this.#watchers])
      }),
      () => wait,
      (before) =>
        Effect.sync(() => {
          this.#holding--
          const isRead = [...this.#readers, ...this.#watchers].some((reader) => !before.has(reader))
          if (isRead) this.#gone()
          else this.#held++
        })
    )
  }

  /** Somebody reads the plan again. */
  #releaseHeld(): void {
    this.#isOutdated = false
    this.#connected -= this.#held
    this.#held = 0
  }

  /** Adds a reader that reads the store itself. Calls it once at first, and whenever there are new frames. */
  watch(tell: () => void): Effect.Effect<void, never, Scope.Scope> {
    const enter = Effect.sync(() => {
      this.#connected++
      this.#releaseHeld()
      Deferred.doneUnsafe(this.#met, Effect.void)
      this.#watchers.add(tell)
      tell()
    })
    const leave = Effect.suspend(() => {
      this.#watchers.delete(tell)
      return this.#leave(this.#grace)
    })
    return claim(enter, () => leave)
  }

  #keep(frames: ReadonlyArray<PlanFrame>): void {
    this.#recent.push(...frames)
    for (const { payload } of frames) this.#recentCharacters += payload.length
    if (this.#recent.length <= 2 * keptFrames && this.#recentCharacters <= keptCharacters) return
    let from = this.#recent.length
    this.#recentCharacters = 0
    while (from > 0 && this.#recent.length - from < keptFrames) {
      const { length } = this.#recent[from - 1]?.payload ?? ""
      if (this.#recentCharacters + length > keptCharacters / 2) break
      this.#recentCharacters += length
      from--
    }
    this.#recent = this.#recent.slice(from)
  }

  #give(reader: Reader, frames: ReadonlyArray<PlanFrame>): void {
    if (reader.write !== undefined && reader.isWaiting) {
      const [first] = frames
      const isNew = first !== undefined && first.seq > reader.after
      const unseen = isNew ? frames : frames.filter(({ seq }) => seq > reader.after)
      const takesMore = unseen.length === 0 || reader.write(unseen)
      // What follows those that it has not written waits behind them.
      reader.isWaiting = takesMore === true
      if (takesMore !== undefined) return
    }
    for (const frame of frames) {
      // Another replica's reader may have been faster than this one's writer.
      if (frame.seq <= reader.after) continue
      const isFull = reader.frames >= maxFrames || reader.characters >= maxCharacters
      // The last frame often comes right after a large one: a reader that has waited for it is not cut off.
      if (isFull && frame.event !== "done") {
        this.#cutOff(reader)
        return
      }
      reader.frames++
      reader.characters += frame.payload.length
      Queue.offerUnsafe(reader.queue, frame)
    }
  }

  #cutOff(reader: Reader): void {
    reader.isCut = true
    this.#end(reader, "reconnect")
    this.#readers.delete(reader)
    cutOff.updateUnsafe(1, {}, reader.context)
    reader.cancelAlarm = Alarm.set(takeWithinMs, () => reader.close(), reader.context)
  }

  #end(reader: Reader, how: End): void {
    reader.cancelAlarm()
    if (how === "reconnect") Queue.offerUnsafe(reader.queue, "reconnect")
    Queue.endUnsafe(reader.queue)
  }

  #disconnect(reader: Reader): void {
    // One that has more time counts as connected.
    if (reader.isGone || reader.leavesRunning || reader.isCut || !Duration.isZero(this.#grace)) return
    reader.isGone = true
    this.#gone()
  }

  #replace(reader: Reader): void {
    if (reader.isGone) return
    reader.isGone = true
    // Of two readings that leave the plan running, the other one stays counted.
    if (!reader.leavesRunning) this.#gone()
  }

  #detach(reader: Reader): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.#readers.delete(reader)
      reader.cancelAlarm()
      // One that leaves the plan running stays counted: the plan is never without a reader.
      if (reader.isGone || reader.leavesRunning) return Effect.void
      return this.#leave(reader.isCut ? Duration.max(cutOffGrace, this.#grace) : this.#grace)
    })
  }

  /** A reader has disconnected, and counts as connected for this time. */
  #leave(grace: Duration.Duration): Effect.Effect<void> {
    const gone = Effect.sync(() => this.#gone())
    if (Duration.isZero(grace)) return gone
    const waiting = Effect.andThen(this.#absence(Effect.sleep(grace)), gone)
    return Effect.asVoid(Effect.forkIn(waiting, this.#scope, { startImmediately: true }))
  }

  #absence<A>(wait: Effect.Effect<A>): Effect.Effect<A> {
    return Effect.acquireUseRelease(
      Effect.sync(() => {
        this.#absent++
        if (this.#isOutdated) this.outdate()
      }),
      () => wait,
      () => Effect.sync(() => this.#absent--)
    )
  }

  #gone(): void {
    this.#connected--
    if (this.#connected === 0 && this.#closed === undefined) this.#onAbandoned(this.#isOutdated)
  }
}
