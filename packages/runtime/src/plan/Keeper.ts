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

/** A place that is kept free for a value. */
export interface Place {
  readonly _tag: "Place"
}

export interface Keeper<K, A> {
  /**
   * Runs `life` in a fiber of its own, and returns the value that it announces. The value stands for the key until the fiber ends.
   * If the key has a value already, that one is replaced, and `life` begins when its fiber has ended. When the value is announced, it
   * takes the reserved place, if there is one.
   */
  readonly run: (
    key: K,
    life: (announce: (value: A) => Effect.Effect<void>) => Effect.Effect<void>,
    place?: Place
  ) => Effect.Effect<A>
  readonly find: (key: K) => A | undefined
  readonly values: () => Iterable<A>
  /** Keeps a place free until a value takes it, or the scope closes. */
  readonly reserve: Effect.Effect<Place, "draining" | "full", Scope.Scope>
  /** Has a drain wait until the scope closes, since values may come without a place of their own. */
  readonly delayDrain: Effect.Effect<void, "draining", Scope.Scope>
  /** How many places are free. */
  readonly room: () => number
  /** Whether values may be about to come. */
  readonly isExpecting: () => boolean
  /** Whether there is no value, and none may be about to come. */
  readonly isIdle: () => boolean
  /**
   * Refuses new places, and returns when it is idle: values have the grace to end by themselves, then they are asked to. One that
   * only waits is asked within a second.
   */
  readonly drain: (grace: Duration.Input) => Effect.Effect<void>
  readonly isDraining: () => boolean
}

/**
 * One fiber per key. A key and the keeper change their states like this. Whoever is reserved or announced counts once:
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
  const reserved = new Set<Place>()
  let delays = 0
  let state: "open" | "draining" | "ending" = "open"

  const isExpecting = () => reserved.size + delays > 0
  const isIdle = () => values.size === 0 && !isExpecting()
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

  const room = () => capacity - values.size - reserved.size
  const keeper: Keeper<K, A> = {
    run: Effect.fnUntraced(function* (key, life, place) {
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
            if (place !== undefined) reserved.delete(place)
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
    reserve: claim(
      Effect.suspend(() => {
        if (state !== "open") return Effect.fail("draining" as const)
        if (room() <= 0) return Effect.fail("full" as const)
        const place: Place = { _tag: "Place" }
        return Effect.as(
          change(() => reserved.add(place)),
          place
        )
      }),
      (place) => change(() => reserved.delete(place))
    ),
    delayDrain: claim(
      Effect.suspend(() => (state === "open" ? change(() => delays++) : Effect.fail("draining" as const))),
      () => change(() => delays--)
    ),
    room,
    isExpecting,
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
