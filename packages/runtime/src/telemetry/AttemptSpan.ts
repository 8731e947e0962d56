import type { Usage } from "@bowline/domain/plan/Usage"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import { Clock, Context, Effect, type Exit, type Tracer } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import type { FinishReason, Provider } from "../provider/Provider.ts"
import * as GenAi from "./GenAi.ts"
import * as ProviderMetrics from "./ProviderMetrics.ts"
import * as Spans from "./Spans.ts"

/** The attempt to observe. */
export interface Subject {
  readonly provider: Provider["Service"]
  /** As the provider calls it. */
  readonly model: string
  readonly credential: string
  readonly attempt: number
}

/** What an attempt has come to, for its span and its metrics. */
export interface Told {
  readonly finish: FinishReason | undefined
  readonly isInferred: boolean
  readonly responseModel: string | undefined
  readonly usage: Usage | undefined
  /** Milliseconds of the `Monotonic` clock. */
  readonly firstContentAt: number | undefined
}

/** Gives an attempt its span, below the open one, and its metrics. Calls `told` once, at the end of the attempt. */
export const observe = <A, E extends ProviderError | { readonly _tag: string }, R>(
  self: Effect.Effect<A, E, R>,
  { provider, model, credential, attempt }: Subject,
  told: () => Told
): Effect.Effect<A, E, R> =>
  Spans.use(
    `chat ${model}`,
    () => ({
      kind: "client",
      attributes: {
        [GenAi.operation]: "chat",
        [GenAi.provider]: provider.name,
        [GenAi.requestModel]: model,
        [GenAi.attempt]: attempt,
        [GenAi.credential]: credential,
        ...(provider.server === undefined
          ? {}
          : { [GenAi.serverAddress]: provider.server.address, [GenAi.serverPort]: provider.server.port })
      }
    }),
    (span) =>
      Effect.withFiber(({ context }) => {
        const clock = Context.get(context, Clock.Clock)
        const startedAt = Monotonic.millis(clock)
        const end = (exit: Exit.Exit<A, E>) => {
          const durationMs = Monotonic.millis(clock) - startedAt
          const result = told()
          const errorType = Spans.errorTypeOf(exit)
          const firstContentMs = result.firstContentAt === undefined ? undefined : result.firstContentAt - startedAt
          if (span !== undefined) annotate(span, result, firstContentMs)
          const { usage } = result
          const measured = { errorType, durationMs, firstContentMs, usage }
          ProviderMetrics.attempted({ provider: provider.name, model }, measured, context)
        }
        return Effect.onExit(self, (exit) => Effect.sync(() => end(exit)))
      })
  )

const annotate = (
  span: Tracer.Span,
  { finish, isInferred, responseModel, usage }: Told,
  firstContentMs: number | undefined
): void => {
  if (responseModel !== undefined) span.attribute(GenAi.responseModel, responseModel)
  if (firstContentMs !== undefined) span.attribute(GenAi.timeToFirstChunk, firstContentMs / 1_000)
  if (finish !== undefined) span.attribute(GenAi.finishReasons, [finish])
  if (isInferred) span.attribute(GenAi.finishInferred, true)
  if (usage === undefined) return
  span.attribute(GenAi.inputTokens, usage.input_tokens)
  span.attribute(GenAi.outputTokens, usage.output_tokens)
  span.attribute(GenAi.cachedInputTokens, usage.cached_input_tokens)
  span.attribute(GenAi.reasoningTokens, usage.reasoning_tokens)
}
