import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Notices } from "@bowline/runtime/unstable/store/Notices"
import { PlanFollower } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Deferred, Effect, Fiber, FiberMap, FiberSet, Option, Stream } from "effect"

/** How long a client that came back to another replica may take to count as a reader there. */
const countsWithin = "1 second"

/**
 * Reads plans in place of clients whose streams have ended, because only a person's decision is waited for: the plan is not without a
 * reader. The client that comes back, to whatever replica, takes its place again, so that the plan ends when that one leaves.
 */
export const make = Effect.gen(function* () {
  const follower = yield* PlanFollower
  const notices = yield* Notices
  const own = (yield* UuidGenerator)()
  const readers = yield* FiberMap.make<PlanId>()
  const run = yield* FiberSet.makeRuntime()

  yield* notices.subscribe((heard) => {
    if (heard._tag !== "ClientBack" || heard.reader === own) return
    const reader = FiberMap.getUnsafe(readers, heard.plan_id)
    if (Option.isSome(reader)) run(Effect.delay(Fiber.interrupt(reader.value), countsWithin))
  })

  return {
    /** Reads the plan after the seq `after` until it is over, or released. Returns when it is a reader. */
    hold: Effect.fnUntraced(function* (caller: CallerName, plan: PlanId, after: number) {
      const attached = yield* Deferred.make<void>()
      const reading = Effect.gen(function* () {
        const { frames } = yield* follower.read(caller, plan, after)
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
    /** The client reads the plan here again. A notice that is lost leaves its plan with one reader too many, until its end. */
    release: (plan: PlanId) =>
      Effect.andThen(
        FiberMap.remove(readers, plan),
        Effect.ignore(notices.publish([{ _tag: "ClientBack", reader: own, plan_id: plan }]))
      )
  }
})
