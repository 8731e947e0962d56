import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"

const keys = { BOWLINE_API_KEYS: "ann=key-of-ann", BOWLINE_MAX_BODY: "1KiB" }
const ann = { authorization: "Bearer key-of-ann" }
const ask = { model: "bowline", messages: [{ role: "user", content: "?" }] }
const chat = "/v1/chat/completions"

const errorOf = ({ body }: { readonly body: Readonly<Record<string, unknown>> }) => body["error"]

describe("an error under /v1", () => {
  it.live.each([
    ["an unknown route", "GET", "/v1/nothing", ann, undefined, 404, "invalid_request_error", "not_found", null],
    [
      "an unknown route, oddly spelled",
      "GET",
      "//V1//nothing",
      ann,
      undefined,
      404,
      "invalid_request_error",
      "not_found",
      null
    ],
    [
      "a method that the route does not have",
      "DELETE",
      chat,
      ann,
      undefined,
      405,
      "invalid_request_error",
      "method_not_allowed",
      null
    ],
    ["no key", "POST", chat, {}, ask, 401, "authentication_error", "invalid_api_key", null],
    [
      "a wrong key",
      "GET",
      "/v1/models",
      { "api-key": "wrong" },
      undefined,
      401,
      "authentication_error",
      "invalid_api_key",
      null
    ],
    [
      "a body that is not JSON",
      "POST",
      chat,
      { ...ann, "content-type": "text/plain" },
      "?",
      415,
      "invalid_request_error",
      "unsupported_media_type",
      null
    ],
    ["a body that cannot be parsed", "POST", chat, ann, "{", 400, "invalid_request_error", "invalid_request", null],
    ["a body that is a list", "POST", chat, ann, "[]", 400, "invalid_request_error", "invalid_request", null],
    [
      "a large body",
      "POST",
      chat,
      ann,
      { ...ask, user: "u".repeat(2_000) },
      413,
      "invalid_request_error",
      "payload_too_large",
      null
    ],
    ["a wrong field", "POST", chat, ann, { ...ask, n: 2 }, 400, "invalid_request_error", "invalid_request", "n"],
    [
      "a wrong last message",
      "POST",
      chat,
      ann,
      { ...ask, messages: [] },
      400,
      "invalid_request_error",
      "invalid_request",
      "messages"
    ],
    [
      "an unknown model",
      "POST",
      chat,
      ann,
      { ...ask, model: "gpt" },
      404,
      "invalid_request_error",
      "model_not_found",
      null
    ],
    [
      "a model that may not be named",
      "POST",
      chat,
      ann,
      { ...ask, bowline: { preferences: { model: "no/such" } } },
      400,
      "invalid_request_error",
      "invalid_request",
      "bowline.preferences.model"
    ],
    [
      "a foreign page",
      "POST",
      chat,
      { ...ann, origin: "https://foreign.example" },
      ask,
      403,
      "permission_error",
      "forbidden",
      null
    ]
  ] as const)("has OpenAI's shape for %s", ([, method, path, headers, body, status, type, code, param]) =>
    Effect.gen(function* () {
      const { url } = yield* start([], keys)
      const answer = yield* send(`${url}${path}`, {
        method,
        headers: { "content-type": "application/json", ...headers },
        ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) })
      })
      assert.strictEqual(answer.status, status)
      assert.deepInclude(errorOf(answer), { type, code, param })
      assert.match((errorOf(answer) as { readonly message: string }).message, /\S/)
      assert.deepStrictEqual(Object.keys(answer.body), ["error"])
      assert.strictEqual(answer.headers.get("content-type"), "application/json")
      assert.strictEqual(answer.headers.get("x-should-retry"), "false")
      assert.isNotNull(answer.headers.get("x-request-id"))
      if (status === 401) assert.match(answer.headers.get("www-authenticate") ?? "", /^Bearer /)
      if (status === 405) assert.strictEqual(answer.headers.get("allow"), "POST, GET")
      assert.deepStrictEqual((yield* send(`${url}/plans`, { headers: ann })).body["plans"], [])
    })
  )

  it.live("may be tried again where that helps, and says when", () =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")], { ...keys, BOWLINE_RATE_LIMIT: "1/1m" })
      yield* send(`${url}/v1/models`, { headers: ann })
      const { headers, status, ...rest } = yield* send(`${url}/v1/models`, { headers: ann })
      assert.strictEqual(status, 429)
      assert.deepInclude(errorOf(rest), { type: "rate_limit_error", code: "rate_limited" })
      assert.isNull(headers.get("x-should-retry"))
      assert.isNotNull(headers.get("retry-after"))
    })
  )

  it.live("is none for a key in `api-key`, and for fields that change nothing, which a header names", () =>
    Effect.gen(function* () {
      const { url } = yield* start([[say("ok")]], keys)
      const odd = { ...ask, top_k: 7, "a\r\nb": 1, ü: 1 }
      const { headers, status } = yield* post(`${url}${chat}`, odd, { "api-key": "key-of-ann" })
      assert.strictEqual(status, 200)
      assert.strictEqual(headers.get("x-bowline-ignored"), "top_k, a%0D%0Ab, %C3%BC")
    })
  )
})
