import type { PlanId } from "@bowline/domain/plan/Plan"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Latch, Layer, Result } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import { type Committed, type PlanCommit, PlanStore } from "../store/PlanStore.ts"
import { gauge, histogram, observe } from "../telemetry/Instrument.ts"

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

/** The commits of a plan. `take` returns none when the plan has nothing to write. `now` is in milliseconds since 1970. */
export interface Source {
  readonly take: (now: number) => Taken | undefined
}

/**
 * The one writer of this process. It never waits for a batch to fill: the next batch is whatever all plans have
 * appended while the last batch was written. While the database is away it retries; each plan decides how long it waits.
 */
export class GroupCommit extends Context.Service<
  GroupCommit,
  {
    /** The source has something to write. */
    readonly notify: (source: Source) => void
  }
>()("@bowline/runtime/stream/GroupCommit") {
  static readonly layer = Layer.effect(
    GroupCommit,
    Effect.gen(function* () {
      const store = yield* PlanStore
      const sources = new Set<Source>()
      const pending = Latch.makeUnsafe(false)
      const context = yield* Effect.context()
      const clock = Context.get(context, Clock.Clock)
      /** When the first event of the next batch came, and of the one that is written now. */
      let nextSince: number | undefined
      let since: number | undefined
      const age = () => {
        const now = Monotonic.millis(clock)
        return (now - (since ?? nextSince ?? now)) / 1_000
      }
      yield* observe(waiting.of({}), age)

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
          const now = clock.currentTimeMillisUnsafe()
          const batch = Array.from(sources, (source) => source.take(now)).filter((taken) => taken !== undefined)
          sources.clear()
          since = nextSince
          nextSince = undefined
          if (batch.length > 0) {
            for (const round of inRounds(batch)) yield* write(round)
            lag.updateUnsafe(age(), {}, context)
          }
          // A store in memory has answered already: the plans go on before the next batch is taken.
          yield* Effect.yieldNow
        }
      }).pipe(
        Effect.catchCause((cause) => Effect.logError("event_writer_failed", cause)),
        Effect.forever,
        Effect.forkScoped
      )

      return {
        notify: (source) => {
          nextSince ??= Monotonic.millis(clock)
          sources.add(source)
          pending.openUnsafe()
        }
      }
    })
  )
}

/**
 * Each round has one commit of a plan at most. A plan that its own process has taken over again has two writers for a moment: what the
 * store refuses to the old one, it may store for the new one.
 */
const inRounds = (batch: ReadonlyArray<Taken>): ReadonlyArray<ReadonlyArray<Taken>> => {
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
