import { ResponseTooLarge, Protocol } from "@bowline/domain/peer/PeerError"
import { maxBytes } from "@bowline/runtime/http/Exchange"
import type { Redaction } from "@bowline/runtime/http/Redaction"
import type { McpCall, McpResult, McpTool } from "@bowline/runtime/mcp/McpClient"
import {
  Client,
  isInputRequiredResult,
  StreamableHTTPClientTransport,
  type Progress,
  type ReconnectionScheduler
} from "@modelcontextprotocol/client"
import { Effect, Option, Queue } from "effect"
import type { ServerFetch } from "../http/ServerFetch.ts"
import { toResult, toTool } from "./Content.ts"
import { ServerFailure, toFailure } from "./Failure.ts"

const maxPages = 100
/** Whoever asks has a timer of its own. This is the longest one that the protocol's client takes. */
const timeout = 2_147_483_647

/** The least time between two attempts to read on a stream that the server has closed, in milliseconds. */
const minReconnectMs = 1_000

/** How a server is spoken to: with a handshake, or in this revision, which has none. */
export type Era = "legacy" | { readonly pin: string }

interface Options {
  readonly url: string
  readonly fetch: ServerFetch
  readonly redaction: Redaction
  /** Without one it is found out. */
  readonly era: Era | undefined
}

const invalid = (message: string): ServerFailure =>
  new ServerFailure({ reason: new Protocol({ message }), isSessionGone: false, isOtherRevision: false })

const tooLarge = new ServerFailure({
  reason: new ResponseTooLarge({ message: "The server's list of tools is larger than 8 MiB" }),
  isSessionGone: false,
  isOtherRevision: false
})

const inputRequired: McpResult = {
  state: "input-required",
  text: "The server asks for input before it goes on",
  structured: undefined
}

const progressText = ({ message, progress, total }: Progress): string => {
  const count = total === undefined ? `${progress}` : `${progress}/${total}`
  return message === undefined || message === "" ? count : `${count} ${message}`.slice(0, 500).toWellFormed()
}

/** The code of the error by which the revisions with a handshake ask for input. */
const urlElicitationRequired = -32_042

const isInputRequired = ({ reason }: ServerFailure): boolean =>
  reason._tag === "rpc" && reason.code === urlElicitationRequired

/** W3C Trace Context: the span in which a call is made. */
const traceOf = Effect.map(
  Effect.option(Effect.currentSpan),
  Option.match({
    onNone: () => ({}),
    onSome: ({ sampled, spanId, traceId }) => ({ traceparent: `00-${traceId}-${spanId}-${sampled ? "01" : "00"}` })
  })
)

/** A server that has been spoken to. */
export class ServerLink {
  readonly #client: Client
  readonly #transport: StreamableHTTPClientTransport
  readonly #options: Options
  /** Whether the server has said nothing of its tools since they were listed. */
  #isCurrent = false
  #isListening = false
  /** Whether the server has begun to list its tools. */
  #isListed = false

  constructor(client: Client, transport: StreamableHTTPClientTransport, options: Options) {
    this.#client = client
    this.#transport = transport
    this.#options = options
    client.setNotificationHandler("notifications/tools/list_changed", () => this.#outdate())
  }

  /** Whether the server may list other tools than when it was asked last. */
  get hasChanged(): boolean {
    return !this.#isCurrent
  }

  get hasSession(): boolean {
    return this.#transport.sessionId !== undefined
  }

  get revision(): string | null {
    return this.#client.getNegotiatedProtocolVersion() ?? null
  }

  get era(): Era | undefined {
    const { revision } = this
    if (this.#client.getProtocolEra() === "legacy") return "legacy"
    return revision === null ? undefined : { pin: revision }
  }

  /** Ends the session with the server, and closes what is still open. */
  readonly end = Effect.suspend(() =>
    Effect.ignore(Effect.promise(() => this.#transport.terminateSession().catch(() => undefined))).pipe(
      Effect.timeoutOption("5 seconds"),
      Effect.andThen(Effect.promise(() => this.#client.close()))
    )
  )

  /** Makes a request of the protocol's client. It is aborted, not awaited, when it is interrupted. */
  ask<A>(call: string, request: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, ServerFailure> {
    return Effect.tryPromise({
      try: request,
      catch: (error) => toFailure(error, this.#options.redaction, this.#options.fetch.takeFailure(call))
    })
  }

  /** The tools of all pages. */
  readonly tools = Effect.fnUntraced(function* (
    this: ServerLink
  ): Effect.fn.Return<ReadonlyArray<McpTool>, ServerFailure> {
    this.#isCurrent = true
    const { tools: capability } = this.#client.getServerCapabilities() ?? {}
    if (capability === undefined) return []
    if (capability.listChanged === true) void this.#listen()
    const tools: Array<McpTool> = []
    let cursor: string | undefined
    let size = 0
    for (let page = 0; page < maxPages; page++) {
      const params = cursor === undefined ? {} : { cursor }
      const list = yield* this.ask("", (signal) =>
        this.#client.request({ method: "tools/list", params }, { signal, timeout })
      )
      this.#isListed = true
      size += JSON.stringify(list.tools).length
      if (size > maxBytes) return yield* tooLarge
      tools.push(...list.tools.flatMap(toTool))
      cursor = list.nextCursor
      if (cursor === undefined || cursor === "") return tools
    }
    return yield* invalid(`The server's list of tools has more than ${maxPages} pages`)
  })

  #outdate(): void {
    this.#isCurrent = false
  }

  /**
   * Has the server tell of changes, in the revisions where it does not by itself. What came before the server listened, and what it says
   * when it listens no more, are lost: then the tools may have changed. It ends with the client.
   */
  async #listen(): Promise<void> {
    if (this.era === "legacy" || this.#isListening) return
    this.#isListening = true
    this.#isListed = false
    const subscription = await this.#client.listen({ toolsListChanged: true }, { timeout }).catch(() => undefined)
    // A server that refuses to tell is not asked again.
    if (subscription === undefined) return
    if (this.#isListed) this.#outdate()
    await subscription.closed
    this.#isListening = false
    this.#outdate()
  }

  /** Makes a call. The first 250 ms of its progress are told at once, then the last message of every 250 ms. */
  readonly call = Effect.fnUntraced(function* (
    this: ServerLink,
    { input, taskId, tool }: McpCall,
    onProgress: (message: string) => Effect.Effect<void>
  ) {
    const { fetch, redaction } = this.#options
    const progress = yield* Queue.sliding<string>(1)
    yield* Queue.take(progress).pipe(
      Effect.flatMap(onProgress),
      Effect.andThen(Effect.sleep("250 millis")),
      Effect.forever,
      Effect.forkScoped
    )
    const _meta = { ...(yield* traceOf), "bowline/task_id": taskId }
    const asked = this.ask(taskId, (signal) =>
      this.#client.callTool(
        { name: tool.name, arguments: input, _meta },
        {
          signal,
          timeout,
          headers: fetch.headersOf(taskId),
          allowInputRequired: true,
          onprogress: (told) => void Queue.offerUnsafe(progress, redaction.text(progressText(told))),
          // Without its output schema: the client would compile it, and it is a stranger's.
          toolDefinition: { name: tool.name, inputSchema: { ...tool.inputSchema, type: "object" } }
        }
      )
    )
    const answer = yield* asked.pipe(
      Effect.onInterrupt(() => fetch.close(taskId)),
      Effect.catchIf(isInputRequired, () => Effect.undefined)
    )
    if (answer === undefined || isInputRequiredResult(answer)) return inputRequired
    const result = toResult(answer)
    if (typeof result === "string") return yield* invalid(result)
    const { structured, text } = result
    return {
      ...result,
      text: redaction.text(text),
      structured: structured === undefined ? undefined : redaction.json(structured)
    }
  }, Effect.scoped)
}

/** The server may ask for a shorter delay, and its streams may end at once. */
const reconnectionScheduler = Effect.map(Effect.context(), (context): ReconnectionScheduler => (reconnect, delay) => {
  const waiting = Effect.andThen(Effect.sleep(Math.max(delay, minReconnectMs)), Effect.sync(reconnect))
  const fiber = Effect.runForkWith(context)(waiting)
  return () => fiber.interruptUnsafe()
})

/** Connects to a server: finds out how to speak to it, unless that is known. */
export const open = Effect.fnUntraced(function* (options: Options): Effect.fn.Return<ServerLink, ServerFailure> {
  const { era, fetch, url } = options
  const client = new Client(
    { name: "bowline", version: "0.1.0" },
    {
      versionNegotiation: { mode: era === undefined || era === "legacy" ? "auto" : era },
      inputRequired: { autoFulfill: false }
    }
  )
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: yield* fetch.fetch,
    reconnectionScheduler: yield* reconnectionScheduler
  })
  const link = new ServerLink(client, transport, options)
  yield* link
    .ask("", (signal) =>
      client.connect(transport, { signal, timeout, ...(era === "legacy" && { prior: { kind: era } }) })
    )
    .pipe(Effect.onError(() => Effect.promise(() => client.close())))
  return link
})
