import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { Deferred, Effect, FiberMap, Stream } from "effect"

/**
 * Reads plans in place of clients whose streams have ended, because only a person's decision is waited for: the plan is not without a
 * reader. The client that comes back takes its place again, so that the plan ends when that one leaves.
 */
export const make = Effect.gen(function* () {
  const streams = yield* PlanStreams
  const readers = yield* FiberMap.make<PlanId>()
  return {
    /** Reads the plan behind `after` until it is over, or released. Returns when it is a reader. */
    hold: Effect.fnUntraced(function* (caller: CallerName, plan: PlanId, after: number) {
      const attached = yield* Deferred.make<void>()
      const reading = Effect.gen(function* () {
        const { frames } = yield* streams.read(caller, plan, after)
        yield* Deferred.succeed(attached, undefined)
        yield* Stream.runDrain(frames)
      })
      yield* FiberMap.run(
        readers,
        plan,
        reading.pipe(
          Effect.scoped,
          Effect.catch((error) => Effect.annotateLogs(Effect.logError("stream_failed", error), { plan_id: plan })),
          Effect.ensuring(Deferred.succeed(attached, undefined))
        )
      )
      yield* Deferred.await(attached)
    }),
    /** A reader has come. */
    release: (plan: PlanId) => FiberMap.remove(readers, plan)
  }
})
