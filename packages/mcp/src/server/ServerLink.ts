import { ResponseTooLarge, Protocol } from "@bowline/domain/peer/PeerError"
import { maxBytes } from "@bowline/runtime/unstable/http/Exchange"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import type { McpCall, McpResult, McpTool } from "@bowline/runtime/remote/McpClient"
import * as TraceContext from "@bowline/runtime/unstable/telemetry/TraceContext"
import {
  type CallToolResult,
  Client,
  isInputRequiredResult,
  type Progress,
  type RequestOptions,
  type Transport
} from "@modelcontextprotocol/client"
import { Effect, Option, Queue, type Schema } from "effect"
import manifest from "../../package.json" with { type: "json" }
import type { Ask } from "../http/ServerFetch.ts"
import { Announcements } from "./Announcements.ts"
import { CallCancels } from "./CallCancels.ts"
import { toResult, toTool } from "./Content.ts"
import { ServerFailure, toFailure } from "./Failure.ts"
import { refuseLongLists } from "./LongLists.ts"
import { limitReplies } from "./Replies.ts"
import { carryTasks, ServerTaskCalls, taskIn, tasksExtension, timeout } from "./ServerTaskCalls.ts"

const maxPages = 100

/** How long a server over stdio may take to answer the question which revisions it speaks, in milliseconds. */
const stdioProbeMs = 3_000

/** How a server is spoken to: with a handshake, or in this revision, which has none. */
export type Era = "legacy" | { readonly pin: string }

/** What lies below the protocol's client. */
export interface Wire {
  /** For one request, which may be a call. */
  readonly ask: (call?: string) => Ask
  /** For a handshake. */
  readonly handshake: () => Ask
  /** Closes what a call waits on. */
  readonly close: (call: string) => Effect.Effect<void>
}

export interface Options {
  readonly wire: Wire
  readonly redaction: Redaction
  /** Without one it is found out. */
  readonly era: Era | undefined
}

type Meta = { readonly [key: string]: Schema.Json }

type Request<A> = (options: Required<Pick<RequestOptions, "headers" | "signal" | "timeout">>) => Promise<A>

/** Of servers over HTTP: it ends their session. */
interface LinkTransport extends Transport {
  readonly terminateSession?: () => Promise<void>
}

const invalid = (message: string): ServerFailure => ServerFailure.of(new Protocol({ message }))

const tooLarge = ServerFailure.of(new ResponseTooLarge({ message: "The server's list of tools is larger than 8 MiB" }))

const inputRequired: McpResult = {
  state: "input-required",
  text: "The server asks for input before it goes on",
  structured: undefined
}

const shortened = (message: string): string => message.slice(0, 500).toWellFormed()

const progressText = ({ message, progress, total }: Progress): string => {
  const count = total === undefined ? `${progress}` : `${progress}/${total}`
  return message === undefined || message === "" ? count : shortened(`${count} ${message}`)
}

/** The code of the error by which the revisions with a handshake ask for input. */
const urlElicitationRequired = -32_042

const isInputRequired = ({ reason }: ServerFailure): boolean =>
  reason._tag === "rpc" && reason.code === urlElicitationRequired

/** A trace that nobody records, for a call that is a part of none. */
const unrecorded = Effect.map(UuidGenerator, (uuid) => {
  const digits = () => uuid().replaceAll("-", "")
  return `00-${digits()}-${digits().slice(16)}-00`
})

/** A server that has been spoken to. */
export class ServerLink {
  readonly #client: Client
  readonly #transport: LinkTransport
  readonly #options: Options
  readonly #tasks: ServerTaskCalls
  readonly #announcements: Announcements
  readonly #cancels: CallCancels

  constructor(client: Client, transport: LinkTransport, options: Options) {
    this.#client = client
    this.#transport = transport
    this.#options = options
    this.#cancels = new CallCancels(transport, () => client.getProtocolEra() === "legacy")
    this.#tasks = new ServerTaskCalls(client, this.#cancels, (request) => this.ask(request))
    this.#announcements = new Announcements(client)
  }

  /** How often the server may have changed its tools. */
  get changes(): number {
    return this.#announcements.count
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

  /** Follows the messages of the server, which has answered the first question. */
  attach(): void {
    carryTasks(this.#transport)
    refuseLongLists(this.#transport)
    this.#cancels.watch()
  }

  /** Ends the session with the server, behind the cancels that are on their way, and closes what is still open. */
  readonly end = Effect.suspend(() => {
    const terminate = Effect.promise(async () => this.#transport.terminateSession?.().catch(() => undefined))
    return this.#cancels.told.pipe(
      Effect.andThen(Effect.timeoutOption(terminate, "5 seconds")),
      Effect.andThen(Effect.promise(() => this.#client.close()))
    )
  })

  /** Makes a request of the protocol's client. It is aborted, not awaited, when it is interrupted. */
  ask<A>(request: Request<A>, begin: () => Ask = this.#options.wire.ask): Effect.Effect<A, ServerFailure> {
    return Effect.suspend(() => {
      const { headers, takeFailure } = begin()
      return Effect.tryPromise({
        try: (signal) => request({ headers, signal, timeout }),
        catch: (error) => toFailure(error, this.#options.redaction, takeFailure())
        // A failed connection may have been opened again.
      }).pipe(Effect.ensuring(Effect.sync(takeFailure)))
    })
  }

  /** The tools of all pages. */
  readonly tools = Effect.fnUntraced(function* (
    this: ServerLink
  ): Effect.fn.Return<ReadonlyArray<McpTool>, ServerFailure> {
    const { tools: capability } = this.#client.getServerCapabilities() ?? {}
    if (capability === undefined) return []
    if (capability.listChanged === true) this.#announcements.listen()
    const tools: Array<McpTool> = []
    let cursor: string | undefined
    let size = 0
    for (let page = 0; page < maxPages; page++) {
      const params = cursor === undefined ? {} : { cursor }
      const list = yield* this.ask((options) => this.#client.request({ method: "tools/list", params }, options))
      this.#announcements.isListed = true
      size += JSON.stringify(list.tools).length
      if (size > maxBytes) return yield* tooLarge
      tools.push(...list.tools.flatMap((tool) => toTool(tool, this.#tasks.areSupported)))
      cursor = list.nextCursor
      if (cursor === undefined || cursor === "") return tools
    }
    return yield* invalid(`The server's list of tools has more than ${maxPages} pages`)
  })

  /** Makes a call, with more `meta`. The first 250 ms of its progress are told at once, then the last message of every 250 ms. */
  readonly call = Effect.fnUntraced(function* (
    this: ServerLink,
    { input, taskId, tool }: McpCall,
    onProgress: (message: string) => Effect.Effect<void>,
    meta: Meta = {}
  ) {
    const { redaction, wire } = this.#options
    const progress = yield* Queue.sliding<string>(1)
    yield* Queue.take(progress).pipe(
      Effect.flatMap(onProgress),
      Effect.andThen(Effect.sleep("250 millis")),
      Effect.forever,
      Effect.forkScoped
    )
    const trace = yield* TraceContext.current
    const _meta = { ...meta, traceparent: trace.traceparent ?? (yield* unrecorded), "bowline/task_id": taskId }
    const tell = (message: string) => void Queue.offerUnsafe(progress, redaction.text(message))
    const params = { name: tool.name, arguments: input, _meta }
    const onprogress = (told: Progress) => tell(progressText(told))
    const call: Request<CallToolResult> = ({ headers, ...asked }) => {
      const options = { ...asked, headers: { ...headers, ...trace }, onprogress }
      if (tool.needsTask === true) return this.#tasks.begin(params, options)
      // Without its output schema: the client would compile it, and it is a stranger's.
      const toolDefinition = { name: tool.name, inputSchema: { ...tool.inputSchema, type: "object" as const } }
      return this.#client.callTool(params, { ...options, allowInputRequired: true, toolDefinition })
    }
    const asked = this.ask(call, () => wire.ask(taskId)).pipe(Effect.onInterrupt(() => wire.close(taskId)))
    const first = yield* (tool.needsTask === true ? this.#tasks.named(asked) : asked).pipe(
      Effect.catchIf(isInputRequired, () => Effect.undefined)
    )
    if (first === undefined || isInputRequiredResult(first)) return inputRequired
    const answer = yield* Option.match(taskIn(first), {
      onNone: () => Effect.succeed(first),
      onSome: (task) => this.#tasks.result(task, (message) => tell(shortened(message)))
    })
    if (answer === undefined) return inputRequired
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

/** Which list of a server's tools a plan has. */
export class ToolList {
  #link: ServerLink | undefined
  #changes = 0

  /** The plan lists the tools of this link. */
  take(link: ServerLink): void {
    this.#link = link
    this.#changes = link.changes
  }

  isOutdated(link: ServerLink): boolean {
    return link !== this.#link || link.changes !== this.#changes
  }
}

/** Connects to a server over this transport: finds out how to speak to it, unless that is known. */
export const open = Effect.fnUntraced(function* (
  transport: LinkTransport,
  options: Options
): Effect.fn.Return<ServerLink, ServerFailure> {
  const { era } = options
  const client = new Client(
    { name: "bowline", version: manifest.version },
    {
      versionNegotiation: {
        mode: era === undefined || era === "legacy" ? "auto" : era,
        // Over HTTP an answer is awaited for as long as the plan waits; an old server over stdio may never give one.
        probe: { timeoutMs: transport.terminateSession === undefined ? stdioProbeMs : timeout }
      },
      inputRequired: { autoFulfill: false },
      capabilities: { extensions: { [tasksExtension]: {} } }
    }
  )
  limitReplies(transport)
  const link = new ServerLink(client, transport, options)
  yield* link
    .ask(
      ({ signal, timeout }) =>
        client.connect(transport, { signal, timeout, ...(era === "legacy" && { prior: { kind: era } }) }),
      options.wire.handshake
    )
    // Until it has an answer to its first question, the client does not close the transport.
    .pipe(Effect.onError(() => Effect.promise(() => Promise.allSettled([transport.close(), client.close()]))))
  link.attach()
  return link
})
