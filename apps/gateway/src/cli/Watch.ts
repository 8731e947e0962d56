import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import * as Usage from "@bowline/domain/plan/Usage"
import type { SseFrame } from "@bowline/protocol/stream/SseFrame"
import { Effect } from "effect"
import { failed } from "./Ended.ts"
import { explain, type GatewayClient } from "./GatewayClient.ts"
import { printLine, tell } from "./Output.ts"
import * as PlanDisplay from "./PlanDisplay.ts"
import * as PlanStream from "./PlanStream.ts"
import { toJson } from "./TerminalText.ts"

/** What a command has read of its plan so far. */
export interface Seen {
  plan?: SseFrame["data"]
  usage: Usage.Usage
  outcome?: Extract<SseFrame, { readonly event: "final" | "error" }>
}

export const nothing = (): Seen => ({ usage: Usage.empty })

const note = (seen: Seen, frame: SseFrame) => {
  seen.plan = frame.data
  if (frame.event === "usage") seen.usage = Usage.add(seen.usage, frame.data)
  if (frame.event === "final" || frame.event === "error") seen.outcome = frame
}

type Display = Pick<Effect.Success<ReturnType<typeof PlanDisplay.make>>, "onFrame" | "onCut">

/** Shows the plan while the scope is open, and says how its approvals are given. */
export const display = ({ hasKey, url }: GatewayClient, printsText: boolean) =>
  PlanDisplay.make(({ data: { plan_id, task_id } }) => {
    const key = hasKey ? `-H "Authorization: Bearer $BOWLINE_API_KEY" ` : ""
    const route = new URL(`/plans/${plan_id}/approvals/${task_id}`, url).href
    return `  approve, or reject: curl ${route} ${key}-H 'Content-Type: application/json' -d '{"decision":"approve"}'`
  }, printsText)

/** Reads a plan to its end, from the response to a request. */
export const watch = (
  gateway: GatewayClient,
  request: PlanStream.StreamRequest,
  seen: Seen,
  { onCut, onFrame }: Display
) =>
  PlanStream.follow(gateway, request, {
    onCut,
    onFrame: (frame) => {
      note(seen, frame)
      return onFrame(frame)
    }
  }).pipe(
    Effect.catchTag("StreamLost", () =>
      failed(
        seen.plan === undefined
          ? "The stream broke before its first event, each time. Try again later; bowline plans says whether the plan runs"
          : `The stream broke, and could not be resumed. Try again later: bowline tail ${seen.plan.plan_id}`
      )
    ),
    Effect.mapError((error) => explain(gateway.url, error))
  )

export const stateOf = (outcome: NonNullable<Seen["outcome"]>) => {
  if (outcome.event === "final") return "completed"
  return outcome.data.code === "aborted" ? "aborted" : "failed"
}

const toResult = (outcome: NonNullable<Seen["outcome"]>, usage: Usage.Usage): PlanResult => {
  const { plan_id, session_id } = outcome.data
  if (outcome.event === "final") {
    const { plan_id: _plan, session_id: _session, ...final } = outcome.data
    return { plan_id, session_id, state: "completed", final, usage }
  }
  const { plan_id: _plan, session_id: _session, ...error } = outcome.data
  return { plan_id, session_id, state: stateOf(outcome), error, usage }
}

/** Prints the outcome, if it is wanted as JSON, and fails without an answer. */
export const report = Effect.fnUntraced(function* ({ outcome, usage }: Seen, asJson: boolean) {
  if (outcome === undefined) return yield* failed("The plan ended without an outcome")
  if (asJson) yield* printLine(toJson(toResult(outcome, usage)))
  if (outcome.event === "error") {
    const { code, message, retryable } = outcome.data
    return yield* failed(`${code}: ${message}${retryable ? ". Asking again may help" : ""}`)
  }
  if (outcome.data.stop_reason !== "stop") yield* tell(`The answer ends early: ${outcome.data.stop_reason}`)
})
