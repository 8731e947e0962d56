import { counter, gauge, observe } from "@bowline/runtime/unstable/telemetry/Instrument"
import { Clock, Data, Deferred, Duration, Effect, Option, Queue, type Scope } from "effect"

/** How a process ended. */
export interface Death {
  readonly code: number | null
  readonly signal: string | null
}

/** A process that serves the gateway's port together with others. */
export interface Worker {
  /** Succeeds once it accepts connections. */
  readonly listening: Effect.Effect<void>
  /** Succeeds once it has ended. */
  readonly ended: Effect.Effect<Death>
  /** Shuts it down as SIGTERM does: new plans are refused from then on. */
  readonly stop: Effect.Effect<void>
  /** The same, but first it takes no more connections, and serves those that are open until they are idle: nothing is refused. */
  readonly leave: Effect.Effect<void>
  readonly kill: Effect.Effect<void>
}

/** Workers died as often as `maxDeaths` within `deathWindow`. */
export class TooManyDeaths extends Data.TaggedError("TooManyDeaths")<{ readonly last: Death }> {
  override get message(): string {
    const { code, signal } = this.last
    return `Workers died ${maxDeaths} times within a minute, the last one with ${signal ?? `exit code ${code}`}. The log above says why`
  }
}

/** The first worker ended before it accepted connections. It has said why. */
export class NeverListened extends Data.TaggedError("NeverListened")<{ readonly death: Death }> {}

const maxDeaths = 10
const deathWindow = Duration.toMillis("1 minute")

/** The pause before a worker is replaced that died: it doubles with each death of the last minute. */
const firstPause = 100
const longestPause = 5_000

const restarts = counter({
  name: "bowline.workers.restarts",
  description: "Workers that died and were replaced"
})
const running = gauge({ name: "bowline.workers", description: "Workers that accept connections" })

interface Options<R> {
  /** How many serve, at least 1. */
  readonly count: number
  /** Starts the worker of a place, which is a number from 1 to `count`. */
  readonly fork: (place: number) => Effect.Effect<Worker, never, R>
  /** Asks for a restart without a gap. */
  readonly restartAsked: Queue.Dequeue<unknown>
  /** How long a worker that leaves may take before it is killed, by the configuration that the first workers read. */
  readonly patience: Duration.Duration
  /** The same, by the configuration that the next workers would read. If that cannot be used, there is none, and the workers that run stay. */
  readonly nextPatience: Effect.Effect<Option.Option<Duration.Duration>>
}

/**
 * Keeps `count` workers running until it is interrupted. Each place has a fiber of its own, which owns the place's worker:
 *
 *     fork ─▶ listening ──dies──▶ pause ─▶ fork …
 *                 │
 *              restart ─▶ fork the next one ──listening──▶ the former leaves ─▶ listening
 *                                 └──dies──▶ the former stays
 *
 * A restart goes from place to place, so that all but one serve meanwhile. Interrupted, it stops all workers and waits for their end.
 */
export const supervise = Effect.fnUntraced(function* <R>({
  count,
  fork,
  nextPatience,
  patience,
  restartAsked
}: Options<R>): Effect.fn.Return<never, NeverListened | TooManyDeaths, R | Scope.Scope> {
  const alive = new Set<Worker>()
  const serving = new Map<number, Worker>()
  yield* observe(running.of({}), () => serving.size)

  const stopAll = Effect.suspend(() =>
    Effect.forEach(alive, (worker) => Effect.andThen(worker.stop, worker.ended), {
      concurrency: "unbounded",
      discard: true
    })
  )
  yield* Effect.addFinalizer(() => stopAll)

  // Nothing can come between the start of a process and the note that it runs.
  const start = (place: number) =>
    Effect.uninterruptible(Effect.tap(fork(place), (worker) => Effect.sync(() => alive.add(worker))))
  /** Waits until a worker accepts connections, or has ended. */
  const settled = (worker: Worker) =>
    Effect.raceFirst(
      Effect.as(worker.listening, Option.none<Death>()),
      Effect.map(worker.ended, (death) => Option.some(death))
    )
  const buried = (worker: Worker) => Effect.sync(() => alive.delete(worker))

  const deaths: Array<number> = []
  const pauseAfter = Effect.fnUntraced(function* (place: number, death: Death) {
    const now = yield* Clock.currentTimeMillis
    while (deaths[0] !== undefined && deaths[0] <= now - deathWindow) deaths.shift()
    deaths.push(now)
    if (deaths.length >= maxDeaths) return yield* new TooManyDeaths({ last: death })
    const pause = Math.min(longestPause, firstPause * 2 ** (deaths.length - 1))
    yield* Effect.annotateLogs(Effect.logWarning("worker_died"), { worker: place, ...death, restart_in_ms: pause })
    yield* restarts.update(1, {})
    yield* Effect.sleep(pause)
  })

  // A worker that leaves has read one of the configurations so far: it gets the longest time of them.
  let longest = patience
  const leave = Effect.fnUntraced(function* (worker: Worker) {
    yield* worker.leave
    const left = yield* Effect.timeoutOption(worker.ended, longest)
    if (Option.isNone(left)) yield* Effect.andThen(worker.kill, worker.ended)
    yield* buried(worker)
  })

  const replace = Effect.fnUntraced(function* (place: number, former: Worker) {
    const next = yield* start(place)
    const death = yield* settled(next)
    if (Option.isSome(death)) {
      yield* buried(next)
      yield* Effect.annotateLogs(Effect.logError("worker_not_replaced"), { worker: place, ...death.value })
      return former
    }
    serving.set(place, next)
    yield* leave(former)
    return next
  })

  /** Starts the worker of a place, until one accepts connections. */
  const fill = Effect.fnUntraced(function* (place: number) {
    while (true) {
      const worker = yield* start(place)
      const death = yield* settled(worker)
      if (Option.isNone(death)) return worker
      yield* buried(worker)
      yield* pauseAfter(place, death.value)
    }
  })

  const keep = Effect.fnUntraced(function* (
    place: number,
    replacements: Queue.Dequeue<Deferred.Deferred<boolean>>,
    first: Worker | undefined
  ): Effect.fn.Return<never, TooManyDeaths, R> {
    let worker = first ?? (yield* fill(place))
    while (true) {
      serving.set(place, worker)
      const next = yield* Effect.raceFirst(worker.ended, Queue.take(replacements))
      if (Deferred.isDeferred<boolean, never>(next)) {
        const former = worker
        worker = yield* replace(place, former)
        yield* Deferred.succeed(next, worker !== former)
      } else {
        serving.delete(place)
        yield* buried(worker)
        yield* pauseAfter(place, next)
        worker = yield* fill(place)
      }
    }
  })

  // One starts before the others: it migrates the database, and what stops it would stop all, which only one of them should say.
  const first = yield* start(1)
  const stillborn = yield* settled(first)
  if (Option.isSome(stillborn)) {
    yield* buried(first)
    return yield* new NeverListened({ death: stillborn.value })
  }
  const places = yield* Effect.forEach(Array.from({ length: count }), () =>
    Queue.unbounded<Deferred.Deferred<boolean>>()
  )

  const restart = Effect.gen(function* () {
    yield* Queue.take(restartAsked)
    const next = yield* nextPatience
    if (Option.isNone(next)) return
    longest = Duration.max(longest, next.value)
    yield* Effect.logInfo("workers_restarting")
    for (const replacements of places) {
      const done = yield* Deferred.make<boolean>()
      yield* Queue.offer(replacements, done)
      // The next ones would fail in the same way.
      if (!(yield* Deferred.await(done))) return
    }
    yield* Effect.logInfo("workers_restarted")
  })
  const kept = Effect.forEach(
    places,
    (replacements, index) => keep(index + 1, replacements, index === 0 ? first : undefined),
    { concurrency: "unbounded", discard: true }
  )
  return yield* Effect.raceFirst(Effect.forever(restart), Effect.andThen(kept, Effect.never))
})
