import {
  AttemptTimeout,
  FirstTokenTimeout,
  IdleTimeout,
  ProviderError,
  type ProviderErrorReason
} from "@bowline/domain/provider/ProviderError"
import { Clock, Context, Duration, Effect, Fiber, Stream } from "effect"
import * as Alarm from "../process/Alarm.ts"
import * as Monotonic from "../process/Monotonic.ts"
import type { ProviderPart } from "./Provider.ts"

/** The three limits on the time of one attempt. `total` is from sending the request to the end of the answer. */
export interface AttemptTimers {
  /** From sending the request to the first content of the answer. */
  readonly firstToken: Duration.Duration
  /** Between two pieces of content. */
  readonly idle: Duration.Duration
  readonly total: Duration.Duration
}

/** Whether a part ends the provider's silence. */
export const isContent = (part: ProviderPart): boolean =>
  part._tag === "ToolCallFragment" ||
  ((part._tag === "TextDelta" || part._tag === "ReasoningDelta") && part.delta !== "")

/**
 * Runs an attempt under its timers, and hands its parts to `onParts` as they come. The first-token and the idle timer stand still
 * while `onParts` runs: that time is not the provider's silence. `onCut` runs on interruption, with the milliseconds since the
 * last part of any kind.
 */
export const run = Effect.fnUntraced(function* <E, R>(
  attempt: Stream.Stream<ProviderPart, ProviderError>,
  timers: AttemptTimers,
  onParts: (parts: ReadonlyArray<ProviderPart>) => Effect.Effect<void, E, R>,
  onCut: (silentMs: number) => Effect.Effect<void>
): Effect.fn.Return<void, ProviderError | E, R> {
  const context = yield* Effect.context<R>()
  const clock = Context.get(context, Clock.Clock)
  const started = Monotonic.millis(clock)
  let silentSince = started
  let heardAt = started
  let hasContent = false
  let isHandingOn = false

  const consume = Stream.runForEachArray(attempt, (parts) => {
    const received = Monotonic.millis(clock)
    isHandingOn = true
    return Effect.map(onParts(parts), () => {
      isHandingOn = false
      const now = Monotonic.millis(clock)
      heardAt = now
      if (parts.some(isContent)) {
        hasContent = true
        silentSince = now
      } else silentSince += now - received
    })
  })

  /** Milliseconds until the next look, or why the attempt ends now. */
  const look = (): number | ProviderErrorReason => {
    const now = Monotonic.millis(clock)
    const total = started + Duration.toMillis(timers.total)
    if (now >= total) return new AttemptTimeout({ message: `No end after ${Duration.format(timers.total)}` })
    const limit = hasContent ? timers.idle : timers.firstToken
    const content = (isHandingOn ? now : silentSince) + Duration.toMillis(limit)
    if (now >= content) {
      const message = `No content for ${Duration.format(limit)}`
      return hasContent ? new IdleTimeout({ message }) : new FirstTokenTimeout({ message })
    }
    // The first content may come before the next look, and the idle limit, which may be shorter, counts from it.
    return Math.min(total, content, now + Duration.toMillis(timers.idle)) - now
  }

  const watched = Effect.callback<void, ProviderError | E>((resume) => {
    const consuming = Effect.runForkWith(context)(consume)
    let cancelAlarm = () => {}
    const watch = () => {
      const next = look()
      if (typeof next === "number") cancelAlarm = Alarm.set(next, watch, context)
      else
        resume(
          Effect.andThen(
            // Not interrupted: nobody else would wait until the request has ended.
            Effect.uninterruptible(Fiber.interrupt(consuming)),
            Effect.fail(new ProviderError({ reason: next }))
          )
        )
    }
    if (consuming.pollUnsafe() === undefined) watch()
    consuming.addObserver((exit) => {
      cancelAlarm()
      resume(exit)
    })
    return Effect.suspend(() => {
      cancelAlarm()
      return Fiber.interrupt(consuming)
    })
  })

  const cut = Effect.suspend(() => onCut(isHandingOn ? 0 : Monotonic.millis(clock) - heardAt))
  yield* Effect.onInterrupt(watched, () => cut)
})
