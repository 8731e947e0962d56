import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import * as Usage from "@bowline/domain/plan/Usage"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import type { Plans } from "@bowline/runtime/plan/Plans"
import { type PlanFrame, toEvent } from "@bowline/runtime/unstable/store/EventRow"
import type { FollowedPlan } from "@bowline/runtime/unstable/stream/PlanFollower"
import { Effect, Stream } from "effect"
import Negotiator from "negotiator"
import { Refused } from "./Refusals.ts"

/** Tells whether a caller prefers one JSON object to a stream. Between two equal preferences, the first one wins. */
export const prefersJson = (accept = ""): boolean => {
  // The answers have no parameters such as `charset`, but a range with parameters means them, too.
  const ranges = accept.replaceAll(/;(?!\s*q=)[^;,]*/gi, "")
  const negotiator = new Negotiator({ headers: { accept: ranges } })
  return negotiator.mediaType(["text/event-stream", "application/json"]) === "application/json"
}

/** Tells whether a frame is part of a plan's result. */
const tellsResult = ({ event }: PlanFrame): boolean => event === "final" || event === "error" || event === "usage"

/** A stored plan as its result. */
export const resultOf = ({ error, final, plan_id, session_id, state, usage }: Plan): PlanResult => ({
  plan_id,
  session_id,
  state,
  ...(final !== null && { final }),
  ...(error !== null && { error }),
  usage
})

/** The result of a plan, made from its frames, if they have its end. The plan itself may have been deleted meanwhile. */
const fromFrames = (
  ids: Pick<PlanResult, "plan_id" | "session_id">,
  frames: ReadonlyArray<PlanFrame>
): PlanResult | undefined => {
  const events = frames.map(toEvent)
  const usage = events.reduce((sum, { data, event }) => (event === "usage" ? Usage.add(sum, data) : sum), Usage.empty)
  const last = events.findLast(({ event }) => event !== "usage")
  if (last?.event === "final") return { ...ids, state: "completed", final: last.data, usage }
  if (last?.event !== "error") return undefined
  const error = last.data
  return { ...ids, state: error.code === "aborted" ? "aborted" : "failed", error, usage }
}

/** Names the plan to a caller that cannot be told about it while the database is away: the plan goes on. */
export const nameIn = (plan_id: PlanId) =>
  Effect.fnUntraced(function* (error: StorageError) {
    if (!error.reason.isRetryable) return yield* error
    yield* Effect.annotateLogs(Effect.logError("storage_failed", error.reason.cause), { reason: error.message })
    return yield* new Refused({ code: "unavailable", detail: error.message, plan_id })
  })

/**
 * Follows a plan to its end, and gives its result as one object. It looks at every frame once. If this gateway can no longer read the plan
 * while it may still run, the refusal names the plan.
 */
export const waitFor = (
  plans: Plans["Service"],
  caller: CallerName,
  { frames, plan_id, session_id }: FollowedPlan,
  look: (frame: PlanFrame) => void = () => undefined
) =>
  Effect.gen(function* () {
    const told: Array<PlanFrame> = []
    let isLeft = false
    yield* Stream.runForEachArray(frames, (items) =>
      Effect.sync(() => {
        for (const item of items) {
          isLeft = item === "Draining"
          if (typeof item === "string") continue
          look(item)
          if (tellsResult(item)) told.push(item)
        }
      })
    )
    if (isLeft) {
      const detail = "The gateway shuts down before the plan is over: read on by its plan_id"
      return yield* new Refused({ code: "draining", detail, plan_id })
    }
    return yield* plans.get(caller, plan_id).pipe(
      Effect.map(resultOf),
      Effect.catchTag("NotFound", (gone) => {
        const result = fromFrames({ plan_id, session_id }, told)
        return result === undefined ? Effect.fail(gone) : Effect.succeed(result)
      })
    )
  }).pipe(Effect.catchTag("StorageError", nameIn(plan_id)))
