import type { Usage } from "@bowline/domain/plan/Usage"
import { Context, Effect, Layer, Metric } from "effect"
import * as GenAi from "./GenAi.ts"

/** The labels of a metric: the provider, and the model as the provider calls it. */
export interface Asked {
  readonly provider: string
  readonly model: string
}

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68]
const powersOfFour = Array.from({ length: 14 }, (_, power) => 4 ** power)

type Labels = Readonly<Record<string, string>>

const duration = (labels: Labels) =>
  Metric.histogram("gen_ai.client.operation.duration", {
    description: "From sending a request to a provider to the end of its answer",
    attributes: { unit: "s", ...labels },
    boundaries: seconds
  })
const timeToFirstChunk = (labels: Labels) =>
  Metric.histogram("gen_ai.client.operation.time_to_first_chunk", {
    description: "From sending a request to a provider to the first content of its answer",
    attributes: { unit: "s", ...labels },
    boundaries: seconds
  })
const tokenUsage = (labels: Labels) =>
  Metric.histogram("gen_ai.client.token.usage", {
    description: "Tokens of an attempt, as its provider counts them",
    attributes: { unit: "{token}", ...labels },
    boundaries: powersOfFour
  })

const counter = (name: string, description: string, attributes: Labels = {}) =>
  Metric.counter(`bowline.${name}`, { description, incremental: true, attributes })

const attempts = (labels: Labels) =>
  counter("provider.attempts", "Requests to a provider; those without an error type have finished their answer", labels)
const retries = counter("provider.retries", "Retries, by why the attempt before failed")
const exhausted = counter("provider.retries_exhausted", "Steps that gave up, by why their last attempt failed")
const retracts = counter("provider.retracts", "Attempts whose text was retracted")
const failovers = counter("provider.failovers", "Steps that changed to the next model, by why this one failed")
const putAside = counter("credentials.put_aside", "Windows that were opened for a credential, by the failure")
const noSummary = counter("compactions.failed", "Summaries that failed, by reason")

const labels = ({ provider, model }: Asked, errorType?: string) => ({
  [GenAi.provider]: provider,
  [GenAi.requestModel]: model,
  ...(errorType === undefined ? {} : { [GenAi.errorType]: errorType })
})

/** The labels belong to the metrics: `Metric.withAttributes` would copy the context of the plan at every update. */
const ofAttempt = (asked: Asked, errorType: string | undefined) => {
  const chat = { ...labels(asked), [GenAi.operation]: "chat" }
  const ended = labels(asked, errorType)
  return {
    attempts: attempts(ended),
    duration: duration({ ...chat, ...ended }),
    timeToFirstChunk: timeToFirstChunk(chat),
    input: tokenUsage({ ...chat, [GenAi.tokenType]: "input" }),
    output: tokenUsage({ ...chat, [GenAi.tokenType]: "output" })
  }
}

/** The metrics of one runtime with their labels: they are kept, since to make them costs more than to count. */
class Series {
  readonly #isTold: (model: string) => boolean
  readonly #ofAttempts = new Map<string, ReturnType<typeof ofAttempt>>()

  constructor(isTold: (model: string) => boolean) {
    this.#isTold = isTold
  }

  told({ provider, model }: Asked): Asked {
    return { provider, model: this.#isTold(`${provider}/${model}`) ? model : "other" }
  }

  ofAttempt(asked: Asked, errorType: string | undefined): ReturnType<typeof ofAttempt> {
    const { provider, model } = this.told(asked)
    const key = `${provider}\n${model}\n${errorType ?? ""}`
    const metrics = this.#ofAttempts.get(key) ?? ofAttempt({ provider, model }, errorType)
    this.#ofAttempts.set(key, metrics)
    return metrics
  }
}

/** By default every model has series of its own. An app whose callers may name any model limits that. */
const Told = Context.Reference<Series>("@bowline/runtime/telemetry/ProviderMetrics/Told", {
  defaultValue: () => new Series(() => true)
})

/** Only these models, named as `provider/model`, have series of their own. All others are counted together, as `other`. */
export const layerOfModels = (models: ReadonlySet<string>): Layer.Layer<never> =>
  Layer.sync(Told, () => new Series((model) => models.has(model)))

const counted =
  (metric: Metric.Counter<number>) =>
  (asked: Asked, errorType: string): Effect.Effect<void> =>
    Effect.flatMap(Told, (series) =>
      Metric.update(Metric.withAttributes(metric, labels(series.told(asked), errorType)), 1)
    )

export const retried = counted(retries)
export const retriesExhausted = counted(exhausted)
export const retracted = counted(retracts)
export const failedOver = counted(failovers)
export const credentialPutAside = counted(putAside)
export const compactionFailed = counted(noSummary)

/** Counts an attempt that is over. `errorType` is undefined if it has finished its answer. */
export const attempted = (
  asked: Asked,
  told: {
    readonly errorType: string | undefined
    readonly durationMs: number
    readonly firstContentMs: number | undefined
    readonly usage: Usage | undefined
  },
  context: Context.Context<never>
): void => {
  const metrics = Context.get(context, Told).ofAttempt(asked, told.errorType)
  metrics.attempts.updateUnsafe(1, context)
  metrics.duration.updateUnsafe(told.durationMs / 1_000, context)
  if (told.firstContentMs !== undefined) metrics.timeToFirstChunk.updateUnsafe(told.firstContentMs / 1_000, context)
  if (told.usage === undefined) return
  metrics.input.updateUnsafe(told.usage.input_tokens, context)
  metrics.output.updateUnsafe(told.usage.output_tokens, context)
}
