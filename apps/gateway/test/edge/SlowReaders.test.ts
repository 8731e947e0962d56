import { say } from "@bowline/testing/provider/Turn"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Predicate, Schedule } from "effect"
import { send, start } from "../http/RunningGateway.ts"

/** 7.5 MiB: more than what the sockets of a reader that takes nothing hold (4 MiB on Linux), and what the gateway keeps for it (1 MiB). */
const pieces = Array.from({ length: 120 }, (_, index) => `${index} `.padEnd(65_536, "x"))
const answer = pieces.join("")

const message = { role: "user", content: "?" }
const parts = [{ kind: "text", text: "?" }]
const a2a = { method: "message/stream", params: { message: { kind: "message", messageId: "m", role: "user", parts } } }
const ui = { id: "chat", messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "?" }] }] }
const agui = { threadId: "t", runId: "r", messages: [{ id: "1", ...message }], tools: [], context: [], state: {} }
const mcp = { method: "tools/call", params: { name: "plan", arguments: { question: "?" } } }

type Data = Readonly<Record<string, unknown>>

/** What a path of names leads to in an event. */
const at =
  (...path: ReadonlyArray<string>) =>
  (event: unknown): unknown =>
    path.reduce<unknown>((value, name) => (Predicate.isObjectOrArray(value) ? (value as Data)[name] : undefined), event)

const ofA2a = (event: unknown): unknown => {
  if (at("result", "append")(event) !== true) return undefined
  return at("result", "artifact", "parts", "0", "text")(Array.isArray(event) ? event[0] : event)
}

/** The streams of the edges: what is asked, and the piece of the answer in one of their events. */
const edges: ReadonlyArray<readonly [string, string, object, (event: unknown) => unknown]> = [
  [
    "Chat Completions",
    "/v1/chat/completions",
    { model: "bowline", messages: [message], stream: true },
    at("choices", "0", "delta", "content")
  ],
  [
    "Responses",
    "/v1/responses",
    { model: "bowline", input: "?", stream: true },
    (event) => (at("type")(event) === "response.output_text.delta" ? at("delta")(event) : undefined)
  ],
  [
    "the AI SDK's chat",
    "/ui/chat",
    ui,
    (event) => (at("type")(event) === "text-delta" ? at("delta")(event) : undefined)
  ],
  ["AG-UI", "/agui", agui, (event) => (at("type")(event) === "TEXT_MESSAGE_CONTENT" ? at("delta")(event) : undefined)],
  ["A2A", "/a2a", { jsonrpc: "2.0", id: 1, ...a2a }, ofA2a],
  ["MCP", "/mcp", { jsonrpc: "2.0", id: 1, ...mcp }, at("result", "structuredContent", "text")]
]

const headers = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  "mcp-protocol-version": "2025-06-18"
}

describe("a client that reads nothing before its plan is over", () => {
  it.live.each(edges)(
    "gets the whole answer, and nothing of it twice, from the stream of %s",
    ([, path, body, piece]) =>
      Effect.gen(function* () {
        const { url } = yield* start([pieces.map(say)])
        const response = yield* Effect.promise((signal) =>
          fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body), signal })
        )
        const states = Effect.map(send(`${url}/plans`), ({ body }) => at("plans", "0", "state")(body))
        yield* Effect.repeat(states, {
          until: (state) => state === "completed",
          schedule: Schedule.spaced("50 millis")
        })
        const text = yield* Effect.promise(() => response.text())
        const events = text
          .split("\n")
          .filter((line) => line.startsWith("data: {"))
          .map((line): unknown => JSON.parse(line.slice("data: ".length)))
        const said = events.map(piece).filter((text) => typeof text === "string")
        assert.strictEqual(said.join("") === answer, true, `${said.length} pieces`)
      })
  )
})
