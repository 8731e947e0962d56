import {
  BadRequest,
  type ProviderErrorReason,
  StreamCorrupt,
  ToolJson,
  Unknown
} from "@bowline/domain/provider/ProviderError"
import { DateTime, Duration } from "effect"
import { AiError } from "effect/ai"
import { classify, classifyTransport } from "../Classification.ts"
import * as FailureBody from "../FailureBody.ts"

const cleaned = FailureBody.cleaned([])

const cleanedText = (text: string): string => cleaned(FailureBody.fromJson(text)).message

/** The HTTP status that a reason of `effect/ai` stands for. All others are about the request. */
const statusOf = (reason: AiError.AiErrorReason): number => {
  switch (reason._tag) {
    case "RateLimitError":
      return 429
    case "AuthenticationError":
      return reason.kind === "InsufficientPermissions" ? 403 : 401
    case "InternalProviderError":
      return 500
    default:
      return 400
  }
}

/** What a reason says itself, where the error does not have the body of the response. */
const toBody = (reason: AiError.AiErrorReason, status: number): FailureBody.FailureBody =>
  FailureBody.fromJson({
    message: reason.message,
    ...(status === 400 ? { type: "invalid_request_error" } : {}),
    ...("parameter" in reason ? { param: reason.parameter } : {})
  })

const waitOf = (reason: AiError.AiErrorReason, now: number): number | undefined => {
  if (reason._tag === "QuotaExhaustedError" && reason.resetAt !== undefined) {
    return DateTime.toEpochMillis(reason.resetAt) - now
  }
  return reason._tag === "RateLimitError" && reason.retryAfter !== undefined
    ? Duration.toMillis(reason.retryAfter)
    : undefined
}

/** Leaves out headers that the model's client has redacted. */
const headersOf = (headers: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      typeof value === "string" ? [[name.toLowerCase(), value] as const] : []
    )
  )

/**
 * Classifies a failure of a `LanguageModel`: by the response, where the error has it, else by the reason that the model's adapter
 * gives. `now` is in milliseconds since 1970.
 */
export const classifyAi = (reason: AiError.AiErrorReason, now: number): ProviderErrorReason => {
  const message = cleanedText(reason.message)
  switch (reason._tag) {
    case "NetworkError": {
      if (reason.reason !== "TransportError") return new Unknown({ message: "The request could not be made" })
      const lost = classifyTransport(reason.cause, false)
      return lost.kind === "abort" ? new Unknown({ message: lost.message }) : lost
    }
    case "InvalidResponseError":
    case "InvalidOutputError":
    case "StructuredOutputError":
      return new StreamCorrupt({ message })
    case "ToolNotFoundError":
    case "ToolParameterValidationError":
      return new ToolJson({ message })
    case "ContentPolicyError":
      return new BadRequest({ message })
    default:
      return fromResponse(reason, now)
  }
}

const fromResponse = (reason: AiError.AiErrorReason, now: number): ProviderErrorReason => {
  const http = "http" in reason ? reason.http : undefined
  const answered = http?.response !== undefined && http.response.status >= 400 ? http.response : undefined
  if (reason._tag === "UnknownError" && answered === undefined) {
    return new Unknown({ message: cleanedText(reason.message) })
  }
  // The status is 429 for a used-up quota and for a rate limit. The adapter has read the body, and knows which it is.
  const status = reason._tag === "QuotaExhaustedError" ? 402 : (answered?.status ?? statusOf(reason))
  const wait = waitOf(reason, now)
  const headers = {
    ...(wait === undefined ? {} : { "retry-after-ms": `${wait}` }),
    ...headersOf(answered?.headers ?? {})
  }
  const body = http?.body === undefined ? toBody(reason, status) : FailureBody.fromText(http.body)
  return classify({ status, headers }, cleaned(body), now)
}

/** Classifies an error that comes as a part of an answer, in the shape that the adapter has for it. */
export const classifyPart = (error: unknown, now: number): ProviderErrorReason =>
  AiError.isAiError(error)
    ? classifyAi(error.reason, now)
    : classify({ status: 200, headers: {} }, cleaned(FailureBody.fromJson(error)), now)
