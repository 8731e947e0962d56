import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Config, Effect, Random } from "effect"
import { post, start } from "../../http/RunningGateway.ts"

const seed = 14

const values: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  1e308,
  0.5,
  "low",
  ["END"],
  "",
  " ",
  "\u0000",
  "\ud83d",
  "user",
  "bowline",
  "x".repeat(600),
  [],
  [null],
  [{}],
  {},
  { type: "text" },
  { type: "json_schema", json_schema: { schema: { type: 7 } } },
  { preferences: { timeout_ms: "1" }, agents: [{ name: "", endpoint: "::" }] },
  [{ type: "text", text: "?" }],
  [{ role: "user", content: [{ type: "refusal", refusal: "\u0000" }] }],
  [{ type: "mcp_approval_response", approval_request_id: "mcpr_x", approve: true }],
  [{ type: "function_call_output", call_id: "c", output: "o" }],
  [{ type: "mcp", server_label: "a", server_url: "::", allowed_tools: {}, require_approval: { always: 7 } }],
  { format: { type: "json_schema", schema: { $ref: "#/nowhere" } } },
  `resp_plan_${"0".repeat(36)}`
]

const shared = ["model", "stream", "metadata", "user", "tools", "bowline", "safety_identifier", "__proto__"].concat([
  "constructor",
  "toString",
  "\n",
  "\ud83d",
  ""
])
const routes = {
  "/v1/chat/completions": {
    list: "messages",
    fields: [...shared, "messages", "stream_options", "response_format", "n", "modalities", "logit_bias"].concat([
      "temperature",
      "top_p",
      "stop",
      "seed",
      "reasoning_effort",
      "max_tokens",
      "max_completion_tokens"
    ])
  },
  "/v1/responses": {
    list: "input",
    fields: [...shared, "input", "text", "background", "store", "previous_response_id", "conversation"].concat([
      "instructions",
      "max_tool_calls",
      "tool_choice",
      "prompt",
      "reasoning",
      "temperature"
    ])
  }
}
type Path = keyof typeof routes

const headers = ["x-bowline-session", "x-openwebui-chat-id", "idempotency-key", "x-stainless-retry-count", "accept"]

const one = <A>(items: ReadonlyArray<A>) =>
  Effect.map(Random.nextIntBetween(0, items.length), (index) => items[index] as A)

/** A body that is nearly right, so that all of the decoder sees it, and headers that are not. */
const odd = Effect.fnUntraced(function* (path: Path) {
  const { fields, list } = routes[path]
  const messages = [{ role: yield* one(["user", "assistant", "system", "tool", 7]), content: yield* one(values) }]
  const sent: Array<[string, unknown]> = [
    ["model", "bowline"],
    [list, [...messages, { role: "user", content: "?" }].slice(yield* Random.nextIntBetween(0, 2))]
  ]
  for (let count = yield* Random.nextIntBetween(1, 4); count > 0; count--) {
    sent.push([yield* one(fields), yield* one(values)])
  }
  // Not `fromEntries`: JSON may name `__proto__`.
  const body = `{${sent.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`
  const named = { [yield* one(headers)]: yield* one(["1", "a b", "é", "x".repeat(300), ""]) }
  return { body, named }
})

it.live.each(["/v1/chat/completions", "/v1/responses"] as const)(
  "no body and no header gets a 500 at %s: it is answered, or refused in OpenAI's shape",
  (path) =>
    Effect.gen(function* () {
      const { url } = yield* start(() => [say("ok")])
      const requests = yield* Config.Int("BOWLINE_REQUESTS").pipe(Config.withDefault(100))
      const cases = yield* Random.withSeed(Effect.replicateEffect(odd(path), requests), seed)
      const statuses = yield* Effect.forEach(
        cases,
        Effect.fnUntraced(function* ({ body, named }) {
          const { body: answer, status } = yield* post(url + path, body, named)
          const sent = `seed ${seed}: ${body} ${JSON.stringify(named)}`
          assert.include([200, 400, 404, 409], status, sent)
          if (status !== 200) assert.hasAllKeys(answer["error"], ["message", "type", "code", "param"], sent)
          return status
        }),
        { concurrency: 16 }
      )
      for (const status of [200, 400, 404]) assert.include(statuses, status)
    })
)
