import type { PlanId } from "@bowline/domain/plan/Plan"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Context, Effect, Latch, Layer, Result } from "effect"
import * as Alarm from "../process/Alarm.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { type Committed, type PlanCommit, PlanStore } from "../store/PlanStore.ts"
import { gauge, histogram, observe } from "../telemetry/Instrument.ts"
import * as Linger from "./Linger.ts"

const lag = histogram({
  name: "bowline.events.lag",
  description: "From the first event of a batch until the batch is stored and its frames are sent",
  unit: "s",
  boundaries: Array.from({ length: 16 }, (_, power) => 2 ** power / 1_000)
})
const waiting = gauge({
  name: "bowline.events.waiting",
  description: "How long the oldest event that is not stored has waited; 0 if all are stored",
  unit: "s"
})

/** The waits, in milliseconds, before the next attempt to commit: each one is twice as long as the one before. */
const firstWait = 100
const longestWait = 1_000

/** All that one plan has to write at this time. One of its ends is called; `refused` also when `stored` throws. */
export interface Taken {
  readonly commit: PlanCommit
  readonly stored: (isBehind: boolean) => void
  readonly unread: () => void
  readonly refused: () => void
  readonly failed: (error: StorageError) => void
}

/** The commits of a plan. `take` returns none when the plan has nothing to write. `now` is in ISO 8601. */
export interface Source {
  readonly take: (now: string) => Taken | undefined
}

/**
 * The one writer of this process. The next batch is what all plans have appended while the last batch was written. It does not wait for a batch to fill,
 * but for pieces of texts that may linger: they wait for company while several plans stream. While the database is away it retries; each plan decides
 * how long it waits.
 *
 *   notify ──urgent, or streams alone─────────▶ pending ──▶ batch: all that is urgent or due ──▶ stored ──▶ published
 *      └─────may linger──▶ lingering ──alarm──▶    ▲                 what is not due yet lingers on
 *                               └──urgent──────────┘
 */
export class GroupCommit extends Context.Service<
  GroupCommit,
  {
    /** The source has something to write. What may linger is written a little later if other plans stream, too. */
    readonly notify: (source: Source, mayLinger?: boolean) => void
  }
>()("@bowline/runtime/stream/GroupCommit") {
  static readonly layer = Layer.effect(
    GroupCommit,
    Effect.gen(function* () {
      const store = yield* PlanStore
      /** When the first event came that each of them has to write: of those that are written with the next batch, and of those that linger. */
      const urgent = new Map<Source, number>()
      const lingering = new Map<Source, number>()
      const streams = new Linger.Streams()
      const linger = store.isDurable ? Linger.durable : Linger.inMemory
      const pending = Latch.makeUnsafe(false)
      const context = yield* Effect.context()
      const clock = Context.get(context, Clock.Clock)
      /** When the last batch began. */
      let began = -Infinity
      let cancelAlarm: (() => void) | undefined
      /** When the first event of the batch came that is written now. */
      let since: number | undefined
      const age = () => {
        const now = Monotonic.millis(clock)
        return (now - Math.min(since ?? now, firstOf(urgent) ?? now, firstOf(lingering) ?? now)) / 1_000
      }
      yield* observe(waiting.of({}), age)
      yield* Effect.addFinalizer(() => Effect.sync(() => cancelAlarm?.()))

      const ring = () => {
        cancelAlarm = undefined
        pending.openUnsafe()
      }
      const setAlarm = (now: number) => {
        const first = firstOf(lingering)
        if (first === undefined || cancelAlarm !== undefined) return
        const ms = Linger.until(linger, streams.count(now), first, began) - now
        if (ms <= 0) ring()
        else cancelAlarm = Alarm.set(Math.ceil(ms), ring, context)
      }

      /** Those that are written now, with the time of the first event of all of them. */
      const takeSources = (now: number) => {
        const due = now - Linger.company(linger, streams.count(now))
        for (const [source, at] of lingering) {
          // They stand in the order of their times.
          if (at > due) break
          lingering.delete(source)
          urgent.set(source, at)
        }
        const first = Math.min(...urgent.values())
        const sources = Array.from(urgent.keys())
        urgent.clear()
        return { first, sources }
      }

      /** Commits until the database has answered, and gives what is to be known of the commits. */
      const commit = (
        commits: ReadonlyArray<PlanCommit>,
        wait = firstWait
      ): Effect.Effect<ReadonlyMap<PlanId, Committed>, StorageError> =>
        store.commit(commits).pipe(
          Effect.catchDefect((cause) => Effect.fail(new StorageError({ reason: new Rejected({ cause }) }))),
          Effect.catchTag("StorageError", (error) =>
            Effect.andThen(
              Effect.logError("events_not_written", error.reason.cause),
              error.reason.isRetryable
                ? // The store recognises a commit that is repeated because its answer was lost.
                  Effect.delay(
                    Effect.suspend(() => commit(commits, Math.min(wait * 2, longestWait))),
                    wait
                  )
                : Effect.fail(error)
            )
          )
        )

      const write = (batch: ReadonlyArray<Taken>): Effect.Effect<void> =>
        commit(batch.map(({ commit }) => commit)).pipe(
          Effect.flatMap((committed) => complete(batch, committed)),
          Effect.catchTag("StorageError", (error) => {
            const [first, ...others] = batch
            // A plan whose rows are rejected must not fail the other plans of the batch.
            if (others.length > 0) return Effect.forEach(batch, (taken) => write([taken]), { discard: true })
            return Effect.sync(() => first?.failed(error))
          })
        )

      yield* Effect.gen(function* () {
        for (;;) {
          since = undefined
          yield* pending.await
          pending.closeUnsafe()
          const at = Monotonic.millis(clock)
          const { first, sources } = takeSources(at)
          const now = fromMillis(clock.currentTimeMillisUnsafe())
          const batch = sources.map((source) => source.take(now)).filter((taken) => taken !== undefined)
          if (batch.length > 0) {
            began = at
            since = first
            for (const round of inRounds(batch)) yield* write(round)
            lag.updateUnsafe((Monotonic.millis(clock) - first) / 1_000, {}, context)
          }
          setAlarm(Monotonic.millis(clock))
          // A store in memory has answered already: the plans go on before the next batch is taken.
          yield* Effect.yieldNow
        }
      }).pipe(
        Effect.catchCause((cause) => Effect.logError("event_writer_failed", cause)),
        Effect.forever,
        Effect.forkScoped
      )

      return {
        notify: (source, mayLinger = false) => {
          if (urgent.has(source) || (mayLinger && lingering.has(source))) return
          const now = Monotonic.millis(clock)
          if (mayLinger) {
            streams.add(source, now)
            if (streams.count(now) > 1) {
              lingering.set(source, now)
              setAlarm(now)
              return
            }
          }
          urgent.set(source, lingering.get(source) ?? now)
          lingering.delete(source)
          pending.openUnsafe()
        }
      }
    })
  )
}

const firstOf = (times: ReadonlyMap<unknown, number>): number | undefined => {
  const [first] = times.values()
  return first
}

/**
 * Each round has one commit of a plan at most. A plan that its own process has taken over again has two writers for a moment: what the
 * store refuses to the old one, it may store for the new one.
 */
const inRounds = (batch: ReadonlyArray<Taken>): ReadonlyArray<ReadonlyArray<Taken>> => {
  if (batch.length === 1) return [batch]
  const rounds: Array<Array<Taken>> = []
  const counts = new Map<PlanId, number>()
  for (const taken of batch) {
    const { plan_id } = taken.commit
    const round = counts.get(plan_id) ?? 0
    counts.set(plan_id, round + 1)
    ;(rounds[round] ??= []).push(taken)
  }
  return rounds
}

const tell = (taken: Taken, committed: Committed | undefined): unknown => {
  if (committed === "refused") return taken.refused()
  return committed === "unread" ? taken.unread() : taken.stored(committed === "behind")
}

const complete = (batch: ReadonlyArray<Taken>, committed: ReadonlyMap<PlanId, Committed>): Effect.Effect<void> => {
  const bugs: Array<unknown> = []
  for (const taken of batch) {
    const told = Result.try(() => tell(taken, committed.get(taken.commit.plan_id)))
    if (Result.isSuccess(told)) continue
    // A bug in one plan must not keep the others from their ends. Its rows are stored: it stops, and is resumed from them.
    bugs.push(told.failure)
    taken.refused()
  }
  return bugs.length === 0
    ? Effect.void
    : Effect.forEach(bugs, (bug) => Effect.logError("plan_not_reported", bug), { discard: true })
}
