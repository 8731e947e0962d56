import type { Usage } from "@bowline/domain/plan/Usage"
import { ProviderError } from "@bowline/domain/provider/ProviderError"
import { Clock, Effect, Exit, Option, type Tracer } from "effect"
import type { FinishReason, Provider } from "../provider/Provider.ts"
import * as GenAi from "./GenAi.ts"
import * as ProviderMetrics from "./ProviderMetrics.ts"

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
  /** Milliseconds since 1970. */
  readonly firstContentAt: number | undefined
}

/** The error type of an attempt. Only the end of its plan interrupts an attempt. */
const typeOf = (exit: Exit.Exit<unknown, ProviderError | { readonly _tag: string }>): string | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  const error = Option.getOrUndefined(Exit.findErrorOption(exit))
  if (error === undefined) return Exit.hasInterrupts(exit) ? "aborted" : "defect"
  return error instanceof ProviderError ? error.type : error._tag
}

/** Gives an attempt its span, below the open one, and its metrics. Calls `told` once, at the end of the attempt. */
export const observe = <A, E extends ProviderError | { readonly _tag: string }, R>(
  self: Effect.Effect<A, E, R>,
  { provider, model, credential, attempt }: Subject,
  told: () => Told
): Effect.Effect<A, E, R> =>
  Effect.useSpan(
    `chat ${model}`,
    {
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
    },
    Effect.fnUntraced(function* (span) {
      const startedAt = yield* Clock.currentTimeMillis
      const context = yield* Effect.context()
      const end = (exit: Exit.Exit<A, E>) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const result = told()
          const errorType = typeOf(exit)
          const firstContentMs = result.firstContentAt === undefined ? undefined : result.firstContentAt - startedAt
          annotate(span, result, errorType, firstContentMs)
          const { usage } = result
          const durationMs = now - startedAt
          const measured = { errorType, durationMs, firstContentMs, usage }
          ProviderMetrics.attempted({ provider: provider.name, model }, measured, context)
        })
      return yield* Effect.onExit(Effect.withParentSpan(self, span, { captureStackTrace: false }), end)
    })
  )

const annotate = (
  span: Tracer.Span,
  { finish, isInferred, responseModel, usage }: Told,
  errorType: string | undefined,
  firstContentMs: number | undefined
): void => {
  if (errorType !== undefined) span.attribute(GenAi.errorType, errorType)
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
