import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import type { Plan, PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { SessionId } from "@bowline/domain/session/Session"
import type { PlanResult } from "@bowline/protocol/plan/PlansApi"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/plan/PlanStreams"
import type { Page } from "@bowline/runtime/store/Page"
import type { PlanFrame } from "@bowline/runtime/store/EventRow"
import type { PlanReader } from "@bowline/runtime/stream/LivePlan"
import { Effect, FiberSet, Option, Queue } from "effect"
import { waitFor } from "../http/JsonAnswer.ts"
import type { Refusal } from "../http/Refusals.ts"
import type { Call } from "./GatewayTools.ts"

type Look = (frame: PlanFrame) => void

type Asking = Extract<Call, { readonly _tag: "Ask" }>
type Looking = Extract<Call, { readonly _tag: "Result" }>
type Resuming = Extract<Call, { readonly _tag: "Resume" }>

/** What a call has come to: a plan as it is now, and the decision that it waits for, if it does. */
export interface Outcome {
  readonly plan: PlanResult
  readonly approval?: PendingApproval
}

interface Reading {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly frames: PlanReader
}

const toOutcome = ({ error, final, plan_id, session_id, state, usage }: Plan): Outcome => ({
  plan: {
    plan_id,
    session_id,
    state,
    usage,
    ...(final !== null && { final }),
    ...(error !== null && { error })
  }
})

const pageSize = 200

/** Makes the calls of tools out of plans. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const cancels = yield* FiberSet.make()

  const pendingOf = Effect.fnUntraced(function* (caller: CallerName, id: PlanId) {
    for (let cursor: number | null | undefined = undefined; cursor !== null;) {
      const page: Page<PendingApproval> = yield* plans.approvals(caller, {
        limit: pageSize,
        ...(cursor !== undefined && { cursor })
      })
      const found = page.items.find(({ plan_id }) => plan_id === id)
      if (found !== undefined) return found
      cursor = page.next
    }
    return undefined
  })

  const standing = (caller: CallerName, id: PlanId) => Effect.map(plans.get(caller, id), toOutcome)

  /** Reads a plan until it is over, a call of it waits for a decision, or the time has passed. */
  const wait = Effect.fnUntraced(function* (
    caller: CallerName,
    { frames, ...ids }: Reading,
    waitMs: number,
    look: Look
  ): Effect.fn.Return<Outcome | undefined, Refusal> {
    const asked = yield* Queue.unbounded<void>()
    const over = waitFor({ plans, streams }, caller, ids, frames, (frame) => {
      if (frame.event === "approval.requested") Queue.offerUnsafe(asked, undefined)
      look(frame)
    }).pipe(
      Effect.map((plan): Outcome => ({ plan })),
      // The plan goes on: elsewhere, or when the database is back.
      Effect.catchIf(
        (error) => error._tag === "Refused" && error.plan_id !== undefined,
        () => Effect.undefined
      )
    )
    // What is read again may be decided already.
    const approval = Effect.gen(function* () {
      for (;;) {
        yield* Queue.take(asked)
        const found = yield* pendingOf(caller, ids.plan_id)
        if (found !== undefined) {
          const { plan } = yield* standing(caller, ids.plan_id)
          return { plan, approval: found }
        }
      }
    })
    return Option.getOrUndefined(yield* Effect.timeoutOption(Effect.raceFirst(over, approval), waitMs))
  })

  /** The caller no longer waits for a plan that only this call knows of. What is handed over to another replica goes on. */
  const abandon = (caller: CallerName, id: PlanId) =>
    Effect.flatMap(plans.isDraining, (isDraining) =>
      isDraining ? Effect.void : Effect.asVoid(FiberSet.run(cancels, Effect.ignore(plans.cancel(caller, id))))
    )

  /** Waits for a plan that only its caller knows of: it ends with the call, unless the time has passed. */
  const hold = (caller: CallerName, reading: Reading, waitMs: number, look: Look) =>
    Effect.gen(function* () {
      const waited = yield* Effect.interruptible(wait(caller, reading, waitMs, look)).pipe(
        Effect.onInterrupt(() => abandon(caller, reading.plan_id))
      )
      return waited ?? (yield* standing(caller, reading.plan_id))
    })

  const requestOf = ({ preset, question, session_id }: Asking): PlanRequest => ({
    question,
    ...(session_id !== undefined && { session_id }),
    ...(preset !== undefined && { preset }),
    agents: [],
    mcp_servers: [],
    history: [],
    metadata: {},
    // Whether the plan ends with its call is decided here: nobody reads a plan that was handed out.
    preferences: { on_disconnect: "continue" }
  })

  const ask = (caller: CallerName, call: Asking, look: Look) =>
    Effect.flatMap(streams.start({ caller, request: requestOf(call) }), (reading) =>
      hold(caller, reading, call.wait_ms, look)
    )

  /** Decides about the call that the plan waits for, and waits on. A decision that was made meanwhile stands. */
  const resume = Effect.fnUntraced(function* (
    caller: CallerName,
    { approval, decision, wait_ms }: Resuming,
    look: Look
  ) {
    if (decision !== undefined) {
      const decider = { caller, isAdmin: false }
      yield* Effect.catchTag(plans.decide(decider, approval, decision), "ApprovalConflict", () => Effect.void)
    }
    const reading = yield* streams.read(caller, approval.plan_id, 0)
    return yield* hold(caller, reading, wait_ms, look)
  })

  const look = Effect.fnUntraced(function* (caller: CallerName, { plan_id, wait_ms }: Looking, look: Look) {
    const waited = yield* wait(caller, yield* streams.read(caller, plan_id, 0), wait_ms, look)
    return waited ?? (yield* standing(caller, plan_id))
  })

  /** Makes a call. Interrupting it ends the plan that it has started, unless that was handed out. */
  const run = (caller: CallerName, call: Call, onFrame: Look): Effect.Effect<Outcome, Refusal> => {
    switch (call._tag) {
      case "Ask":
        return Effect.uninterruptible(Effect.scoped(ask(caller, call, onFrame)))
      case "Resume":
        return Effect.uninterruptible(Effect.scoped(resume(caller, call, onFrame)))
      case "Result":
        return Effect.scoped(look(caller, call, onFrame))
      case "Cancel":
        return Effect.map(plans.cancel(caller, call.plan_id), toOutcome)
    }
  }

  return { run, presets: plans.presets }
})
