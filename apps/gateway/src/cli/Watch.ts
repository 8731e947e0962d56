import { type Final, initialView, type PlanFrame, type PlanView, reduce } from "@bowline/client"
import type { BowlineError } from "@bowline/client/effect"
import { Deferred, Effect, Option, Queue, Stream } from "effect"
import type { Decide } from "./TypedDecisions.ts"
import type { Say } from "./TypedTexts.ts"
import { type Ended, failed } from "./Ended.ts"
import { explain, type GatewayClient, neverBegun } from "./GatewayClient.ts"
import { printLine, tell } from "./Output.ts"
import * as PlanDisplay from "./PlanDisplay.ts"
import { toJson } from "./TerminalText.ts"

/** What a command has read of its plan so far. */
export interface Seen {
  view: PlanView
  /** The id of the plan, once its first frame has come. */
  named: Deferred.Deferred<string>
}

export const nothing = (): Seen => ({ view: initialView, named: Deferred.makeUnsafe() })

interface Display {
  readonly onFrame: (frame: PlanFrame, before: PlanView) => Effect.Effect<void>
  readonly onCut: Effect.Effect<void>
}

/** Shows the plan while the scope is open, and says how its approvals are given, or asks for them. */
export const display = (
  { client }: GatewayClient,
  seen: Seen,
  { asks, printsText }: { readonly asks: boolean; readonly printsText: boolean }
) => {
  const decide: Decide = ({ data: { plan_id, task_id } }, { decision, note }) =>
    client.use((bowline, signal) => bowline.plans.approve(plan_id, task_id, decision, { note, signal }))
  const say: Say = ({ text, when }) =>
    Effect.flatMap(
      Effect.suspend(() => Deferred.await(seen.named)),
      (id) => client.use((bowline, signal) => bowline.inbox.send(id, { type: "text", text, when }, { signal }))
    )
  return PlanDisplay.make({
    view: () => seen.view,
    printsText,
    decide: asks ? decide : undefined,
    say: asks ? say : undefined
  })
}

/** Before the first frame a request is repeated a few times only: a gateway answers it with a frame at once. */
const maxFailuresBefore = 3

/** Fails where the plan cannot be read at all, and tells of every cut. */
const watchStreams = Effect.fnUntraced(function* ({ streamEvents }: GatewayClient, onCut: Effect.Effect<void>) {
  let failures = 0
  let isConnected = false
  for (;;) {
    const event = yield* Queue.take(streamEvents)
    if (event.type === "connected") {
      isConnected = true
      continue
    }
    yield* onCut
    if (event.lastEventId > 0) continue
    if (!isConnected) return yield* Effect.fail<BowlineError | Ended>(event.error)
    if (++failures === maxFailuresBefore) return yield* neverBegun
    isConnected = false
  }
})

/** Reads a plan to its end. */
export const watch = (
  gateway: GatewayClient,
  frames: Stream.Stream<PlanFrame, BowlineError>,
  seen: Seen,
  { onCut, onFrame }: Display
) => {
  const read = Stream.runForEach(frames, (frame) => {
    const before = seen.view
    seen.view = reduce(before, frame)
    if (before.planId === null && seen.view.planId !== null)
      Deferred.doneUnsafe(seen.named, Effect.succeed(seen.view.planId))
    return onFrame(frame, before)
  })
  return Effect.raceFirst(read, watchStreams(gateway, onCut)).pipe(
    Effect.mapError((error) => explain(gateway.url, error))
  )
}

/** Reads a plan, and behind its end the one that asks what was said to it too late. */
export const follow = Effect.fnUntraced(function* (
  gateway: GatewayClient,
  frames: Stream.Stream<PlanFrame, BowlineError>,
  seen: Seen,
  display: Display & { readonly next: Effect.Effect<Option.Option<string>> }
) {
  let stream = frames
  for (;;) {
    yield* watch(gateway, stream, seen, display)
    const next = yield* display.next
    if (Option.isNone(next)) return
    Object.assign(seen, nothing())
    stream = gateway.client.attach(next.value)
  }
})

/** Without what every frame has. */
const payloadOf = <Payload extends object>(data: Payload) => {
  const { at: _at, plan_id: _plan, session_id: _session, ...payload } = { at: "", plan_id: "", session_id: "", ...data }
  return payload
}

/** Prints the outcome, if it is wanted as JSON, and fails without an answer. */
export const report = Effect.fnUntraced(function* ({ view }: Seen, asJson: boolean) {
  const { outcome, planId: plan_id, sessionId: session_id, state, usage } = view
  if (outcome === null) return yield* failed("The plan ended without an outcome")
  if (asJson) {
    const ended = "final" in outcome ? { final: payloadOf(outcome.final) } : { error: payloadOf(outcome.error) }
    yield* printLine(toJson({ plan_id, session_id, state, ...ended, usage }))
  }
  if ("error" in outcome) {
    const { code, message, retryable } = outcome.error
    return yield* failed(`${code}: ${message}${retryable ? ". Asking again may help" : ""}`)
  }
  const { stop_reason }: Final = outcome.final
  if (stop_reason !== "stop") yield* tell(`The answer ends early: ${stop_reason}`)
})
