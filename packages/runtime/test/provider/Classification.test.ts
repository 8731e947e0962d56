import type { ProviderErrorReason } from "@bowline/domain/provider/ProviderError"
import { assert, describe, it } from "@effect/vitest"
import { classify, classifyTransport } from "../../src/provider/Classification.ts"
import * as FailureBody from "../../src/provider/FailureBody.ts"

type Row = readonly [reason: ProviderErrorReason["_tag"], status: number, body: string | object]

const error = (message: string, fields?: object) => ({ error: { message, ...fields } })

/** What a server says about a request with this text in it, in the words of each wire. */
const quoting = (text: string): ReadonlyArray<Row> => {
  const bodies = [
    error(`Invalid schema for function '${text}': type is missing`, {
      type: "invalid_request_error",
      param: "tools[0].function.parameters",
      code: "invalid_function_parameters"
    }),
    error(`Invalid 'tools[0].name': '${text}'`, { type: "invalid_request_error", code: null, param: "tools[0].name" }),
    error(`Tool "${text}" is defined twice`, { type: "invalid_request_error" }),
    error(`Tool \`${text}\` is defined twice`),
    { type: "error", error: { type: "invalid_request_error", message: `tools.0.custom: ${text} is no valid name` } },
    { object: "error", message: `Function '${text}' is no valid name`, type: "BadRequestError", code: 400 }
  ]
  return bodies.flatMap((body): ReadonlyArray<Row> => [
    ["bad_request", 400, body],
    ["bad_request", 200, { error: { code: 400, ...("error" in body ? body.error : body) } }]
  ])
}

const rows: ReadonlyArray<Row> = [
  // Row 2: in every provider's words, and before everything that the status would mean.
  [
    "context_overflow",
    400,
    error("This model's maximum context length is 8192 tokens.", { code: "context_length_exceeded" })
  ],
  [
    "context_overflow",
    400,
    error("prompt is too long: 210000 tokens > 200000 maximum", { type: "invalid_request_error" })
  ],
  ["context_overflow", 400, error("Your input exceeds the context window of this model.")],
  ["context_overflow", 413, error("Input is too long for requested model.")],
  ["context_overflow", 429, error("Request too large for gpt-4 on tokens per min (TPM). The input must be reduced.")],
  [
    "context_overflow",
    400,
    [
      {
        error: {
          code: 400,
          message: "The input token count (9) exceeds the maximum number of tokens allowed (8).",
          status: "INVALID_ARGUMENT"
        }
      }
    ]
  ],
  [
    "context_overflow",
    500,
    error("the request exceeds the available context size", { type: "exceed_context_size_error" })
  ],
  [
    "context_overflow",
    400,
    { object: "error", message: "This model's maximum context length is 4096 tokens", code: 400 }
  ],
  // Row 3
  ["billing", 402, error("Insufficient Balance")],
  ["billing", 402, "Payment Required"],
  ["billing", 429, error("You exceeded your current quota.", { code: "insufficient_quota" })],
  ["billing", 400, error("Your credit balance is too low to access the API.")],
  ["billing", 403, error("Key limit exceeded: daily limit")],
  ["billing", 429, error("Rate limit reached for m on tokens per day (TPD): Limit 100, Used 99.")],
  ["billing", 429, error("Extra usage is required for long context requests.", { type: "rate_limit_error" })],
  ["billing", 400, error("You have reached your specified API usage limits. You will regain access on 2026-04-01.")],
  ["billing", 400, error("x", { code: "insufficient_quota", param: "model" })],
  ["billing", 400, error("x", { code: "billing_hard_limit_reached", type: "invalid_request_error" })],
  ["billing", 400, error("Billing hard limit has been reached")],
  [
    "billing",
    400,
    error("Your credit balance is too low. Please go to Plans & Billing.", { type: "invalid_request_error" })
  ],
  [
    "billing",
    400,
    error("You have reached your specified API usage limits.", { type: "invalid_request_error", code: null })
  ],
  ["billing", 403, error("You have run out of credits", { type: "permission_error" })],
  // Row 7, not 3: the words are those of the request, which a message quotes.
  ...quoting("stripe_list_billing_meters"),
  ...quoting("billing"),
  ...quoting("Your API key not valid, per day"),
  ["bad_request", 400, error("Unknown value: credits", { code: "invalid_value" })],
  ["bad_request", 400, error("credits: expected a number", { type: "invalid_request_error" })],
  ["bad_request", 400, error("billing is not a valid schema", { code: "invalid_json_schema" })],
  ["bad_request", 400, error("billing is not supported", { code: "unsupported_parameter" })],
  ["bad_request", 400, error("Missing billing", { param: "tools[0].name" })],
  ["bad_request", 400, error("model_not_found is no tool")],
  ["bad_request", 400, error("The tool api_key_invalid has no schema")],
  ["bad_request", 404, error("No such file", { code: "file_not_found" })],
  ["bad_request", 404, error("Response not found", { param: "previous_response_id" })],
  [
    "bad_request",
    400,
    error("Provider returned error", {
      code: 400,
      metadata: {
        raw: JSON.stringify(error("Bad function list_billing_meters: billing", { code: "invalid_function_parameters" }))
      }
    })
  ],
  // Row 3b: a refusal of what was asked, and not of who asks.
  [
    "bad_request",
    403,
    error("Your chosen model requires moderation and your input was flagged", {
      code: 403,
      metadata: { reasons: ["violence"], flagged_input: "my billing credits", provider_name: "x", model_slug: "y" }
    })
  ],
  ["bad_request", 403, error("Refused", { metadata: { flagged_input: "credits" } })],
  ["bad_request", 403, error("Refused", { metadata: { reasons: ["billing"] } })],
  ["bad_request", 403, error("Blocked by our content policy. Try another model")],
  ["bad_request", 403, error("The prompt was flagged", { type: "permission_error" })],
  ["bad_request", 403, error("x", { code: "content_policy_violation" })],
  ["bad_request", 403, error("Failed a safety check of your plan")],
  ["bad_request", 403, error("Moderation refused it")],
  ["bad_request", 200, error("Your input was flagged", { code: 403 })],
  // Row 4
  ["auth", 401, error("Incorrect API key provided")],
  ["auth", 401, ""],
  ["auth", 403, error("Forbidden")],
  ["auth", 400, [{ error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT" } }]],
  // Row 5
  ["model_unavailable", 404, error("The model `m` does not exist", { code: "model_not_found" })],
  ["model_unavailable", 404, { error: "model 'm' not found, try pulling it first" }],
  ["model_unavailable", 404, error("No endpoints found for m.")],
  ["model_unavailable", 403, error("Project p does not have access to model m")],
  ["model_unavailable", 403, error("Not in your plan")],
  ["model_unavailable", 400, error("The model is gone", { code: "model_decommissioned" })],
  ["unknown", 404, "404 page not found"],
  // Rows 6, 6b, 7
  ["history_rejected", 400, error("An assistant message with 'tool_calls' must be followed by tool messages.")],
  [
    "history_rejected",
    400,
    error("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
  ],
  ["history_rejected", 400, error("`tool_use` ids were found without `tool_result` blocks immediately after: a")],
  ["history_rejected", 400, error("messages.1.content.0: Invalid `signature` in `thinking` block")],
  [
    "history_rejected",
    400,
    error("messages.3: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.")
  ],
  [
    "history_rejected",
    400,
    error("messages.1: The final block in an assistant message cannot be `thinking`.", {
      type: "invalid_request_error"
    })
  ],
  ["history_rejected", 400, error("messages.1: Expected `thinking` or `redacted_thinking`, but found `tool_use`.")],
  ["history_rejected", 400, error("messages.2: `tool_use` ids must be unique")],
  ["history_rejected", 400, error("messages.2: Found multiple `tool_result` blocks with id: toolu_01")],
  ["history_rejected", 400, error("After the optional system message, conversation roles must alternate")],
  ["history_rejected", 400, error("No tool output found for function call call_1.", { type: "invalid_request_error" })],
  ["history_rejected", 400, error("Item 'rs_1' of type 'reasoning' was provided without its required following item.")],
  [
    "history_rejected",
    400,
    error("The encrypted content could not be verified.", { code: "invalid_encrypted_content" })
  ],
  ["history_rejected", 404, error("Item with id 'rs_1' not found. Items are not persisted when `store` is false.")],
  ["tool_json", 400, error("Failed to call a function. Please adjust your prompt.", { code: "tool_use_failed" })],
  ["tool_json", 200, error("error parsing tool call: raw='{'")],
  ["bad_request", 400, error("Invalid value for 'temperature'")],
  ["bad_request", 413, error("Request body too large")],
  ["bad_request", 422, { detail: "Field required" }],
  ["bad_request", 400, error("The upstream says that it is overloaded")],
  // Row 8, though it speaks of billing, in a link or by the minute.
  ["rate_limited", 429, error("Rate limit reached on requests per min (RPM). Visit https://x.test/account/billing.")],
  ["rate_limited", 429, error("Too many requests, see https://x.test/account/billing#credits")],
  ["rate_limited", 429, error("Quota exceeded for PerMinute requests. Check your plan and billing details.")],
  ["rate_limited", 429, error("The engine is currently overloaded")],
  ["rate_limited", 429, ""],
  // Rows 9, 10
  ["overloaded", 529, ""],
  ["overloaded", 503, error("The model is overloaded. Please try again later.")],
  ["overloaded", 503, error("Slow down.", { code: "slow_down" })],
  ["server_error", 503, "Service Unavailable"],
  ["server_error", 500, error("boom")],
  ["server_error", 408, ""],
  ["server_error", 409, ""],
  ["server_error", 504, "<html>"],
  // In the midst of a stream, where the status was 200.
  ["rate_limited", 200, error("Slow down", { code: 429 })],
  ["rate_limited", 200, error("Slow down", { code: "rate_limit_exceeded" })],
  ["billing", 200, error("You have no credits left")],
  ["overloaded", 200, error("Overloaded", { type: "overloaded_error" })],
  ["billing", 200, error("x", { type: "billing_error" })],
  ["bad_request", 200, error("x", { type: "request_too_large" })],
  ["server_error", 200, error("x", { type: "timeout_error" })],
  ["overloaded", 200, { type: "error", error: { type: "x", message: "We are at capacity" } }],
  ["server_error", 200, error("The server had an error while processing your request")],
  ["server_error", 200, error("x", { code: "502" })],
  ["context_overflow", 200, error("prompt is too long")],
  ["auth", 200, error("x", { type: "authentication_error" })],
  // Row 14
  ["unknown", 200, error("boom")],
  ["unknown", 418, error("I am a teapot")],
  ["unknown", 302, "Moved"]
]

describe("classify", () => {
  it.each(rows)("reads as %s a %i of %j", (reason, status, body) => {
    const text = typeof body === "string" ? body : JSON.stringify(body)
    assert.strictEqual(classify({ status, headers: {} }, FailureBody.fromText(text), 0)._tag, reason)
  })

  it("shows what the provider said, or else its status, and nothing of a page", () => {
    const messageOf = (body: string) => classify({ status: 500, headers: {} }, FailureBody.fromText(body), 0).message
    assert.strictEqual(messageOf('{"error":{"message":"boom"}}'), "boom")
    assert.strictEqual(messageOf("<html>secret</html>"), "The provider answered with status 500")
  })

  it("asks about the base URL when a 404 comes from no API", () => {
    const { message } = classify({ status: 404, headers: {} }, FailureBody.fromText("<html>404</html>"), 0)
    assert.strictEqual(message, "The provider answered with status 404: its base URL may be wrong")
  })

  it("uses the reset of a used up limit for a 429 only", () => {
    const headers = { "x-ratelimit-reset-requests": "2s", "x-ratelimit-remaining-requests": "0" }
    const body = FailureBody.fromText("")
    assert.deepInclude(classify({ status: 429, headers }, body, 0), { retryAfterMs: 2_000 })
    assert.notProperty(classify({ status: 500, headers }, body, 0), "retryAfterMs")
    assert.deepInclude(classify({ status: 503, headers: { "retry-after": "3" } }, body, 0), { retryAfterMs: 3_000 })
  })
})

describe("classifyTransport", () => {
  const failure = (fields: object, cause?: unknown) => Object.assign(new Error("sk-secret", { cause }), fields)

  it.each([
    ["connect", failure({ code: "ECONNREFUSED" })],
    ["connect", failure({ code: "ENOTFOUND" })],
    ["connect", failure({ code: "UND_ERR_CONNECT_TIMEOUT" })],
    ["connect", failure({ code: "DEPTH_ZERO_SELF_SIGNED_CERT" })],
    ["connect", failure({ code: "ERR_SSL_WRONG_VERSION_NUMBER" })],
    ["connect", failure({}, failure({ code: "EAI_AGAIN" }))],
    ["reset", failure({ code: "ECONNRESET" })],
    ["reset", failure({ code: "UND_ERR_SOCKET" })],
    ["reset", failure({ name: "TypeError" }, failure({ code: "UND_ERR_SOCKET" }))],
    ["reset", undefined],
    ["abort", failure({ name: "AbortError" })],
    ["abort", failure({ code: "UND_ERR_ABORTED" })]
  ] as const)("recognises a %s by the codes of %o and its causes, and shows nothing else of it", (kind, cause) => {
    const reason = classifyTransport(cause, false)
    assert.strictEqual(reason.kind, kind)
    assert.notInclude(reason.message, "secret")
  })

  it("reads what breaks after the head of an answer as a lost connection, whatever its code", () => {
    assert.strictEqual(classifyTransport(failure({ code: "ETIMEDOUT" }), true).kind, "reset")
  })
})
