/**
 * The attributes of spans and metrics, by the names of OpenTelemetry's semantic conventions for generative AI. Attributes that
 * the conventions do not have begin with `bowline.`.
 */
export const conversation = "gen_ai.conversation.id"
export const operation = "gen_ai.operation.name"
export const provider = "gen_ai.provider.name"
export const requestModel = "gen_ai.request.model"
export const responseModel = "gen_ai.response.model"
export const finishReasons = "gen_ai.response.finish_reasons"
export const inputTokens = "gen_ai.usage.input_tokens"
export const outputTokens = "gen_ai.usage.output_tokens"
export const cachedInputTokens = "gen_ai.usage.cache_read.input_tokens"
export const reasoningTokens = "gen_ai.usage.reasoning.output_tokens"
export const timeToFirstChunk = "gen_ai.response.time_to_first_chunk"
export const tokenType = "gen_ai.token.type"
export const serverAddress = "server.address"
export const serverPort = "server.port"
export const errorType = "error.type"

export const plan = "bowline.plan.id"
export const step = "bowline.step"
export const attempt = "bowline.attempt"
export const credential = "bowline.credential.id"
export const finishInferred = "bowline.finish.inferred"
