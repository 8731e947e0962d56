import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { post, start } from "../http/RunningGateway.ts"

const long = "x".repeat(200_001)
const user = { id: "m", role: "user" }
const rpc = { jsonrpc: "2.0", id: 1 }

it.live.each([
  ["/plan", { question: long }, '"path":"question"'],
  ["/v1/chat/completions", { model: "bowline", messages: [{ role: "user", content: long }] }, '"param":"messages"'],
  ["/v1/responses", { model: "bowline", input: long }, '"param":"input"'],
  ["/ui/chat", { id: "c", messages: [{ ...user, parts: [{ type: "text", text: long }] }] }, '"path":"messages"'],
  ["/agui", { threadId: "c", runId: "r", messages: [{ ...user, content: long }] }, '"path":"messages"'],
  [
    "/a2a",
    {
      ...rpc,
      method: "SendMessage",
      params: { message: { messageId: "m", role: "ROLE_USER", parts: [{ text: long }] } }
    },
    '"field":"message.parts"'
  ],
  ["/mcp", { ...rpc, method: "tools/call", params: { name: "plan", arguments: { question: long } } }, "question"]
] as const)(
  "a question that is too long is refused at %s under the name that its client has sent",
  ([path, body, field]) =>
    Effect.gen(function* () {
      const { provider, url } = yield* start([])
      const { text } = yield* post(`${url}${path}`, body, { accept: "application/json, text/event-stream" })
      assert.include(text, field)
      assert.match(text, /200,?000/)
      assert.lengthOf(yield* provider.requests.all, 0)
    })
)
