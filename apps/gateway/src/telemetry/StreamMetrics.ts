import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { counter, gauge, histogram } from "@bowline/runtime/unstable/telemetry/Instrument"
import { type Array, Clock, Context, Effect, Exit, Predicate, Scope, Stream } from "effect"

const open = gauge({ name: "bowline.streams.open", description: "Streams of events that are open" })
const frames = counter({ name: "bowline.stream.frames", description: "Frames that were written to streams" })
const pings = counter({ name: "bowline.stream.pings", description: "Pings that were written to streams" })

const silence = histogram({
  name: "bowline.stream.silence_at_close",
  description:
    "Streams that closed without `done`: the age of the last frame then. `caller`: the caller closed it; `reconnect`: the gateway " +
    "asked the caller to come back. Its count by `cause` is the number of streams",
  unit: "s",
  labels: { cause: ["caller", "reconnect", "failed"] }
})

type Anything = Context.Context<never>

/** What one stream has written so far. */
class Writing {
  readonly #context: Anything
  readonly #clock: Clock.Clock
  #lastFrameAt: number
  #last: unknown

  constructor(context: Anything) {
    this.#context = context
    this.#clock = Context.get(context, Clock.Clock)
    this.#lastFrameAt = Monotonic.millis(this.#clock)
    open.of({}).modifyUnsafe(1, context)
  }

  wrote(items: ReadonlyArray<unknown>): void {
    let count = 0
    for (const item of items) {
      if (typeof item !== "string") count++
      else if (item === "ping") pings.updateUnsafe(1, {}, this.#context)
    }
    this.#last = items.at(-1)
    if (count === 0) return
    this.#lastFrameAt = Monotonic.millis(this.#clock)
    frames.updateUnsafe(count, {}, this.#context)
  }

  closed(exit: Exit.Exit<unknown, unknown>): void {
    open.of({}).modifyUnsafe(-1, this.#context)
    const isWhole = this.#last === "Over" || (Predicate.hasProperty(this.#last, "event") && this.#last.event === "done")
    // A reader that has seen the end already gets nothing.
    if (isWhole || (this.#last === undefined && Exit.isSuccess(exit))) return
    const age = (Monotonic.millis(this.#clock) - this.#lastFrameAt) / 1_000
    const cause =
      this.#last === "reconnect" || this.#last === "Draining"
        ? "reconnect"
        : Exit.hasInterrupts(exit)
          ? "caller"
          : "failed"
    silence.updateUnsafe(age, { cause }, this.#context)
  }
}

/** The way past a stream to the connection that it is written to, for items that come while its reader waits. */
export interface ShortCut<Item> {
  readonly from: (write: (items: ReadonlyArray<Item>) => boolean | undefined) => void
  readonly to: (bytes: Uint8Array) => boolean
}

/** Measures a stream while it is written to a connection, and what goes past it: of all items that come, or of those that `passes` lets. */
export const writing = <Passing, Item, E>(
  stream: Stream.Stream<Item | Passing, E>,
  toBytes: (items: ReadonlyArray<Item | Passing>) => Uint8Array,
  shortCut?: ShortCut<Passing>,
  passes: (item: Passing) => boolean = () => true
): Stream.Stream<Uint8Array, E> =>
  // One layer around each pull, since it runs for every write.
  Stream.transformPull(stream, (pull, scope) =>
    Effect.contextWith((context: Anything) => {
      const progress = new Writing(context)
      shortCut?.from((items) => {
        if (!items.every(passes)) return undefined
        progress.wrote(items)
        const bytes = toBytes(items)
        return bytes.length === 0 || shortCut.to(bytes)
      })
      const written = Effect.map(pull, (items): Array.NonEmptyReadonlyArray<Uint8Array> => {
        progress.wrote(items)
        return [toBytes(items)]
      })
      return Effect.as(
        Scope.addFinalizerExit(scope, (exit) => Effect.sync(() => progress.closed(exit))),
        written
      )
    })
  )
