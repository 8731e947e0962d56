import type { Usage } from "@bowline/domain/plan/Usage"
import type { ProviderError } from "@bowline/domain/provider/ProviderError"
import { Clock, Context, Effect, type Exit, type Tracer } from "effect"
import * as Monotonic from "../process/Monotonic.ts"
import type { FinishReason, Provider, ProviderRequest } from "../provider/Provider.ts"
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
  readonly conversation: string
  readonly isCompacted: boolean
  readonly request: Pick<ProviderRequest, "maxOutputTokens" | "outputSchema" | "sampling">
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

const given = (attributes: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))

/** What the newest conventions say of a request besides. */
const asked = (
  { conversation, isCompacted, request: { maxOutputTokens, outputSchema, sampling = {} } }: Subject,
  content: boolean
) =>
  given({
    [GenAi.conversation]: conversation,
    [GenAi.compacted]: isCompacted,
    [GenAi.stream]: true,
    [GenAi.maxTokens]: maxOutputTokens,
    [GenAi.outputType]: outputSchema && "json",
    [GenAi.temperature]: sampling.temperature,
    [GenAi.topP]: sampling.top_p,
    [GenAi.seed]: sampling.seed,
    [GenAi.reasoningLevel]: sampling.reasoning_effort,
    // The caller has written them.
    [GenAi.stopSequences]: content ? sampling.stop : undefined
  })

/** Gives an attempt its span, below the open one, and its metrics. Calls `told` once, at the end of the attempt. */
export const observe = <A, E extends ProviderError | { readonly _tag: string }, R>(
  self: Effect.Effect<A, E, R>,
  subject: Subject,
  told: () => Told
): Effect.Effect<A, E, R> => {
  const { provider, model, credential, attempt } = subject
  return Spans.use(
    `chat ${model}`,
    (content, isLatest) => ({
      kind: "client",
      attributes: {
        [GenAi.operation]: "chat",
        [GenAi.provider]: provider.name,
        [GenAi.requestModel]: model,
        [GenAi.attempt]: attempt,
        [GenAi.credential]: credential,
        ...(provider.server === undefined
          ? {}
          : { [GenAi.serverAddress]: provider.server.address, [GenAi.serverPort]: provider.server.port }),
        ...(isLatest && asked(subject, content))
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
}

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
