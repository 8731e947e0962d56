import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import type { PlanRequest } from "@bowline/domain/plan/PlanRequest"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Plans } from "@bowline/runtime/plan/Plans"
import { PlanStreams } from "@bowline/runtime/unstable/plan/PlanStreams"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import { type Idempotency, idempotency } from "@bowline/runtime/unstable/store/Idempotency"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import { retryWhileAway } from "@bowline/runtime/unstable/store/RetryWhileAway"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { Clock, Effect, Option } from "effect"
import { resultOf } from "../../http/JsonAnswer.ts"
import type { Refusal } from "../../http/Refusals.ts"
import * as ShownFiles from "../../http/ShownFiles.ts"
import type { Call } from "./GatewayTools.ts"
import * as PlanAnswer from "./PlanAnswer.ts"
import * as PlanWaits from "./PlanWaits.ts"

type Asking = Extract<Call, { readonly _tag: "Ask" }>
type Looking = Extract<Call, { readonly _tag: "Result" }>
type Resuming = Extract<Call, { readonly _tag: "Resume" }>

/** Who makes a call, on which way it has come, and who may cancel it by another request: undefined if nobody. */
export interface Sender {
  readonly caller: CallerName
  readonly route: Route
  readonly owner: string | undefined
}

/** For how many milliseconds the call of a plan waits: so any replica can tell whether the plan was handed out. */
const waitMetadata = "mcp_wait_ms"

/** The plan of a call, which runs on when nobody reads it. */
const requestOf = ({ call, preset, question, session_id, wait_ms }: Asking): PlanRequest => ({
  question,
  ...(call !== undefined && { call }),
  ...(session_id !== undefined && { session_id }),
  ...(preset !== undefined && { preset }),
  agents: [],
  mcp_servers: [],
  tools: [],
  history: [],
  metadata: { [waitMetadata]: String(wait_ms) },
  // Whether the plan ends with its call is decided here: nobody reads a plan that was handed out.
  preferences: { on_disconnect: "continue" }
})

/** A key that no caller can send: an `Idempotency-Key` has no line break. */
const keyOf = (owner: string): Idempotency => idempotency(`mcp\n${owner}`, null)

/** Answers calls of tools with plans. */
export const make = Effect.gen(function* () {
  const plans = yield* Plans
  const streams = yield* PlanStreams
  const store = yield* PlanStore
  const shown = yield* ShownFiles.make
  const { approvalOf, hold, watch } = yield* PlanWaits.make

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

  const ask = (sender: Sender, call: Asking, look: PlanWaits.Look) =>
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
      retryWhileAway,
      Effect.catchTag("StorageError", ({ reason }) => Effect.logError("storage_failed", reason.cause)),
      // Nobody waits for an answer to a cancel. A plan that is gone needs none.
      Effect.ignore
    )

  /** Decides about the call that the plan waits for, and waits on. A decision that was made meanwhile stands. */
  const resume = Effect.fnUntraced(function* (
    caller: CallerName,
    { approval, decision, isHandedOut, wait_ms }: Resuming,
    look: PlanWaits.Look
  ) {
    if (decision !== undefined) {
      const decider = { caller, isAdmin: false }
      yield* Effect.catchTag(plans.decide(decider, approval, decision), "ApprovalConflict", () => Effect.void)
    }
    const reading = yield* streams.read(caller, approval.plan_id, 0)
    if (!isHandedOut) return yield* hold(caller, reading, wait_ms, look)
    return yield* Effect.interruptible(watch(caller, reading, wait_ms, look))
  })

  const look = (caller: CallerName, { plan_id, wait_ms }: Looking, look: PlanWaits.Look) =>
    Effect.flatMap(streams.read(caller, plan_id, 0), (reading) => watch(caller, reading, wait_ms, look))

  /** The files that the tools of a plan have given, as parts of its result. */
  const filesOf = Effect.fnUntraced(function* (caller: CallerName, id: PlanId) {
    const { events } = yield* PlanGist.read(store, yield* store.told(caller, id))
    const files = shown(caller, false)
    yield* files.load(events)
    return PlanAnswer.contentOf(events, files)
  })

  /** Makes a call. Interrupting it ends the plan that it has started, unless that was handed out. */
  const run = (sender: Sender, call: Call, onFrame: PlanWaits.Look): Effect.Effect<PlanWaits.Outcome, Refusal> => {
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
        return Effect.map(plans.cancel(caller, call.plan_id), (plan) => ({ plan: resultOf(plan) }))
    }
  }

  return { run, cancelElsewhere, approvalOf, filesOf, plans }
})
