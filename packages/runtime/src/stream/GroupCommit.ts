import type { PlanId } from "@bowline/domain/plan/Plan"
import { Rejected, StorageError } from "@bowline/domain/storage/StorageError"
import { Clock, Context, Effect, Latch, Layer, Schedule } from "effect"
import { type PlanCommit, PlanStore } from "../store/PlanStore.ts"
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

/** All that one plan has to write at this time. One of its three ends is called; `refused` also when `stored` throws. */
export interface Taken {
  readonly commit: PlanCommit
  readonly stored: (now: number) => void
  readonly refused: () => void
  readonly failed: (error: StorageError) => void
}

/** The commits of a plan. `take` returns none when the plan has nothing to write. */
export interface Source {
  readonly take: () => Taken | undefined
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
      const clock = yield* Clock.Clock
      /** When the first event of the next batch came, and of the one that is written now. */
      let nextSince: number | undefined
      let since: number | undefined
      const age = () =>
        (clock.currentTimeMillisUnsafe() - (since ?? nextSince ?? clock.currentTimeMillisUnsafe())) / 1_000
      yield* observe(waiting.of({}), age)

      const write = (batch: ReadonlyArray<Taken>): Effect.Effect<void> =>
        // The store recognises a commit that is repeated because its answer was lost.
        store.commit(batch.map(({ commit }) => commit)).pipe(
          Effect.catchDefect((cause) => Effect.fail(rejection(cause))),
          Effect.tapError((error) => Effect.logError("events_not_written", error.reason.cause)),
          Effect.retry({ while: (error) => error.reason.isRetryable, schedule: whileAway }),
          Effect.flatMap((refused) => complete(batch, refused)),
          Effect.catchTag("StorageError", (error) => {
            const [first, ...others] = batch
            // A plan whose rows are rejected must not fail the other plans of the batch.
            if (others.length > 0) return Effect.forEach(batch, (taken) => write([taken]), { discard: true })
            return Effect.sync(() => first?.failed(error))
          })
        )

      yield* Effect.gen(function* () {
        yield* pending.await
        pending.closeUnsafe()
        const batch = Array.from(sources, (source) => source.take()).filter((taken) => taken !== undefined)
        sources.clear()
        since = nextSince
        nextSince = undefined
        if (batch.length === 0) return
        yield* write(batch)
        yield* lag.update(age(), {})
      }).pipe(
        Effect.catchCause((cause) => Effect.logError("event_writer_failed", cause)),
        Effect.andThen(Effect.sync(() => (since = undefined))),
        Effect.forever,
        Effect.forkScoped
      )

      return {
        notify: (source) => {
          nextSince ??= clock.currentTimeMillisUnsafe()
          sources.add(source)
          pending.openUnsafe()
        }
      }
    })
  )
}

const whileAway = Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("1 second")])

const rejection = (cause: unknown) => new StorageError({ reason: new Rejected({ cause }) })

const complete = (batch: ReadonlyArray<Taken>, refused: ReadonlySet<PlanId>): Effect.Effect<void> =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Effect.forEach(
      batch,
      (taken) =>
        Effect.sync(() => (refused.has(taken.commit.plan_id) ? taken.refused() : taken.stored(now))).pipe(
          // A bug in one plan must not keep the others from their ends. Its rows are stored: it stops, and is resumed from them.
          Effect.catchDefect((defect) =>
            Effect.andThen(
              Effect.logError("plan_not_told", defect),
              Effect.sync(() => taken.refused())
            )
          )
        ),
      { discard: true }
    )
  )
