import type { CallerName } from "@bowline/domain/caller/CallerName"
import type { PlanId } from "@bowline/domain/plan/Plan"
import { EventsExpired, NotFound } from "@bowline/domain/plan/Refusal"
import { PlanStore } from "@bowline/runtime/unstable/store/PlanStore"
import * as PlanGist from "@bowline/runtime/unstable/store/PlanGist"
import * as StoredFrames from "@bowline/runtime/unstable/stream/StoredFrames"
import { Effect, Option, Schema, Stream } from "effect"
import * as ShownFiles from "../../http/ShownFiles.ts"
import { ResponseEcho } from "./ResponseEcho.ts"
import { ResponseEvents } from "./ResponseEvents.ts"
import { type ResponseRef, refOf } from "./ResponseItems.ts"

const decodeEcho = Schema.decodeUnknownOption(ResponseEcho)

const missing = new NotFound({ what: "response" })

/** Reads responses from the store: all that they are follows from a plan's echo and its frames. */
export const make = Effect.gen(function* () {
  const store = yield* PlanStore
  const make = yield* ShownFiles.make
  const shown = (caller: CallerName) => make(caller, false)

  /** What the plan's response repeats. Fails if there is no such plan, or if it is no response. */
  const echo = (caller: CallerName, plan: PlanId) =>
    Effect.flatMap(
      Effect.mapError(store.echo(caller, plan), (error) => (error._tag === "NotFound" ? missing : error)),
      (stored) => Option.match(decodeEcho(stored), { onNone: () => Effect.fail(missing), onSome: Effect.succeed })
    )

  /** The plan's response as it ended, or waited last: its row tells that. */
  const told = Effect.fnUntraced(function* (caller: CallerName, ref: ResponseRef) {
    const stored = yield* Effect.catchTag(store.told(caller, ref.plan_id), "NotFound", () => Effect.fail(missing))
    const echo = yield* Effect.mapError(Effect.fromOption(decodeEcho(stored.echo)), () => missing)
    const files = shown(caller)
    const events = new ResponseEvents(ref, echo, files)
    const gist = yield* PlanGist.read(store, stored)
    yield* files.load(gist.events)
    for (const event of gist.events) events.tell(event)
    if (stored.plan.state === "running" || stored.plan.state === "waiting") events.stand()
    // A call that runs may not have told yet that it has begun.
    if (stored.plan.stage !== "tool" && events.waitsForResults(new Set())) events.call()
    return { ref, echo, events }
  })

  /** The events of a plan so far: what a client of its stream has seen is counted by them. Fails if they are no longer kept. */
  const replay = Effect.fnUntraced(function* (ref: ResponseRef, repeated: ResponseEcho) {
    const events = new ResponseEvents(ref, repeated)
    let isKept = false
    yield* Stream.runForEachArray(StoredFrames.follow(store, ref.plan_id, 0, undefined), (items) =>
      Effect.sync(() => {
        for (const item of items) {
          if (typeof item === "string") continue
          isKept = true
          events.next(item)
        }
      })
    )
    return isKept ? events : yield* new EventsExpired({ plan_id: ref.plan_id })
  })

  return {
    shown,
    echo,
    told,
    replay,
    /** The response of this id, as it is now. One that is over, and was not to be stored, is not found. */
    find: Effect.fnUntraced(function* (caller: CallerName, id: string) {
      const ref = yield* Effect.mapError(Effect.fromOption(refOf(id)), () => missing)
      const found = yield* told(caller, ref)
      const { echo, events } = found
      return !events.exists || (events.isOver && !events.isCalled && !echo.store) ? yield* missing : found
    })
  }
})
export type StoredResponses = Effect.Success<typeof make>
