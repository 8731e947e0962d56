import { empty as noUsage, type Usage } from "@bowline/domain/plan/Usage"
import { Context, Effect } from "effect"
import { NamedModels } from "../config/NamedModels.ts"
import * as GenAi from "./GenAi.ts"
import * as Instrument from "./Instrument.ts"

/** The labels of a metric: the provider, and the model as the provider calls it. */
export interface Asked {
  readonly provider: string
  readonly model: string
}

const errors = "the types of errors in the reference of the provider; absent without an error"
const models = {
  [GenAi.provider]: "the configured providers",
  [GenAi.requestModel]: "the configured models, and `other`"
}
const chats = { ...models, [GenAi.operation]: ["chat"] } as const

const tokens = Array.from({ length: 14 }, (_, power) => 4 ** power)

const duration = Instrument.histogram({
  name: "gen_ai.client.operation.duration",
  description: "From sending a request to a provider to the end of its answer",
  unit: "s",
  labels: { ...chats, [GenAi.errorType]: errors }
})
const timeToFirstChunk = Instrument.histogram({
  name: "gen_ai.client.operation.time_to_first_chunk",
  description: "From sending a request to a provider to the first content of its answer",
  unit: "s",
  labels: chats
})
const tokenUsage = Instrument.histogram({
  name: "gen_ai.client.token.usage",
  description: "Tokens of an attempt, as its provider counts them",
  unit: "{token}",
  labels: { ...chats, [GenAi.tokenType]: ["input", "output"] },
  boundaries: tokens
})

const inferences = { ...models, [GenAi.operation]: "`chat`" }
/** From 10 ms to 82 s. */
const inferenceSeconds = Instrument.seconds.slice(0, 14)

const tokensOf = (direction: "input" | "output") =>
  Instrument.histogram({
    name: `gen_ai.client.inference.operation.${direction}_tokens`,
    description: "Tokens of an attempt, as its provider counts them; 0 if it has not",
    unit: "{token}",
    labels: { ...inferences, [GenAi.errorType]: errors },
    boundaries: tokens
  })

const usedOf = (kind: string, description: string) =>
  Instrument.counter({
    name: `gen_ai.client.inference.usage.${kind}_tokens`,
    description,
    unit: "{token}",
    labels: { ...inferences, [GenAi.modality]: "`text`, and `unknown`: providers do not say what their input was" }
  })

/** Those of the newest conventions, in place of the three above. */
const inference = {
  duration: Instrument.histogram({
    name: "gen_ai.client.inference.duration",
    description: "From sending a request to a provider to the end of its answer",
    unit: "s",
    labels: { ...inferences, [GenAi.errorType]: errors },
    boundaries: inferenceSeconds
  }),
  timeToFirstChunk: Instrument.histogram({
    name: "gen_ai.client.inference.time_to_first_chunk",
    description: "From sending a request to a provider to the first content of its answer",
    unit: "s",
    labels: inferences,
    boundaries: inferenceSeconds
  }),
  inputTokens: tokensOf("input"),
  outputTokens: tokensOf("output"),
  used: {
    input: usedOf("input", "Input tokens, with those that were read from a cache"),
    cached: usedOf("cache_read.input", "Input tokens that providers have read from their caches"),
    output: usedOf("output", "Output tokens, with those of reasoning"),
    reasoning: usedOf("reasoning.output", "Output tokens of reasoning")
  }
}
const cacheHits = Instrument.histogram({
  name: "bowline.cache_hit_ratio",
  description:
    "The share of a step's input that its provider has read from a cache, of prompts that are long enough for one",
  labels: models,
  boundaries: Array.from({ length: 10 }, (_, tenth) => tenth / 10)
})

const counter = (name: string, description: string) =>
  Instrument.counter({ name: `bowline.${name}`, description, labels: { ...models, [GenAi.errorType]: errors } })

const attempts = counter(
  "provider.attempts",
  "Requests to a provider; those without an error type have finished their answer"
)
const retries = counter("provider.retries", "Retries, by why the attempt before failed")
const exhausted = counter("provider.retries_exhausted", "Steps that gave up, by why their last attempt failed")
const retracts = counter("provider.retracts", "Attempts whose text was retracted")
const failovers = counter("provider.failovers", "Steps that changed to the next model, by why this one failed")
const blocked = counter("credentials.blocked", "Windows that were opened for a credential, by the failure")
const noSummary = counter("compactions.failed", "Summaries that failed, by reason")

const labels = ({ provider, model }: Asked) => ({ [GenAi.provider]: provider, [GenAi.requestModel]: model })

/** Only models that the configuration names have series of their own. All others are counted together, as `other`. */
const toldBy =
  (isNamed: (model: string) => boolean) =>
  (asked: Asked): Asked =>
    isNamed(`${asked.provider}/${asked.model}`) ? asked : { ...asked, model: "other" }

const counted =
  (instrument: typeof attempts) =>
  (asked: Asked, errorType: string): Effect.Effect<void> =>
    Effect.flatMap(NamedModels, (isNamed) =>
      instrument.update(1, { ...labels(toldBy(isNamed)(asked)), [GenAi.errorType]: errorType })
    )

export const retried = counted(retries)
export const retriesExhausted = counted(exhausted)
export const retracted = counted(retracts)
export const failedOver = counted(failovers)
export const credentialBlocked = counted(blocked)
export const compactionFailed = counted(noSummary)

export const cacheRead = (asked: Asked, { cached_input_tokens, input_tokens }: Usage): Effect.Effect<void> =>
  Effect.flatMap(NamedModels, (isNamed) =>
    cacheHits.update(Math.min(cached_input_tokens / input_tokens, 1), labels(toldBy(isNamed)(asked)))
  )

interface Told {
  /** Undefined if it has finished its answer. */
  readonly errorType: string | undefined
  readonly durationMs: number
  readonly firstContentMs: number | undefined
  readonly usage: Usage | undefined
}

/** Counts an attempt that is over. */
export const attempted = (asked: Asked, told: Told, context: Context.Context<never>): void => {
  const model = labels(toldBy(Context.get(context, NamedModels))(asked))
  attempts.updateUnsafe(1, { ...model, [GenAi.errorType]: told.errorType }, context)
  const record = Context.get(context, GenAi.Latest) ? measureInference : measureOperation
  record({ ...model, [GenAi.operation]: "chat" }, told, context)
}

type Chat = ReturnType<typeof labels> & { readonly [GenAi.operation]: "chat" }

const measureOperation = (chat: Chat, told: Told, context: Context.Context<never>): void => {
  const { durationMs, errorType, firstContentMs, usage } = told
  duration.updateUnsafe(durationMs / 1_000, { ...chat, [GenAi.errorType]: errorType }, context)
  if (firstContentMs !== undefined) timeToFirstChunk.updateUnsafe(firstContentMs / 1_000, chat, context)
  if (usage === undefined) return
  tokenUsage.updateUnsafe(usage.input_tokens, { ...chat, [GenAi.tokenType]: "input" }, context)
  tokenUsage.updateUnsafe(usage.output_tokens, { ...chat, [GenAi.tokenType]: "output" }, context)
}

const measureInference = (chat: Chat, told: Told, context: Context.Context<never>): void => {
  const { durationMs, errorType, firstContentMs, usage = noUsage } = told
  const ended = { ...chat, [GenAi.errorType]: errorType }
  inference.duration.updateUnsafe(durationMs / 1_000, ended, context)
  if (firstContentMs !== undefined) inference.timeToFirstChunk.updateUnsafe(firstContentMs / 1_000, chat, context)
  inference.inputTokens.updateUnsafe(usage.input_tokens, ended, context)
  inference.outputTokens.updateUnsafe(usage.output_tokens, ended, context)
  const input = { ...chat, [GenAi.modality]: "unknown" }
  const output = { ...chat, [GenAi.modality]: told.usage === undefined ? "unknown" : "text" }
  inference.used.input.updateUnsafe(usage.input_tokens, input, context)
  inference.used.cached.updateUnsafe(usage.cached_input_tokens, input, context)
  inference.used.output.updateUnsafe(usage.output_tokens, output, context)
  inference.used.reasoning.updateUnsafe(usage.reasoning_tokens, output, context)
}
