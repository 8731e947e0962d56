import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PendingApproval } from "@bowline/domain/plan/Approval"
import { isSettled, type Plan, type PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import type { SessionId } from "@bowline/domain/session/Session"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import type { PlanResult } from "@bowline/protocol/unstable/plan/PlansApi"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import { type Idempotency, idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import type { Page } from "@bowline/runtime/unstable/store/Page"
import type { PlanFrame } from "@bowline/runtime/unstable/store/EventRow"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import type { PlanReader } from "@bowline/runtime/unstable/stream/LivePlan"
import { Clock, Effect, FiberSet, Option, Queue } from "effect"
import { nameIn, waitFor } from "../../http/JsonAnswer.ts"
import type { Refusal } from "../../http/Refusals.ts"
import type { Call } from "./GatewayTools.ts"
import { resultOf } from "./PlanAnswer.ts"

type Look = (frame: PlanFrame) => void

type Asking = Extract<Call, { readonly _tag: "Ask" }>
type Looking = Extract<Call, { readonly _tag: "Result" }>
type Resuming = Extract<Call, { readonly _tag: "Resume" }>

/** What a call has come to: a plan as it is now, and the decision that it waits for, if it does. */
export interface Outcome {
  readonly plan: PlanResult
  readonly approval?: PendingApproval
}

/** Who makes a call, on which way it has come, and who may cancel it by another request: undefined if nobody. */
export interface Sender {
  readonly caller: CallerName
  readonly route: Route
  readonly owner: string | undefined
}

interface Reading {
  readonly plan_id: PlanId
  readonly session_id: SessionId
  readonly frames: PlanReader
}

const toOutcome = (plan: Plan): Outcome => ({ plan: resultOf(plan) })

const pageSize = 200

/** For how many milliseconds the call of a plan waits: so any replica can tell whether the plan was handed out. */
const waitMetadata = "mcp_wait_ms"

/** A key that no caller can send: an `Idempotency-Key` has no line break. */
const keyOf = (owner: string): Idempotency => idempotency(`mcp\n${owner}`, null)

/** Answers calls of tools with plans. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const store = yield* PlanStore
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

  /** A plan as it is now, and what it waits for. If the database is away, the refusal names the plan. */
  const standing = Effect.fnUntraced(
    function* (caller: CallerName, id: PlanId) {
      const plan = yield* plans.get(caller, id)
      const approval = isSettled(plan) ? undefined : yield* pendingOf(caller, id)
      return { ...toOutcome(plan), ...(approval !== undefined && { approval }) }
    },
    (standing, _, id) => Effect.catchTag(standing, "StorageError", nameIn(id))
  )

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
    }).pipe(Effect.map((plan): Outcome => ({ plan })))
    // What is read again may be decided already.
    const approval = Effect.gen(function* () {
      for (;;) {
        yield* Queue.take(asked)
        const found: Outcome = yield* standing(caller, ids.plan_id)
        if (found.approval !== undefined) return found
      }
    })
    const ended = Effect.raceFirst(over, approval).pipe(
      // The plan goes on: elsewhere, or when the database is back.
      Effect.catchIf(
        (error) => error._tag === "Refused" && error.plan_id !== undefined,
        () => Effect.undefined
      )
    )
    return Option.getOrUndefined(yield* Effect.timeoutOption(ended, waitMs))
  })

  /** Waits for a plan that goes on whatever becomes of the call. */
  const watch = Effect.fnUntraced(function* (caller: CallerName, reading: Reading, waitMs: number, look: Look) {
    const waited = yield* wait(caller, reading, waitMs, look)
    return waited ?? (yield* standing(caller, reading.plan_id))
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

  const requestOf = ({ call, preset, question, session_id, wait_ms }: Asking): PlanRequest => ({
    question,
    ...(call !== undefined && { call }),
    ...(session_id !== undefined && { session_id }),
    ...(preset !== undefined && { preset }),
    agents: [],
    mcp_servers: [],
    history: [],
    metadata: { [waitMetadata]: String(wait_ms) },
    // Whether the plan ends with its call is decided here: nobody reads a plan that was handed out.
    preferences: { on_disconnect: "continue" }
  })

  /** A call whose owner may cancel it at any replica is known in the store, unless its client has used its id before. */
  const start = ({ caller, owner, route }: Sender, call: Asking) => {
    const asked = { caller, route, request: requestOf(call) }
    if (owner === undefined) return streams.start(asked)
    return Effect.catchTag(
      streams.start({ ...asked, idempotency: keyOf(owner), joins: false }),
      "IdempotencyConflict",
      () => streams.start(asked)
    )
  }

  const ask = (sender: Sender, call: Asking, look: Look) =>
    Effect.flatMap(start(sender, call), (reading) => hold(sender.caller, reading, call.wait_ms, look))

  /** Ends the plan of a call that waits at another replica. One that was handed out goes on. */
  const cancelElsewhere = (caller: CallerName, owner: string) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const id = yield* store.findByKey(caller, keyOf(owner), fromMillis(now))
      if (Option.isNone(id)) return
      const { created_at, metadata } = yield* plans.get(caller, id.value)
      if (now < Date.parse(created_at) + Number(metadata[waitMetadata])) yield* plans.cancel(caller, id.value)
    }).pipe(
      Effect.catchTag("StorageError", ({ reason }) => Effect.logError("storage_failed", reason.cause)),
      // Nobody waits for an answer to a cancel. A plan that is gone needs none.
      Effect.ignore
    )

  /** Decides about the call that the plan waits for, and waits on. A decision that was made meanwhile stands. */
  const resume = Effect.fnUntraced(function* (
    caller: CallerName,
    { approval, decision, isHandedOut, wait_ms }: Resuming,
    look: Look
  ) {
    if (decision !== undefined) {
      const decider = { caller, isAdmin: false }
      yield* Effect.catchTag(plans.decide(decider, approval, decision), "ApprovalConflict", () => Effect.void)
    }
    const reading = yield* streams.read(caller, approval.plan_id, 0)
    if (!isHandedOut) return yield* hold(caller, reading, wait_ms, look)
    return yield* Effect.interruptible(watch(caller, reading, wait_ms, look))
  })

  const look = (caller: CallerName, { plan_id, wait_ms }: Looking, look: Look) =>
    Effect.flatMap(streams.read(caller, plan_id, 0), (reading) => watch(caller, reading, wait_ms, look))

  /** Makes a call. Interrupting it ends the plan that it has started, unless that was handed out. */
  const run = (sender: Sender, call: Call, onFrame: Look): Effect.Effect<Outcome, Refusal> => {
    const { caller } = sender
    switch (call._tag) {
      // Not interrupted between the start of the plan and the wait for it, which is interruptible: nobody would end the plan.
      case "Ask":
        return Effect.uninterruptible(Effect.scoped(ask(sender, call, onFrame)))
      case "Resume":
        return Effect.uninterruptible(Effect.scoped(resume(caller, call, onFrame)))
      case "Result":
        return Effect.scoped(look(caller, call, onFrame))
      case "Cancel":
        return Effect.map(plans.cancel(caller, call.plan_id), toOutcome)
    }
  }

  return { run, cancelElsewhere, pendingOf, plans }
})
