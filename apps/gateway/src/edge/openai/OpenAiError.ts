import type { Failure } from "@bowline/domain/plan/Outcome"
import { problems } from "@bowline/protocol/unstable/api/Problem"
import type { OpenAiError } from "@bowline/protocol/unstable/openai/OpenAiApi"
import { Headers } from "effect/http"
import { type Refused, type RefusalBody, retryAfter, saidOf } from "../../http/Refusals.ts"
import type { Edge } from "../../http/RequestMiddleware.ts"

type Type = OpenAiError["error"]["type"]

const typeOf = (status: number): Type => {
  if (status === 401) return "authentication_error"
  if (status === 403) return "permission_error"
  if (status === 429) return "rate_limit_error"
  return status >= 500 ? "server_error" : "invalid_request_error"
}

const renamed: Readonly<Record<string, string>> = {
  unauthorized: "invalid_api_key",
  context_overflow: "context_length_exceeded"
}

/** The code for which clients of OpenAI's API look, by the gateway's. */
export const codeOf = (code: string): string => renamed[code] ?? code

export const make = (status: number, code: string, message: string, param: string | null = null): OpenAiError => ({
  error: { message, type: typeOf(status), code: codeOf(code), param }
})

/** Clients ask again after a 409, a 429 and every status from 500 on, unless this tells them not to. */
const retryHeaders = (isRetryable: boolean) => (isRetryable ? {} : { "x-should-retry": "false" })

/** A refusal in the shape of OpenAI's API. */
export const fromRefused = (refused: Refused): RefusalBody => {
  const { code, issues = [], plan_id } = refused
  const { retryable, status } = problems[code]
  const param = issues.find(({ path }) => path !== "")?.path
  return {
    body: make(status, code, saidOf(refused), param),
    contentType: "application/json",
    headers: { ...retryHeaders(retryable), ...(plan_id !== undefined && { "x-bowline-plan-id": plan_id }) }
  }
}

const statusOf = ({ code, reason }: Failure): number => {
  if (reason === "deadline") return 504
  if (code === "provider_rate_limited") return 429
  if (code === "context_overflow") return 400
  return code.startsWith("provider_") ? 502 : 500
}

/** The end of a plan that did not complete, for a client that did not ask for a stream. */
export const fromFailure = (failure: Failure) => {
  const status = statusOf(failure)
  const known = failure.data?.["retry_after_ms"]
  return {
    status,
    body: chunkOf(failure),
    headers: {
      ...retryHeaders(failure.retryable),
      ...(status === 429 && retryAfter),
      ...(typeof known === "number" && { "retry-after": String(Math.ceil(known / 1_000)) })
    }
  }
}

/** The same end as the last data of a stream. */
export const chunkOf = (failure: Failure): OpenAiError => make(statusOf(failure), failure.code, failure.message)

/** What OpenAI's clients expect of every path under `/v1`: their errors, and that a key may come in `api-key`, too. */
export const edge: Edge = {
  // Like the router, this ignores case and repeated slashes.
  path: /^\/+v1(?:[/?]|$)/i,
  refusal: fromRefused,
  adapt: (request) => {
    const { authorization, "api-key": key } = request.headers
    return key === undefined || authorization !== undefined
      ? request
      : request.modify({ headers: Headers.set(request.headers, "authorization", `Bearer ${key}`) })
  }
}
