import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { EntryId } from "@bowline/domain/plan/Outcome"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { EventsExpired, InvalidRequest, NotFound } from "@bowline/domain/plan/Refusal"
import type { SessionId } from "@bowline/domain/session/Session"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Array, Cause, Clock, Context, Effect, Exit, Layer, Pull, Scope, Stream } from "effect"
import * as Alarm from "../process/Alarm.ts"
import * as Monotonic from "../process/Monotonic.ts"
import type { PlanFrame } from "../store/EventRow.ts"
import type { PlanReader, ReaderItem, Reading, Write } from "./LivePlan.ts"

/**
 * How a plan that is followed ends for its reader. `Over`: the plan is over, and all of it was given. `Draining`: this process shuts down
 * first, and the plan goes on elsewhere. `Gone`: the plan was deleted.
 */
export type Ended = "Over" | "Draining" | "Gone"

/** What a follower gets: frames, or what they were made to; `ping` after 10 s of silence; and last how it ended. */
export type Followed<Item> = Item | "ping" | Ended

const endings: ReadonlySet<unknown> = new Set<Ended>(["Over", "Draining", "Gone"])
export const isEnded = (item: unknown): item is Ended => endings.has(item)

/** The plan that is read, and what its reader gets. */
export type PlanReading = {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  /** `frames` are those from the acceptance of this entry on, out of these. */
  readonly from?: { readonly entry: EntryId; readonly frames: PlanReader }
} & Reading

/** Says of one item after the other whether the reader gets it. */
const shownFrom = (entry: EntryId | undefined) => {
  let isReached = entry === undefined
  return (item: ReaderItem): boolean =>
    typeof item === "string" ||
    (isReached ||= item.event === "inbox.accepted" && item.payload.includes(JSON.stringify(entry)))
}

/** The same reading from the acceptance of the entry on. */
export const readFrom = (reading: PlanReading, entry: EntryId | undefined): PlanReading => {
  if (entry === undefined) return reading
  const { frames } = reading
  return { ...reading, shortCut: undefined, frames: Stream.filter(frames, shownFrom(entry)), from: { entry, frames } }
}

/** A plan that is followed to its end. */
export interface FollowedPlan extends Pick<
  PlanReading,
  "plan_id" | "session_id" | "connect" | "leaveRunning" | "shortCut"
> {
  readonly frames: Stream.Stream<Followed<PlanFrame>, StorageError>
}

/** How long a reader that has fallen behind may take nothing, in milliseconds. Then it reads no more, and its connection is closed. */
const takesWithinMs = 60_000

/** How long the reader has heard nothing when a ping comes with the next reading, in milliseconds: that pings 10 s after its own begin. */
const unheardMs = 1_000

/** How long a reader waits that got nothing by its last reading. */
const pause = "250 millis"

type Read<A> = (
  caller: CallerName,
  plan: PlanId,
  after: number
) => Effect.Effect<A, NotFound | InvalidRequest | EventsExpired | StorageError, Scope.Scope>

/** What plans are followed by. */
interface Parts {
  readonly read: Read<PlanReading>
  readonly isDraining: Effect.Effect<boolean>
  /** `news` waits until there may be something new in the store; nothing comes any more once it `isClosed`. */
  readonly watch: (
    plan: PlanId
  ) => Effect.Effect<{ readonly news: Effect.Effect<void>; readonly isClosed: () => boolean }, never, Scope.Scope>
}

type Pulled<Item> = Pull.Pull<Array.NonEmptyReadonlyArray<Item>, StorageError>

/**
 * One reader of a plan, whatever it is read from.
 *
 *     reading ──done, or nothing more is stored──▶ Over
 *      ▲    └──reconnect──▶ shuts this process down, and does the plan leave it? ──yes──▶ Draining
 *      └──read behind the last seq──no──┘  └──there is no such plan──▶ Gone
 */
class Follower implements FollowedPlan {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly #parts: Parts
  readonly #caller: CallerName
  readonly #context: Context.Context<never>
  readonly #isShown: (item: ReaderItem) => boolean
  /** The reading that counts, and its scope, unless that is the caller's. */
  #reading: PlanReading
  #scope: Scope.Closeable | undefined
  /** The last seq that was given. */
  #seen: number
  /** Whether the reading has given nothing yet. */
  #isFresh = false
  #end: Ended | undefined
  #disconnect: () => void = () => undefined
  #close: (() => void) | undefined
  #write: Write | undefined
  /** When the reader was given something last. */
  #heardAt: number
  /** Since when the reader has not asked for more; undefined while it waits. */
  #givenAt: number | undefined
  #cancelAlarm: () => void = () => undefined

  constructor(parts: Parts, context: Context.Context<never>, caller: CallerName, reading: PlanReading, after: number) {
    this.#parts = parts
    this.#context = context
    this.#caller = caller
    this.#reading = reading
    this.#isShown = shownFrom(reading.from?.entry)
    this.#seen = after
    this.#heardAt = Monotonic.millis(Context.get(context, Clock.Clock))
    this.plan_id = reading.plan_id
    this.session_id = reading.session_id
  }

  readonly leaveRunning = Effect.suspend(() => this.#reading.leaveRunning)

  readonly connect: Reading["connect"] = (close) => {
    this.#close = close
    this.#connectReading()
    return () => this.#disconnect()
  }

  readonly shortCut = (write: Write): void => {
    this.#write = write
    this.#cutShort()
  }

  /** They can be run once. */
  get frames(): FollowedPlan["frames"] {
    return Stream.transformPull(this.#reading.from?.frames ?? this.#reading.frames, (pull, scope) =>
      Effect.as(
        Scope.addFinalizer(
          scope,
          Effect.sync(() => this.#cancelAlarm())
        ),
        this.#take(pull, scope)
      )
    )
  }

  #connectReading(): void {
    if (this.#close !== undefined) this.#disconnect = this.#reading.connect(() => this.#closeUnlessTaken())
  }

  #cutShort(): void {
    const write = this.#write
    if (write === undefined) return
    this.#reading.shortCut?.((frames) => {
      const takesMore = frames.every(this.#isShown) ? write(frames) : undefined
      if (takesMore !== undefined) this.#gave(frames)
      return takesMore
    })
  }

  #gave(frames: ReadonlyArray<PlanFrame>): void {
    const last = frames.at(-1)
    if (last === undefined) return
    this.#seen = last.seq
    this.#isFresh = false
    this.#heardAt = Monotonic.millis(Context.get(this.#context, Clock.Clock))
  }

  /** A reader that was cut off may be slow: it is given up when it has taken nothing for a while. */
  #closeUnlessTaken(): void {
    if (this.#givenAt === undefined) return
    const left = this.#givenAt + takesWithinMs - Monotonic.millis(Context.get(this.#context, Clock.Clock))
    if (left <= 0) return this.#close?.()
    this.#cancelAlarm = Alarm.set(left, () => this.#closeUnlessTaken(), this.#context)
  }

  #take(first: Pulled<ReaderItem>, scope: Scope.Scope): Pulled<Followed<PlanFrame>> {
    let pull = first
    let isCut = false
    return Effect.gen({ self: this }, function* () {
      this.#givenAt = undefined
      for (;;) {
        if (this.#end !== undefined) return yield* Cause.done()
        if (isCut) {
          isCut = false
          const next = yield* this.#readOn(scope)
          if (typeof next === "string") return [(this.#end = next)] as const
          pull = next
          const now = yield* Monotonic.now
          if (now - this.#heardAt >= unheardMs) {
            this.#givenAt = this.#heardAt = now
            return ["ping"] as const
          }
        }
        const items: ReadonlyArray<ReaderItem | Ended> = yield* Pull.catchDone(pull, () =>
          Effect.sync(() => [(this.#end = "Over" as const)])
        )
        isCut = items.at(-1) === "reconnect"
        const given = items.filter(
          (item): item is Followed<PlanFrame> => item !== "reconnect" && (isEnded(item) || this.#isShown(item))
        )
        const frame = items.findLast((item) => typeof item === "object")
        if (frame !== undefined) {
          this.#seen = frame.seq
          this.#isFresh = false
        }
        if (!Array.isReadonlyArrayNonEmpty(given)) continue
        this.#givenAt = this.#heardAt = yield* Monotonic.now
        return given
      }
    })
  }

  /** Reads the plan from behind the last seq. Gives how it has ended if there is nothing to read. */
  readonly #readOn = Effect.fnUntraced(function* (this: Follower, scope: Scope.Scope) {
    if ((yield* this.#parts.isDraining) && !this.#reading.isHere()) return "Draining" as const
    if (this.#isFresh) yield* Effect.sleep(pause)
    this.#isFresh = true
    const own = yield* Scope.fork(scope)
    const reading = yield* this.#parts.read(this.#caller, this.plan_id, this.#seen).pipe(
      Scope.provide(own),
      // Also if it was deleted just after it was found: then there is no event with this seq.
      Effect.catchTag(["NotFound", "InvalidRequest", "EventsExpired"], () => Effect.undefined)
    )
    if (reading === undefined) return "Gone" as const
    // Not earlier: the plan is never without a reader.
    yield* this.#reading.replaced
    if (this.#scope !== undefined) yield* Scope.close(this.#scope, Exit.void)
    this.#scope = own
    this.#reading = reading
    this.#connectReading()
    this.#cutShort()
    return yield* Scope.provide(Stream.toPull(reading.frames), own)
  })
}

/**
 * Follows plans to their ends, on whatever replica they run. What a reader that falls behind has missed comes from the store, and so does
 * the rest of a plan that is handed over, or taken over: no frame is missing, and none comes twice.
 */
export class PlanFollower extends Context.Service<
  PlanFollower,
  {
    /** Goes on from a reading that has given nothing yet, and that began behind the seq `after`. */
    readonly follow: (caller: CallerName, reading: PlanReading, after?: number) => FollowedPlan
    /** Follows a stored plan from behind the seq `after`. The caller is its reader until the scope closes. */
    readonly read: Read<FollowedPlan>
    /** Wakes who waits for a plan, or for the next plan of the task that the plan has begun. */
    readonly watch: Parts["watch"]
  }
>()("@bowline/runtime/stream/PlanFollower") {
  static readonly layerOf = <E, R>(parts: Effect.Effect<Parts, E, R>) =>
    Layer.effect(
      PlanFollower,
      Effect.gen(function* () {
        const given = yield* parts
        const context = yield* Effect.context()
        const follow = (caller: CallerName, reading: PlanReading, after = 0) =>
          new Follower(given, context, caller, reading, after)
        return {
          follow,
          read: (caller, plan, after) =>
            Effect.map(given.read(caller, plan, after), (reading) => follow(caller, reading, after)),
          watch: given.watch
        }
      })
    )
}
