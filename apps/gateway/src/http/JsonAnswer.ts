import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/PlanId"
import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import type { Plans } from "@bowline/runtime/plan/Plans"
import type { PlanReader } from "@bowline/runtime/stream/PlanReader"
import { Effect, Stream } from "effect"

/** How long a reader that was asked to come back stays away. */
const comeBackAfter = "250 millis"

/** Reads a plan to its end, whatever becomes of its readers, and gives it as one object. */
export const waitFor = Effect.fnUntraced(function* (
  plans: Plans["Service"],
  caller: CallerName,
  plan_id: PlanId,
  frames: PlanReader
) {
  let seen = 0
  let isOver = false
  const readOut = (reader: PlanReader) =>
    Stream.runForEachArray(reader, (items) =>
      Effect.sync(() => {
        for (const item of items) {
          if (typeof item === "string") continue
          seen = item.seq
          isOver = item.event === "done"
        }
      })
    )
  yield* readOut(frames)
  while (!isOver) {
    yield* Effect.sleep(comeBackAfter)
    yield* Effect.scoped(Effect.flatMap(plans.events(caller, plan_id, seen), (reader) => readOut(reader.frames)))
  }
  const { session_id, state, final, error, usage } = yield* plans.get(caller, plan_id)
  const result: PlanResult = {
    plan_id,
    session_id,
    state,
    ...(final === null ? {} : { final }),
    ...(error === null ? {} : { error }),
    usage
  }
  return result
})
