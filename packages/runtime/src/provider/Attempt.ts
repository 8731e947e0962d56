import {
  AttemptTimeout,
  FirstTokenTimeout,
  IdleTimeout,
  ProviderError,
  type ProviderErrorReason
} from "@bowline/domain/provider/ProviderError"
import { Clock, Duration, Effect, Stream } from "effect"
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

const fail = (reason: ProviderErrorReason) => Effect.fail(new ProviderError({ reason }))

/**
 * Runs an attempt under its timers, and hands its parts to `onParts` as they come. The first-token and the idle timer stand still
 * while `onParts` runs: that time is not the provider's silence. `onCut` runs on interruption, with the milliseconds since the
 * last part of any kind.
 */
export const run = <E, R>(
  attempt: Stream.Stream<ProviderPart, ProviderError>,
  timers: AttemptTimers,
  onParts: (parts: ReadonlyArray<ProviderPart>) => Effect.Effect<void, E, R>,
  onCut: (silentMs: number) => Effect.Effect<void>
): Effect.Effect<void, ProviderError | E, R> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const started = clock.currentTimeMillisUnsafe()
    let silentSince = started
    let heardAt = started
    let hasContent = false
    let isHandingOn = false

    const consume = Stream.runForEachArray(attempt, (parts) => {
      const received = clock.currentTimeMillisUnsafe()
      isHandingOn = true
      return Effect.map(onParts(parts), () => {
        isHandingOn = false
        const now = clock.currentTimeMillisUnsafe()
        heardAt = now
        if (parts.some(isContent)) {
          hasContent = true
          silentSince = now
        } else silentSince += now - received
      })
    })

    const watch = Effect.gen(function* () {
      for (;;) {
        const now = clock.currentTimeMillisUnsafe()
        const total = started + Duration.toMillis(timers.total)
        if (now >= total) {
          return yield* fail(new AttemptTimeout({ message: `No end after ${Duration.format(timers.total)}` }))
        }
        const limit = hasContent ? timers.idle : timers.firstToken
        const content = (isHandingOn ? now : silentSince) + Duration.toMillis(limit)
        if (now >= content) {
          const message = `No content for ${Duration.format(limit)}`
          return yield* fail(hasContent ? new IdleTimeout({ message }) : new FirstTokenTimeout({ message }))
        }
        // The first content may come during the sleep, and the idle limit, which may be shorter, counts from it.
        yield* Effect.sleep(Math.min(total, content, now + Duration.toMillis(timers.idle)) - now)
      }
    })

    const cut = Effect.suspend(() => onCut(isHandingOn ? 0 : clock.currentTimeMillisUnsafe() - heardAt))
    yield* Effect.onInterrupt(Effect.raceFirst(consume, watch), () => cut)
  })
