import { text, type Host } from "@bowline/testing/http/Host"
import { createMcpHandler, fromJsonSchema, McpServer as Server2 } from "@modelcontextprotocol/server"
import { Effect, Latch, Stream } from "effect"
import { WebStandardStreamableHTTPServerTransport } from "mcp-sdk-1/server/webStandardStreamableHttp.js"
import { McpServer as Server1 } from "mcp-sdk-1/server/mcp.js"
import { CallToolRequestSchema, ListToolsRequestSchema } from "mcp-sdk-1/types.js"

type Answer = (request: Request) => Promise<Response>

/** Serves what a server of an SDK answers. The request is aborted when its client disconnects. */
const hostOf =
  (answer: Answer, seen: Seen): Host =>
  ({ body, headers, method, url }) => {
    const isListening = method === "GET" || body.includes("subscriptions/listen")
    const respond = Effect.promise(async (signal) => {
      const response = await answer(new Request(url, { method, headers, signal, ...(body !== "" && { body }) }))
      if (isListening) seen.listening++
      if (response.body === null) return text(response.status, "", Object.fromEntries(response.headers))
      const { body: stream } = response
      return {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: Stream.orDie(Stream.fromReadableStream({ evaluate: () => stream, onError: (error) => error }))
      }
    })
    return isListening ? seen.mayListen.whenOpen(respond) : respond
  }

const city = { type: "object" as const, properties: { city: { type: "string" as const } }, required: ["city"] }
const forecast = { type: "object" as const, properties: { sky: { type: "string" as const } }, required: ["sky"] }

/** What the servers were asked, and which calls they were told to end. */
export interface Seen {
  readonly calls: Array<unknown>
  readonly ended: Array<string>
  /** How many calls wait for their end. */
  waiting: number
  /** Closed, it keeps clients waiting that want to listen. */
  readonly mayListen: Latch.Latch
  /** How many clients have begun to listen. */
  listening: number
  /** Whether there is one tool more. */
  hasMore: boolean
  /** Tell the clients that listen that there are other tools. */
  readonly announce: Array<() => unknown>
  /** Close what clients listen on. */
  readonly hangUp: Array<() => unknown>
}

export const nothingSeen = (): Seen => ({
  calls: [],
  ended: [],
  waiting: 0,
  mayListen: Latch.makeUnsafe(true),
  listening: 0,
  hasMore: false,
  announce: [],
  hangUp: []
})

const untilAborted = (signal: AbortSignal, seen: Seen) =>
  new Promise<never>((_resolve, reject) => {
    seen.waiting++
    signal.addEventListener("abort", () => {
      seen.ended.push("wait")
      reject(new Error("aborted"))
    })
  })

const handlerOfSdk2 = (seen: Seen, legacy: "stateless" | "reject", setUp: (server: Server2) => void) =>
  createMcpHandler(
    () => {
      const server = new Server2({ name: "sdk-2", version: "1.0.0" })
      const inputSchema = fromJsonSchema<{ readonly city: string }>(city)
      server.registerTool(
        "forecast",
        { description: "The sky", inputSchema, outputSchema: fromJsonSchema<{ readonly sky: string }>(forecast) },
        ({ city }, { mcpReq }) => {
          seen.calls.push({ city, meta: mcpReq._meta })
          return { content: [{ type: "text", text: `clear in ${city}` }], structuredContent: { sky: "clear" } }
        }
      )
      server.registerTool("fail", { inputSchema }, () => ({
        isError: true,
        content: [{ type: "text", text: "no sky" }]
      }))
      server.registerTool("wait", { inputSchema }, async (_input, { mcpReq }) => untilAborted(mcpReq.signal, seen))
      if (seen.hasMore) server.registerTool("more", { inputSchema }, () => ({ content: [] }))
      setUp(server)
      return server
    },
    { legacy }
  )

/** A server of the SDK's second line: it speaks 2026-07-28, and the revisions before without sessions, unless it rejects them. */
export const ofSdk2 = (
  seen: Seen,
  legacy: "stateless" | "reject" = "stateless",
  setUp: (server: Server2) => void = () => undefined
): Host => {
  let handler = handlerOfSdk2(seen, legacy, setUp)
  seen.announce.push(() => handler.notify.toolsChanged())
  seen.hangUp.push(() => {
    const closed = handler
    handler = handlerOfSdk2(seen, legacy, setUp)
    return closed.close()
  })
  return hostOf((request) => handler.fetch(request), seen)
}

/** A server of the SDK's first line, with sessions: it speaks the revisions up to 2025-11-25. */
export const ofSdk1 = (seen: Seen, setUp: (server: Server1) => void = () => undefined): Host => {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>()
  const connect = async () => {
    const made = new Server1({ name: "sdk-1", version: "1.0.0" }, { capabilities: { tools: { listChanged: true } } })
    const { server } = made
    seen.announce.push(() => server.sendToolListChanged())
    server.setRequestHandler(ListToolsRequestSchema, ({ params }) =>
      params?.cursor === undefined
        ? { tools: [{ name: "forecast", inputSchema: city, outputSchema: forecast }], nextCursor: "2" }
        : { tools: ["fail", "wait", ...(seen.hasMore ? ["more"] : [])].map((name) => ({ name, inputSchema: city })) }
    )
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, { sendNotification, signal }) => {
      seen.calls.push({ city: params.arguments?.["city"], meta: params._meta })
      if (params.name === "wait") {
        const progressToken = params._meta?.progressToken ?? 0
        await sendNotification({
          method: "notifications/progress",
          params: { progressToken, progress: 1, total: 3, message: "looking up" }
        })
        return untilAborted(signal, seen)
      }
      if (params.name === "fail") return { isError: true, content: [{ type: "text", text: "no sky" }] }
      return { content: [{ type: "text", text: "clear in Oslo" }], structuredContent: { sky: "clear" } }
    })
    setUp(made)
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => `session-${sessions.size}`,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id)
    })
    await server.connect(transport)
    return transport
  }
  return hostOf(async (request) => {
    const session = request.headers.get("mcp-session-id")
    const transport = session === null ? await connect() : sessions.get(session)
    return transport === undefined ? new Response("no such session", { status: 404 }) : transport.handleRequest(request)
  }, seen)
}
