import { Deferred, type Duration, Effect, Exit, Fiber, FiberMap, Latch, Option, Schedule, type Scope } from "effect"
import { claim } from "../lock/Claim.ts"

interface Options<A> {
  /** The most values and reserved places at one time. */
  readonly capacity: number
  /** Asks the fiber of a value to end, also one that was asked before. */
  readonly end: (value: A) => void
  /** Whether a value needs no grace now. */
  readonly isWaiting: (value: A) => boolean
  /** Tells an older value of a key that a new one replaces it: its fiber is to end. */
  readonly replace: (value: A) => void
  /** How long values may take to end, and what happens to one that takes longer. */
  readonly endWithin: Duration.Input
  readonly abandon: (value: A) => void
}

export interface Keeper<K, A> {
  /**
   * Runs `life` in a fiber of its own, and returns the value that it announces. The value stands for the key until the fiber ends.
   * If the key has a value already, that one is replaced, and `life` begins when its fiber has ended.
   */
  readonly run: (key: K, life: (announce: (value: A) => Effect.Effect<void>) => Effect.Effect<void>) => Effect.Effect<A>
  readonly find: (key: K) => A | undefined
  readonly values: () => Iterable<A>
  /** Keeps a place free until the scope closes. */
  readonly reserve: Effect.Effect<void, "draining" | "full", Scope.Scope>
  /** The same, also where no place is free. */
  readonly reserveAnyway: Effect.Effect<void, "draining", Scope.Scope>
  /** How many places are free. */
  readonly room: () => number
  /** Whether a place is reserved. */
  readonly isReserved: () => boolean
  /** Whether there is neither a value nor a reserved place. */
  readonly isIdle: () => boolean
  /**
   * Refuses new places, and returns when it is idle: values have the grace to end by themselves, then they are asked to. One that
   * only waits is asked within a second.
   */
  readonly drain: (grace: Duration.Input) => Effect.Effect<void>
  readonly isDraining: () => boolean
}

/**
 * One fiber per key. A key and the keeper change their states like this:
 *
 *     free ──reserve──▶ reserved ──run──▶ announced ──the fiber ends──▶ free
 *       └───────────────run──────────────────▲ └─run: replaced, the fiber ends─▲ announced
 *
 *     open ──drain──▶ draining ──the grace or the scope ends──▶ ending ──endWithin──▶ abandoned
 *
 * What is announced while the keeper is ending is asked to end at once. The fibers are interrupted when the scope has closed.
 */
export const make = Effect.fnUntraced(function* <K, A>(options: Options<A>) {
  const { capacity, end, isWaiting, replace, endWithin, abandon } = options
  const fibers = yield* FiberMap.make<K, void>()
  const values = new Map<K, A>()
  const idle = Latch.makeUnsafe(true)
  let reserved = 0
  let state: "open" | "draining" | "ending" = "open"

  const isIdle = () => values.size + reserved === 0
  const change = (by: () => void) =>
    Effect.sync(() => {
      by()
      if (isIdle()) idle.openUnsafe()
      else idle.closeUnsafe()
    })

  const endAll = Effect.suspend(() => {
    // A drain has already asked all values to end, and waited for them.
    if (state === "ending") return Effect.void
    state = "ending"
    for (const value of values.values()) end(value)
    const abandonAll = Effect.sync(() => values.forEach(abandon))
    return Effect.timeoutOrElse(idle.await, { duration: endWithin, orElse: () => abandonAll })
  })
  yield* Effect.addFinalizer(() => endAll)

  const endWaiting = Effect.sync(() => {
    for (const value of values.values()) if (isWaiting(value)) end(value)
  })

  const room = () => capacity - values.size - reserved
  const takePlace = Effect.suspend(() =>
    state === "open" ? change(() => reserved++) : Effect.fail("draining" as const)
  )
  const reserve = <E>(take: Effect.Effect<void, E>) => claim(take, () => change(() => reserved--))
  const keeper: Keeper<K, A> = {
    run: Effect.fnUntraced(function* (key, life) {
      const older = values.get(key)
      if (older !== undefined) {
        replace(older)
        const fiber = yield* FiberMap.get(fibers, key)
        if (Option.isSome(fiber)) yield* Fiber.await(fiber.value)
      }
      const announced = Deferred.makeUnsafe<A>()
      const announce = (value: A) =>
        Effect.andThen(
          change(() => {
            values.set(key, value)
            if (state === "ending") end(value)
          }),
          Deferred.succeed(announced, value)
        )
      const running = life(announce).pipe(
        Effect.ensuring(change(() => values.delete(key))),
        // A fiber that ends before it announces a value must not leave its caller waiting.
        Effect.onExit((exit) =>
          Deferred.done(
            announced,
            Exit.isFailure(exit) ? Exit.failCause(exit.cause) : Exit.die("Nothing was announced")
          )
        )
      )
      yield* FiberMap.run(fibers, key, running)
      return yield* Deferred.await(announced)
    }),
    find: (key) => values.get(key),
    values: () => values.values(),
    reserve: reserve(
      Effect.suspend(() => (state === "open" && room() <= 0 ? Effect.fail("full" as const) : takePlace))
    ),
    reserveAnyway: reserve(takePlace),
    room,
    isReserved: () => reserved > 0,
    isIdle,
    drain: (grace) =>
      Effect.suspend(() => {
        if (state === "open") state = "draining"
        const ended = Effect.raceFirst(idle.await, Effect.repeat(endWaiting, Schedule.spaced("1 second")))
        return Effect.timeoutOrElse(ended, { duration: grace, orElse: () => endAll })
      }),
    isDraining: () => state !== "open"
  }
  return keeper
})
