import type { TaskId } from "@bowline/domain/tool/TaskState"
import { Context, Effect, Fiber, Option, Semaphore } from "effect"
import * as Monotonic from "../process/Monotonic.ts"

/** The place of a call among those that run at once. */
export interface Place {
  /** Leaves the place to another call for as long as the effect runs, and then waits for one. */
  readonly leave: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** When each of the calls of a step goes on. */
interface Turns {
  /** A step is about to make these calls, in this order. */
  readonly expect: (calls: ReadonlyArray<TaskId>) => void
  /** All that is done for this call. */
  readonly within: <A, E, R>(call: TaskId, make: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Waits until it is the turn of this call to show what readers see of it next: that its approval is requested, or resolved, that it starts, that it waits, or what it gives. */
  readonly await: (call: TaskId) => Effect.Effect<void>
}

/** Each call goes on as soon as it can, so chance decides which of two comes first. A replay gives them the order on record. */
export const CallTurns = Context.Reference<Turns>("@bowline/runtime/planner/CallTurns", {
  defaultValue: () => ({ expect: () => {}, within: (_call, make) => make, await: () => Effect.void })
})

/** How many calls of a step run at once. Those that wait for somebody do not count. */
export class Places {
  readonly #free: Semaphore.Semaphore

  constructor(count: number) {
    this.#free = Semaphore.makeUnsafe(count)
  }

  /** Waits for a place, and holds it for as long as the effect runs. */
  within<A, E, R>(use: (place: Place) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const free = this.#free
    return Effect.suspend(() => {
      let isHeld = false
      const take = Effect.uninterruptibleMask((restore) =>
        Effect.map(restore(free.take(1)), () => {
          isHeld = true
        })
      )
      const release = Effect.suspend(() => {
        if (!isHeld) return Effect.void
        isHeld = false
        return Effect.asVoid(free.release(1))
      })
      const place: Place = { leave: (effect) => Effect.tap(Effect.andThen(release, effect), () => take) }
      return Effect.ensuring(
        Effect.andThen(
          take,
          Effect.suspend(() => use(place))
        ),
        release
      )
    })
  }
}

/** The time that a call may take. It stands still while the call waits for somebody. */
export class CallTime {
  /** How much of it was left when the clock was started or stopped last. */
  #left: number
  /** When that was. */
  #since = 0
  #isStopped = false
  #onChange = () => {}

  constructor(left: number) {
    this.#left = left
  }

  /** How much of it is left while the clock is stopped. */
  get left(): number {
    return this.#left
  }

  #set(isStopped: boolean) {
    return Effect.map(Monotonic.now, (now) => {
      if (!this.#isStopped) this.#left -= now - this.#since
      this.#since = now
      this.#isStopped = isStopped
      this.#onChange()
    })
  }

  /** Stops the clock for as long as the effect runs. */
  stop<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.acquireUseRelease(
      this.#set(true),
      () => effect,
      () => this.#set(false)
    )
  }

  /** Returns when the call has ended, or its clock has stopped or goes on. */
  #change(call: Fiber.Fiber<unknown>, isStopped: boolean): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const tell = () => resume(Effect.void)
      this.#onChange = tell
      if (this.#isStopped === isStopped) return Effect.sync(call.addObserver(tell))
      tell()
      return undefined
    })
  }

  /**
   * The result of a call if it comes in time. The call runs detached, since a tool that does not let go must hold up neither the step
   * nor the plan's end: the time-out interrupts it and waits no longer, an interruption waits for it as long as the plan's end does.
   */
  limit<A>(call: Effect.Effect<A>): Effect.Effect<Option.Option<A>> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(Monotonic.now, (now) => {
        this.#since = now
        return Effect.flatMap(Effect.forkDetach(restore(call), { startImmediately: true }), (fiber) =>
          Effect.onInterrupt(restore(this.#end(fiber)), () => Fiber.interrupt(fiber))
        )
      })
    )
  }

  #end<A>(fiber: Fiber.Fiber<A>): Effect.Effect<Option.Option<A>> {
    return Effect.gen({ self: this }, function* () {
      while (fiber.pollUnsafe() === undefined) {
        const isStopped = this.#isStopped
        const change = this.#change(fiber, isStopped)
        if (isStopped) {
          yield* change
          continue
        }
        const inTime = yield* Effect.timeoutOption(change, this.#left)
        if (Option.isNone(inTime) && fiber.pollUnsafe() === undefined) {
          fiber.interruptUnsafe()
          return Option.none()
        }
      }
      return Option.some(yield* Fiber.join(fiber))
    })
  }
}
