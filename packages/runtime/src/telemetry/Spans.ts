import { PeerError } from "@bowline/domain/peer/PeerError"
import { ProviderError } from "@bowline/domain/provider/ProviderError"
import { Cause, Clock, Context, Data, Effect, Exit, Option, Predicate, References, Tracer } from "effect"
import * as GenAi from "./GenAi.ts"

/** What a span has from its beginning. */
interface Beginning {
  /** In place of the one that it is given. */
  readonly name?: string
  readonly kind?: Tracer.SpanKind
  readonly attributes?: Record<string, unknown>
}

/** Whether spans have what callers, models and tools say. */
export const Content = Context.Reference<boolean>("@bowline/runtime/telemetry/Spans/Content", {
  defaultValue: () => false
})

/** Why a span has failed: the type of the error, without its message, which may repeat what somebody has said. */
class SpanFailed extends Data.Error<{ readonly message: string }> {}

const typeOf = (error: unknown): string => {
  if (error instanceof ProviderError) return error.type
  if (error instanceof PeerError) return error.reason._tag
  if (Predicate.hasProperty(error, "code") && typeof error.code === "string") return error.code
  return Predicate.hasProperty(error, "_tag") ? String(error._tag) : "unknown"
}

/** The error type of an exit; undefined for a success. Only the end of its plan interrupts what a plan does. */
export const errorTypeOf = (exit: Exit.Exit<unknown, unknown>): string | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  const error = Exit.findErrorOption(exit)
  if (Option.isSome(error)) return typeOf(error.value)
  return Cause.hasInterruptsOnly(exit.cause) ? "aborted" : "defect"
}

const failed = (type: string): Exit.Exit<never, SpanFailed> => {
  const error = new SpanFailed({ message: type })
  error.stack = ""
  return Exit.fail(error)
}

/** Ends a span now, with an error of this type. What ends it later is too late. */
export const fail = (span: Tracer.Span, type: string): Effect.Effect<void> =>
  Effect.map(Clock.currentTimeNanos, (now) => {
    span.attribute(GenAi.errorType, type)
    span.end(now, failed(type))
  })

const end = (span: Tracer.Span, exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> => {
  const type = errorTypeOf(exit)
  if (type === undefined) return Effect.void
  // An abort is no failure of the span, and has no message.
  return type === "aborted" ? Effect.sync(() => span.attribute(GenAi.errorType, type)) : fail(span, type)
}

/**
 * Runs an effect in a span of its own, below the open one. Where no spans are recorded, it costs next to nothing: there is no span,
 * and nobody asks what it begins with.
 * `beginning` is told whether the span may have content, and whether it has the names of the newest conventions.
 */
export const use = <A, E, R>(
  name: string,
  beginning: (content: boolean, isLatest: boolean) => Beginning,
  run: (span: Tracer.Span | undefined) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!fiber.getRef(References.TracerEnabled)) return run(undefined)
    const { name: own = name, ...options } = beginning(fiber.getRef(Content), fiber.getRef(GenAi.Latest))
    return Effect.useSpan(own, options, (span) =>
      Effect.onExit(Effect.withParentSpan(run(span), span, { captureStackTrace: false }), (exit) => end(span, exit))
    )
  })

const bare = (): Beginning => ({})

/** The same for an effect that is there already. */
export const within =
  (name: string, beginning: (content: boolean, isLatest: boolean) => Beginning = bare) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    use(name, beginning, () => effect)

/** Describes the open span, if there is one. `describe` is told whether the span may have content. */
export const describeOpen = (
  describe: (span: Tracer.Span, content: boolean) => Effect.Effect<void>
): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    const span = fiber.getRef(References.TracerEnabled)
      ? Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
      : undefined
    return span?._tag === "Span" ? describe(span, fiber.getRef(Content)) : Effect.void
  })
