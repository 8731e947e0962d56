import { Effect, Option, Queue, Ref, Schema, type Scope, Stream } from "effect"
import { json, text, type Fault, type Host, type HostRequest, type HostResponse } from "../http/Host.ts"
import { Network } from "../http/Network.ts"

const Reply = Schema.fromJsonString(Schema.Struct({ result: Schema.Json }))

const Request = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.optionalKey(Schema.Union([Schema.Number, Schema.String])),
    method: Schema.String,
    params: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
  })
)
type Request = typeof Request.Type

/** How a server answers a request: `result` of JSON-RPC, or a whole answer of its own. */
type Answer = Effect.Effect<HostResponse, Fault>

/** What the server lists and answers. */
export interface McpScript {
  /** A page of the list of tools; `cursor` is undefined for the first one. */
  readonly list: (cursor: Schema.Json | undefined) => {
    readonly tools: ReadonlyArray<Schema.Json>
    readonly nextCursor?: string
  }
  readonly call?: (request: Request, sent: HostRequest) => Answer
  /** Whether calls may ask for tasks, which `call` makes. A cancel of one is answered with `{}`. */
  readonly runsTasks?: boolean
  /** Whether a cancel is left without an answer. */
  readonly ignoresCancels?: boolean
  /** Whether the client's own replies are left without an answer. */
  readonly ignoresReplies?: boolean
  /** Whether no handshake is answered. */
  readonly isSilent?: boolean
}

/** A server that listens, and what it has seen. */
export interface ScriptedMcpServer {
  readonly url: string
  /** The methods that it was asked, in order. */
  readonly asked: Effect.Effect<ReadonlyArray<string>>
  /** The requests that it got, whether it understood them or not. */
  readonly requests: Effect.Effect<ReadonlyArray<HostRequest>>
  /** Waits for the next cancel. */
  readonly cancelled: Effect.Effect<void>
  /** Forgets every session: requests in one are answered with 404 from now on. */
  readonly forgetSessions: Effect.Effect<void>
}

/** The answer to a request of JSON-RPC. */
export const result = ({ id }: Request, result: Schema.Json): HostResponse =>
  json(200, { jsonrpc: "2.0", id: id ?? null, result })

const encoder = new TextEncoder()
const events = { "content-type": "text/event-stream" }

const behind = (messages: ReadonlyArray<object>, { id }: Request, result: Schema.Json): HostResponse => {
  const text = [...messages, { id: id ?? null, result }]
    .map((message) => `data: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`)
    .join("")
  return { status: 200, headers: events, body: Stream.succeed(encoder.encode(text)) }
}

/** A result behind so many announcements that the list of tools has changed. */
export const announced = (request: Request, result: Schema.Json, times: number): HostResponse => {
  const announcement = { method: "notifications/tools/list_changed" }
  return behind(
    Array.from({ length: times }, () => announcement),
    request,
    result
  )
}

/** A result behind so many questions to the client whether it is there. */
export const asked = (request: Request, result: Schema.Json, times: number): HostResponse =>
  behind(
    Array.from({ length: times }, (_, index) => ({ id: `ping-${index}`, method: "ping" })),
    request,
    result
  )

/** A result in pieces of 64 KiB, as large as `bytes`. */
export const largeResult = (bytes: number): HostResponse => {
  const piece = encoder.encode(" ".repeat(65_536))
  return {
    status: 200,
    headers: { "content-type": "application/json" },
    body: Stream.forever(Stream.succeed(piece)).pipe(Stream.take(Math.ceil(bytes / piece.length)))
  }
}

/** Progress every 10 ms, and never a result. */
export const endlessProgress = ({ params }: Request): HostResponse => {
  const meta = params?.["_meta"]
  const progressToken =
    typeof meta === "object" && meta !== null && "progressToken" in meta ? meta["progressToken"] : null
  const event = (progress: number) =>
    `data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken, progress } })}\n\n`
  return {
    status: 200,
    headers: events,
    body: Stream.iterate(1, (count) => count + 1).pipe(
      Stream.mapEffect((count) => Effect.as(Effect.sleep("10 millis"), encoder.encode(event(count))))
    )
  }
}

/**
 * Serves an MCP server of revision 2025-11-25 with sessions. It does what its script says, which no honest server would.
 *
 * @example
 * ```ts
 * import * as ScriptedMcpServer from "@bowline/testing/mcp/ScriptedMcpServer"
 * import { Effect } from "effect"
 *
 * const tool = (name: string) => ({ name, inputSchema: { type: "object" } })
 * const done = { content: [{ type: "text", text: "done" }] }
 *
 * export const server = ScriptedMcpServer.serve({
 *   list: () => ({ tools: ["plain", "long", "large", "asking", "endless"].map(tool) }),
 *   call: (request) => {
 *     switch (request.params?.["name"]) {
 *       case "long":
 *         return Effect.succeed(ScriptedMcpServer.announced(request, done, 3))
 *       case "large":
 *         return Effect.succeed(ScriptedMcpServer.largeResult(1_000_000))
 *       case "asking":
 *         return Effect.succeed(ScriptedMcpServer.asked(request, done, 1))
 *       case "endless":
 *         return Effect.succeed(ScriptedMcpServer.endlessProgress(request))
 *       default:
 *         return Effect.succeed(ScriptedMcpServer.result(request, done))
 *     }
 *   }
 * })
 * ```
 */
export const serve = Effect.fnUntraced(function* (
  script: McpScript
): Effect.fn.Return<ScriptedMcpServer, never, Network | Scope.Scope> {
  const asked = yield* Ref.make<ReadonlyArray<string>>([])
  const cancels = yield* Queue.unbounded<void>()
  let sessions = 0
  let forgotten = 0

  const answer = (request: Request, sent: HostRequest): Answer => {
    switch (request.method) {
      case "initialize": {
        if (script.isSilent === true) return Effect.never
        const serverInfo = { name: "scripted", version: "1.0.0" }
        const tasks = script.runsTasks === true ? { tasks: { requests: { tools: { call: {} } }, cancel: {} } } : {}
        const about = { protocolVersion: "2025-11-25", capabilities: { tools: {}, ...tasks }, serverInfo }
        const head = result(request, about)
        return Effect.succeed({ ...head, headers: { ...head.headers, "mcp-session-id": `${++sessions}` } })
      }
      case "tools/list":
        return Effect.succeed(result(request, script.list(request.params?.["cursor"])))
      case "tools/call":
        return script.call?.(request, sent) ?? Effect.succeed(text(500, "unexpected"))
      case "tasks/cancel":
        return Effect.succeed(result(request, {}))
      case "notifications/cancelled":
        return Effect.andThen(
          Queue.offer(cancels, undefined),
          script.ignoresCancels === true ? Effect.never : Effect.succeed(text(202, ""))
        )
      default:
        return Effect.succeed(text(request.method.startsWith("notifications/") ? 202 : 400, ""))
    }
  }

  const host: Host = (sent) => {
    const { body, headers, method } = sent
    if (method !== "POST") return Effect.succeed(text(method === "DELETE" ? 200 : 405, ""))
    const request = Schema.decodeOption(Request)(body)
    if (Option.isNone(request)) {
      const isIgnored = script.ignoresReplies === true && Option.isSome(Schema.decodeOption(Reply)(body))
      return isIgnored ? Effect.never : Effect.succeed(text(400, "not JSON-RPC"))
    }
    const session = headers["mcp-session-id"]
    if (session !== undefined && Number(session) <= forgotten) return Effect.succeed(text(404, "no such session"))
    return Effect.andThen(
      Ref.update(asked, (methods) => [...methods, request.value.method]),
      Effect.suspend(() => answer(request.value, sent))
    )
  }

  const { requests, url } = yield* Effect.flatMap(Network, (network) => network.serve(host))
  return {
    url,
    asked: Ref.get(asked),
    requests: requests.all,
    cancelled: Queue.take(cancels),
    forgetSessions: Effect.sync(() => void (forgotten = sessions))
  }
})
