import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { SessionId } from "@bowline/domain/session/Session"
import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import type { Plans } from "@bowline/runtime/plan/Plans"
import type { PlanStreams } from "@bowline/runtime/plan/PlanStreams"
import type { PlanFrame } from "@bowline/runtime/store/EventRow"
import type { PlanReader } from "@bowline/runtime/stream/LivePlan"
import { Effect, Stream } from "effect"
import { Refused } from "./Refusals.ts"
import { fromFrames, tellsResult } from "./ToldResult.ts"

interface Services {
  readonly plans: Plans["Service"]
  readonly streams: PlanStreams["Service"]
}

/** How long a reader that was asked to come back stays away. */
const comeBackAfter = "250 millis"

/**
 * Reads a plan to its end, whatever becomes of its readers, and gives it as one object. Where it cannot be read here any more, and
 * goes on for all that is known, the refusal names it.
 */
export const waitFor = Effect.fnUntraced(
  function* (
    { plans, streams }: Services,
    caller: CallerName,
    { plan_id, session_id }: { readonly plan_id: PlanId; readonly session_id: SessionId },
    frames: PlanReader
  ) {
    const told: Array<PlanFrame> = []
    let seen = 0
    let isOver = false
    const readOut = (reader: PlanReader) =>
      Stream.runForEachArray(reader, (items) =>
        Effect.sync(() => {
          for (const item of items) {
            if (typeof item === "string") continue
            seen = item.seq
            if (tellsResult(item)) told.push(item)
            isOver = item.event === "done"
          }
        })
      )
    yield* readOut(frames)
    while (!isOver) {
      if (yield* plans.isDraining) {
        return yield* new Refused({
          code: "draining",
          detail: "The gateway shuts down before the plan is over: read on by its plan_id",
          plan_id
        })
      }
      yield* Effect.sleep(comeBackAfter)
      yield* Effect.scoped(Effect.flatMap(streams.read(caller, plan_id, seen), (reader) => readOut(reader.frames)))
    }
    return yield* plans.get(caller, plan_id).pipe(
      Effect.map(({ state, final, error, usage }): PlanResult => ({
        plan_id,
        session_id,
        state,
        ...(final === null ? {} : { final }),
        ...(error === null ? {} : { error }),
        usage
      })),
      Effect.catchTag("NotFound", (gone) => {
        const result = fromFrames({ plan_id, session_id }, told)
        return result === undefined ? Effect.fail(gone) : Effect.succeed(result)
      })
    )
  },
  (waiting, _services, _caller, { plan_id }) =>
    Effect.catchTag(
      waiting,
      "StorageError",
      Effect.fnUntraced(function* (error) {
        if (!error.reason.isRetryable) return yield* error
        yield* Effect.logError(error.message, error.reason.cause)
        return yield* new Refused({ code: "unavailable", detail: error.message, plan_id })
      })
    )
)
