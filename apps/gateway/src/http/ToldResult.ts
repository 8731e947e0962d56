import { Failure, Final } from "@bowline/domain/plan/Outcome"
import * as Usage from "@bowline/domain/plan/Usage"
import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import type { PlanFrame } from "@bowline/runtime/store/EventRow"
import { Schema } from "effect"

const decodeFinal = Schema.decodeUnknownSync(Schema.fromJsonString(Final))
const decodeFailure = Schema.decodeUnknownSync(Schema.fromJsonString(Failure))
const decodeUsage = Schema.decodeUnknownSync(Schema.fromJsonString(Usage.Usage))

/** Frames that tell something of a plan's result. */
export const tellsResult = ({ event }: PlanFrame): boolean =>
  event === "final" || event === "error" || event === "usage"

/** The result of a plan as its frames have told it, if they have: the plan itself may have been deleted meanwhile. */
export const fromFrames = (
  ids: Pick<PlanResult, "plan_id" | "session_id">,
  frames: ReadonlyArray<PlanFrame>
): PlanResult | undefined => {
  const usage = frames
    .filter(({ event }) => event === "usage")
    .reduce((sum, { payload }) => Usage.add(sum, decodeUsage(payload)), Usage.empty)
  const last = frames.findLast(({ event }) => event !== "usage")
  if (last === undefined) return undefined
  if (last.event === "final") return { ...ids, state: "completed", final: decodeFinal(last.payload), usage }
  const error = decodeFailure(last.payload)
  return { ...ids, state: error.code === "aborted" ? "aborted" : "failed", error, usage }
}
