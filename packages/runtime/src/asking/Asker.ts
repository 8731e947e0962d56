import type { Usage } from "@bowline/domain/plan/Usage"
import { ProviderError, type ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import type { StorageError } from "@bowline/domain/storage/StorageError"
import { Context, Duration, Effect, Layer } from "effect"
import { PlansConfig } from "../config/PlansConfig.ts"
import * as Monotonic from "../process/Monotonic.ts"
import { type Entry, toldHistory } from "../provider/LegalHistory.ts"
import type { JsonSchema } from "../provider/Provider.ts"
import * as ProviderMetrics from "../telemetry/ProviderMetrics.ts"
import { FileStore } from "../store/FileStore.ts"
import * as AnswerAttempt from "./AnswerAttempt.ts"
import { CredentialPool } from "./CredentialPool.ts"
import type { Listener } from "./Listener.ts"
import * as ModelLimits from "./ModelLimits.ts"
import { leastCached, PromptCache } from "./PromptCache.ts"
import { Retries, type Subject } from "./Retries.ts"
import * as SentFiles from "./SentFiles.ts"
import * as Target from "./Target.ts"

/** The attempts of one step, or of one summary: they share their retries and their numbers. */
export interface Asking {
  /** The target of the attempt that runs, or of the last one. */
  readonly target: () => Target.Target
  /** Makes attempts until one finishes its answer. What to ask a model may depend on the model's window. */
  readonly ask: (
    requestTo: (model: string) => Effect.Effect<AnswerAttempt.ModelRequest>
  ) => Effect.Effect<AnswerAttempt.FinishedAnswer, ProviderError | StorageError>
}

/** The attempts so far. */
interface Begun {
  readonly subject: Subject
  readonly listener: Listener
  readonly retries: Retries
  /** The number of the last one. */
  attempts: number
  isFirst: boolean
  mayShorten: boolean
}

const correctCall: Entry = {
  role: "user",
  parts: [{ type: "text", text: "The arguments of your last tool call were not valid JSON. Make the call again." }]
}

/** The same request, mended after an attempt that failed for this reason. */
const mend = (request: AnswerAttempt.ModelRequest, reason: ProviderErrorReason): AnswerAttempt.ModelRequest => {
  if (reason._tag === "history_rejected") return { ...request, messages: toldHistory(request.messages) }
  return reason._tag === "tool_json" ? { ...request, messages: [...request.messages, correctCall] } : request
}

/** Asks providers for answers: chooses the targets, runs the attempts, and retries where a retry may help. */
export class Asker extends Context.Service<
  Asker,
  {
    /** See `Targets`. */
    readonly first: Target.Targets["first"]
    /** Begins with the first of the models that has a free credential. `attempts` is the number of the last attempt before. */
    readonly begin: (
      subject: Subject,
      listener: Listener,
      attempts?: number
    ) => Effect.Effect<Asking, ProviderError | StorageError>
  }
>()("@bowline/runtime/asking/Asker") {
  static readonly layer = Layer.effect(
    Asker,
    Effect.gen(function* () {
      const pool = yield* CredentialPool
      const config = yield* PlansConfig
      const targets = Target.make(pool)
      const settings = { maxRetries: config.maxRetries, baseMs: Duration.toMillis(config.retryBase) }
      const prompts = new PromptCache()
      const attemptOf = AnswerAttempt.make(pool, config, SentFiles.make(yield* FileStore))

      /** Schemas that a provider may have refused: each is an object of one plan, whose answers are checked without its provider from then on. */
      const refused = new WeakSet<JsonSchema>()

      /** The schema of the answer stays in a request only for a model that can be held to it. */
      const demanding = (
        model: string,
        { outputSchema, ...request }: AnswerAttempt.ModelRequest
      ): AnswerAttempt.ModelRequest => {
        const isDemanded =
          outputSchema !== undefined &&
          !refused.has(outputSchema) &&
          ModelLimits.of(config, model).facts?.structuredOutput === true
        return isDemanded ? { ...request, outputSchema } : request
      }

      /** Measures what the provider has read from its cache, where it has one, and warns of a session whose cache is lost. */
      const watchCache = Effect.fnUntraced(function* ({ session, stage }: Subject, model: string, usage?: Usage) {
        if (stage === "compaction") return prompts.forget(session)
        const hasCache = ModelLimits.of(config, model).facts?.price?.cached !== undefined
        if (usage === undefined || !hasCache) return
        if (usage.input_tokens >= leastCached(model)) yield* ProviderMetrics.cacheRead(Target.asked(model), usage)
        const cacheable_tokens = prompts.answered(session, model, usage, yield* Monotonic.now)
        if (cacheable_tokens === undefined) return
        const { cached_input_tokens } = usage
        yield* Effect.annotateLogs(Effect.logWarning("prompt_cache_lost"), {
          model,
          cached_input_tokens,
          cacheable_tokens
        })
      })

      const ask = Effect.fnUntraced(function* (begun: Begun, requestTo: Parameters<Asking["ask"]>[0]) {
        const { listener, retries } = begun
        let failures: ReadonlyArray<ProviderErrorReason> = []
        for (;;) {
          const target = begun.isFirst ? retries.target : yield* retries.again
          begun.isFirst = false
          const attempt = ++begun.attempts
          const mended = demanding(target.model, failures.reduce(mend, yield* requestTo(target.model)))
          begun.subject.looks?.attempted()
          const attempted = yield* attemptOf(target, attempt, mended, listener, begun.subject.session)
          if (attempted._tag === "Finished") {
            yield* pool
              .succeeded(Target.use(target))
              .pipe(Effect.ignore({ log: "Warn", message: "credential_use_not_stored" }))
            yield* watchCache(begun.subject, target.model, attempted.answer.usage)
            return attempted.answer
          }
          const { reason } = attempted
          listener.failed(reason, target.credential.id)
          const isTooLong = begun.mayShorten && reason._tag === "context_overflow"
          if (isTooLong) begun.mayShorten = false
          const isShorter = isTooLong && (yield* listener.shorten)
          const { outputSchema } = mended
          const isFreer = outputSchema !== undefined && reason._tag === "bad_request"
          if (isFreer) refused.add(outputSchema)
          const delayMs = isShorter || isFreer ? 0 : yield* retries.failed(attempt, reason)
          const error = new ProviderError({ reason })
          yield* listener.retrying({ attempt, model: target.model, error, next: retries.target, delayMs })
          yield* Effect.sleep(delayMs).pipe(listener.within("backoff"))
          failures = isShorter ? [] : isFreer ? failures : [...failures, reason]
        }
      })

      return {
        first: targets.first,
        begin: (subject, listener, attempts = 0) =>
          Effect.map(Retries.begin({ pool, targets, settings }, subject), (retries) => {
            const begun: Begun = { subject, listener, retries, attempts, isFirst: true, mayShorten: true }
            return { target: () => retries.target, ask: (requestTo) => ask(begun, requestTo) }
          })
      }
    })
  )
}
