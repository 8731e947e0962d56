import {
  Auth,
  BadRequest,
  Billing,
  ContextOverflow,
  HistoryRejected,
  ModelUnavailable,
  Overloaded,
  type ProviderErrorReason,
  RateLimited,
  ServerError,
  ToolJson,
  Transport,
  Unknown
} from "@bowline/domain/provider/ProviderError"
import { Predicate } from "effect"
import type { FailureBody } from "./FailureBody.ts"
import { rateLimitReset, retryAfter } from "./RetryAfter.ts"

const any = (...patterns: ReadonlyArray<string>) => new RegExp(patterns.join("|"))

const contextOverflow = any(
  "context_length_exceeded",
  "string_above_max_length",
  "exceed_context_size",
  "(context|prompt|input)( length| size| window| token count)? (is )?(too long|exceeds|exceeded)",
  "exceeds? the (available |model's |maximum )?(context|model length)",
  "exceed context limit",
  "maximum (context|prompt) length",
  "maximum number of (input )?tokens",
  "reduce the length of",
  "too (long|large) for (the )?(requested )?model",
  "too many (input )?tokens(?! per)",
  "context (the )?overflow",
  "request too large for .* must be reduced",
  "tokens \\+ `?max_new_tokens`? must be <="
)
const billing = any(
  "insufficient_quota",
  "billing",
  "\\bcredits?\\b",
  "insufficient.(balance|funds)",
  "payment required",
  "quota (was |is |has been )?(exhausted|exceeded)",
  "exceeded your (current |monthly )?quota",
  "(spend|spending|usage) limit",
  "extra usage is required",
  "(daily|monthly) (limit|quota)",
  "per day"
)
const perMinute = /per.?min|per.?second|\brpm\b|\btpm\b/
/** Codes that say no more than their status does. */
const general = any(
  "^\\d+$",
  "^(api_|upstream_)?error$",
  "^about:blank$",
  "^(invalid|bad)_?(request|argument)(_?error)?$",
  "^(forbidden|permission|not_?found)(_?error|_denied)?$"
)
const billingCode = any(
  "insufficient_?(quota|balance|funds|credits?)",
  "billing",
  "credits?_",
  "payment_?required",
  "quota_?(exhausted|exceeded)",
  "(spend|spending|usage)_?limit"
)
/** The start of a sentence about the account, and not about what was asked. */
const account = any("^your? (?!(request|prompt|input|messages?|tools?)\\b)", "^insufficient", "^billing", "^payment")
const keyCode = /^(invalid_api_key|api_key_invalid)$/
const modelCode = /^(model_not_found|model_decommissioned|deploymentnotfound)$/
const content = any(
  "moderation",
  "\\bflagged\\b",
  "\\bsafety(\\b|_)",
  "content.?(polic|filter|management|violation)",
  "(usage|acceptable.use|safety) polic",
  "(violat|against) .{0,40}polic"
)
const modelOrPlan = any("\\bmodels?\\b", "\\bplan\\b", "\\btier\\b", "subscription", "deployment", "endpoints? found")
const history = any(
  "tool_calls?.{0,40}(must be followed|did not have response|without)",
  "must be a response to a prece+ding message",
  "tool_use.{0,60}without.{0,40}tool_result",
  "unexpected.{0,20}tool_use_id",
  "tool_use.{0,10}ids must be unique",
  "multiple.{0,10}tool_result.{0,10}blocks",
  "thinking.{0,80}cannot be modified",
  "invalid .{0,20}thinking",
  "(expected|cannot be) .?thinking",
  "no tool (output|call) found",
  "provided without its required",
  "invalid_encrypted_content",
  "item with id \\S+ not found",
  "function (response|call) (turn|parts)",
  "number of function calls and responses",
  "roles must alternate",
  "unexpected role",
  "expected last role"
)
const toolJson = any(
  "tool_use_failed",
  "failed to call a function",
  "tool call validation failed",
  "(failed to parse|error parsing|could not parse) .{0,20}tool.?call",
  "invalid (json in )?tool.?call"
)
const overloaded = any("overloaded", "(at|over) capacity", "server is busy", "currently busy", "slow_down")
const serverFault = any(
  "internal",
  "server.{0,10}error",
  "upstream",
  "unavailable",
  "bad gateway",
  "timed? ?out",
  "try again"
)

/** The status that the type of a failure stands for, where the failure comes within a stream and names none. */
const statuses: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  invalid_prompt: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  tokens: 429,
  requests: 429,
  overloaded_error: 529,
  server_error: 500,
  api_error: 500,
  internal_server_error: 500,
  timeout_error: 504
}

/** Whether words may tell what the failure is: no code and no field does. */
const isWithoutCode = ({ codes, field }: FailureBody): boolean =>
  field === undefined && codes.every((code) => general.test(code))

/**
 * Whether the account has to pay. A message about the request may quote it, with the names of its tools. So there a code decides, and words
 * only without one; where the server gives every refusal the same code, only a sentence about the account.
 */
const isBilling = (status: number | undefined, body: FailureBody): boolean => {
  const { codes, signals, words } = body
  if (status === 401 || status === 429) return billing.test(signals) && !perMinute.test(signals)
  if (codes.some((code) => billingCode.test(code) && !code.startsWith("invalid_"))) return true
  const isSaid = billing.test(words) && !perMinute.test(words)
  if (status === 403) return isSaid
  return isSaid && isWithoutCode(body) && (codes.length === 0 || account.test(words))
}

const isWrongKey = (body: FailureBody): boolean =>
  body.codes.some((code) => keyCode.test(code)) || (isWithoutCode(body) && body.words.startsWith("api key not valid"))

/** Whether a 404 is about something else in the request than its model. */
const isOtherMissing = ({ codes, field }: FailureBody): boolean =>
  (field !== undefined && field !== "model") ||
  codes.some((code) => !general.test(code) && !modelOrPlan.test(code.replaceAll("_", " ")))

/**
 * Classifies a provider's failure by the table of `docs/reference/provider.md`. `status` is that of the response. Below 400 the
 * failure came in the body, which may name another status. `now` is in milliseconds since 1970.
 */
export const classify = (
  response: { readonly status: number; readonly headers: Readonly<Record<string, string | undefined>> },
  body: FailureBody,
  now: number
): ProviderErrorReason => {
  const { codes, signals, words } = body
  const named = body.status ?? codes.map((code) => statuses[code]).find((known) => known !== undefined)
  const status = response.status >= 400 ? response.status : named
  const hint = response.status === 404 ? ": its base URL may be wrong" : ""
  const details = {
    message: body.message === "" ? `The provider answered with status ${response.status}${hint}` : body.message,
    ...(status === undefined ? {} : { status })
  }
  const isOneOf = (...expected: ReadonlyArray<number>) => status === undefined || expected.includes(status)
  const asked = retryAfter(response.headers, now)
  const billed = asked === undefined ? details : { ...details, retryAfterMs: asked }
  const retryAfterMs = asked ?? (status === 429 ? rateLimitReset(response.headers, now) : undefined)
  const retry = retryAfterMs === undefined ? details : { ...details, retryAfterMs }

  if (contextOverflow.test(signals)) return new ContextOverflow(details)
  if (status === 402) return new Billing(billed)
  if (status === 403 && (body.isFlagged || content.test(signals))) return new BadRequest(details)
  if (isOneOf(400, 401, 403, 429) && isBilling(status, body)) return new Billing(billed)
  if (status === 401 || isWrongKey(body)) return new Auth(details)
  if (codes.some((code) => modelCode.test(code))) return new ModelUnavailable(details)
  if (isOneOf(400, 404, 422) && history.test(signals)) return new HistoryRejected(details)
  if (status === 404 && isOtherMissing(body)) return new BadRequest(details)
  if (status === 404 && (body.message !== "" || modelOrPlan.test(signals))) return new ModelUnavailable(details)
  if (status === 403) {
    const refused = isWithoutCode(body) ? { ...details, isUnexplained: true } : details
    return modelOrPlan.test(words) ? new ModelUnavailable(refused) : new Auth(refused)
  }
  if ((isOneOf(400, 422) || response.status < 400) && toolJson.test(signals)) return new ToolJson(details)
  if (status === 400 || status === 413 || status === 422) return new BadRequest(details)
  if (status === 429) return new RateLimited(retry)
  if (status === 529 || overloaded.test(signals)) return new Overloaded(retry)
  if (status === 408 || status === 409 || (status !== undefined && status >= 500)) return new ServerError(retry)
  if (status === undefined && serverFault.test(signals)) return new ServerError(retry)
  return new Unknown(details)
}

const connectCodes = any(
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
  "EADDR",
  "ETIMEDOUT",
  "UND_ERR_CONNECT",
  "ERR_SSL",
  "ERR_TLS",
  "CERT",
  "UNABLE_TO_"
)
const abortCodes = any("ABORT", "UND_ERR_DESTROYED", "UND_ERR_CLOSED")

/** The codes and names in a chain of causes, the outermost first. */
const codesOf = (cause: unknown, depth = 0): ReadonlyArray<string> => {
  if (!Predicate.isObject(cause) || depth > 5) return []
  const own = [cause["code"], cause["name"]].filter((value) => typeof value === "string")
  return [...own, ...codesOf(cause["cause"], depth + 1)]
}

/**
 * Classifies the failure of a connection. Its message shows the code only: the error's own message may contain a secret.
 * `isAnswering`: the head of the response had come.
 */
export const classifyTransport = (cause: unknown, isAnswering: boolean): Transport => {
  const codes = codesOf(cause)
  const has = (pattern: RegExp) => codes.some((code) => pattern.test(code.toUpperCase()))
  const detail = codes[0] === undefined ? "" : ` (${codes[0]})`
  if (has(abortCodes)) return new Transport({ kind: "abort", message: `The connection was aborted${detail}` })
  return !isAnswering && has(connectCodes)
    ? new Transport({ kind: "connect", message: `No connection to the provider${detail}` })
    : new Transport({ kind: "reset", message: `The connection to the provider was lost${detail}` })
}
