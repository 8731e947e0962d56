import { say } from "@bowline/testing/provider/Turn"
import { assert, it } from "@effect/vitest"
import { Config, Effect, Random } from "effect"
import { post, send, start } from "../../http/RunningGateway.ts"

const seed = 14

const revisions = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "", "x"]
const methods = ["tools/call", "tools/list", "server/discover", "initialize", "ping", "notifications/cancelled"].concat(
  ["tasks/get", "resources/list", "__proto__", "", "\ud83d"]
)
const tools = ["plan_result", "plan_cancel", "ask_none", "plan", "", "constructor"]
const fields = ["jsonrpc", "id", "method", "params", "result", "error", "__proto__", "\n", "extra"]
const parameters = ["name", "arguments", "_meta", "cursor", "requestState", "inputResponses", "protocolVersion", "x"]
const headers = ["mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "accept"]

const values: ReadonlyArray<unknown> = [
  null,
  true,
  -1,
  1e308,
  "",
  "plan",
  "\u0000",
  "\ud83d",
  "x".repeat(600),
  [],
  [null],
  {},
  { progressToken: {} },
  { "io.modelcontextprotocol/protocolVersion": 7 },
  { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": [] },
  { plan_id: "plan_00000000-0000-0000-0000-000000000000", wait_ms: 1 },
  { question: " ", wait_ms: -1, session_id: "\n" },
  `{"plan_id":"plan_00000000-0000-0000-0000-000000000000","task_id":"x"}`,
  { decision: { action: "accept", content: { decision: "maybe" } } }
]

const one = <A>(items: ReadonlyArray<A>) =>
  Effect.map(Random.nextIntBetween(0, items.length - 1), (index) => items[index] as A)

type Member = readonly [name: string, json: string]

/** Not `fromEntries`: JSON may name `__proto__`. */
const object = (members: ReadonlyArray<Member>): string =>
  `{${members.map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(",")}}`

/** Members that no message has, or that the message has already. */
const more = Effect.fnUntraced(function* (names: ReadonlyArray<string>, most: number) {
  const members: Array<Member> = []
  for (let count = yield* Random.nextIntBetween(0, most); count > 0; count--) {
    members.push([yield* one(names), JSON.stringify(yield* one(values))])
  }
  return members
})

/** A message that is nearly right, so that all of the gateway's reading sees it, and headers that are not. */
const odd = Effect.gen(function* () {
  const revision = yield* one(revisions)
  const method = yield* one(methods)
  const name = yield* one(tools)
  const meta = {
    "io.modelcontextprotocol/protocolVersion": revision,
    "io.modelcontextprotocol/clientCapabilities": { elicitation: yield* one(values) }
  }
  const params = object([
    ["_meta", JSON.stringify(meta)],
    ["name", JSON.stringify(name)],
    ["arguments", JSON.stringify(yield* one(values))],
    ...(yield* more(parameters, 3))
  ])
  const id: ReadonlyArray<Member> = yield* one([[["id", "1"]], [["id", "1"]], []] as const)
  const message = object([
    ["jsonrpc", `"2.0"`],
    ["method", JSON.stringify(method)],
    ...id,
    ["params", params],
    ...(yield* more(fields, 2))
  ])
  const body = yield* one([message, message, message, `[${message},${message}]`, message.slice(0, -3)])
  const plain = /^[\x20-\x7e]*$/.test(method) ? method : "x"
  const sent: Record<string, string> = { "mcp-protocol-version": revision, "mcp-method": plain, "mcp-name": name }
  if (yield* Random.nextBoolean)
    sent[yield* one(headers)] = yield* one(["1", "a b", "é", "x".repeat(300), "=?base64?%?="])
  return { body, sent }
})

it.live("no message and no header at /mcp gets a 500: it is answered, or refused as JSON-RPC, and starts nothing", () =>
  Effect.gen(function* () {
    const { url } = yield* start(() => [say("ok")])
    const requests = yield* Config.Int("BOWLINE_REQUESTS").pipe(Config.withDefault(100))
    const cases = yield* Random.withSeed(Effect.replicateEffect(odd, requests), seed)
    const statuses = yield* Effect.forEach(
      cases,
      Effect.fnUntraced(function* ({ body, sent }) {
        const { body: answer, status } = yield* post(`${url}/mcp`, body, sent)
        const what = `seed ${seed}: ${body} ${JSON.stringify(sent)}`
        assert.include([200, 202, 400, 404], status, what)
        if (status >= 400) assert.hasAllKeys(answer, ["jsonrpc", "id", "error"], what)
        return status
      }),
      { concurrency: 16 }
    )
    for (const status of [200, 202, 400, 404]) assert.include(statuses, status)
    assert.deepStrictEqual((yield* send(`${url}/plans`)).body["plans"], [])
  })
)
