import {
  Auth,
  BadRequest,
  Billing,
  ContextOverflow,
  ModelUnavailable,
  Overloaded,
  type ProviderErrorReason,
  RateLimited,
  ServerError,
  Unknown
} from "@bowline/domain/provider/ProviderError"
import type { ProviderFailure } from "../Turn.ts"

/** The reasons of plain failures, for a provider without a wire format. Each wire format classifies the others itself. */
export const reasonOf = (
  status: number | undefined,
  { message, code }: ProviderFailure,
  headers: Readonly<Record<string, string>>
): ProviderErrorReason => {
  const details = { message, ...(status === undefined ? {} : { status }) }
  const retryAfter = Number(headers["retry-after"])
  const retry = retryAfter > 0 ? { ...details, retryAfterMs: retryAfter * 1_000 } : details
  if (code === "context_length_exceeded") return new ContextOverflow(details)
  if (code === "insufficient_quota") return new Billing(details)
  switch (status) {
    case 402:
      return new Billing(details)
    case 401:
    case 403:
      return new Auth(details)
    case 404:
      return new ModelUnavailable(details)
    case 400:
    case 413:
    case 422:
      return new BadRequest(details)
    case 429:
      return new RateLimited(retry)
    case 529:
      return new Overloaded(retry)
    default:
      return status === 408 || status === 409 || (status !== undefined && status >= 500)
        ? new ServerError(retry)
        : new Unknown(details)
  }
}
