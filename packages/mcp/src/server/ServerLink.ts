import { ResponseTooLarge, Protocol } from "@bowline/domain/peer/PeerError"
import { maxBytes } from "@bowline/runtime/unstable/http/Exchange"
import type { McpTool } from "@bowline/runtime/remote/McpClient"
import { Client, type Transport } from "@modelcontextprotocol/client"
import { Effect } from "effect"
import manifest from "../../package.json" with { type: "json" }
import type { Ask } from "../http/ServerFetch.ts"
import type { Era, Options, Request } from "./ServerWire.ts"
import { Announcements } from "./Announcements.ts"
import { CallCancels } from "./CallCancels.ts"
import { toTool } from "./Content.ts"
import { capability, Elicitations } from "./Elicitations.ts"
import { ServerFailure, toFailure } from "./Failure.ts"
import { refuseLongLists } from "./LongLists.ts"
import { limitReplies } from "./Replies.ts"
import { capabilities, ServerCalls } from "./ServerCalls.ts"
import { carryTasks, ServerTaskCalls, timeout } from "./ServerTaskCalls.ts"

const maxPages = 100

/** How long a server over stdio may take to answer the question which revisions it speaks, in milliseconds. */
const stdioProbeMs = 3_000

/** Of servers over HTTP: it ends their session. */
interface LinkTransport extends Transport {
  readonly terminateSession?: () => Promise<void>
}

const invalid = (message: string): ServerFailure => ServerFailure.of(new Protocol({ message }))

const tooLarge = ServerFailure.of(new ResponseTooLarge({ message: "The server's list of tools is larger than 8 MiB" }))

/** A server that has been spoken to. */
export class ServerLink {
  readonly #client: Client
  readonly #transport: LinkTransport
  readonly #options: Options
  readonly #tasks: ServerTaskCalls
  readonly #announcements: Announcements
  readonly #cancels: CallCancels
  readonly #calls: ServerCalls

  constructor(client: Client, transport: LinkTransport, options: Options) {
    const expectReply = limitReplies(transport)
    this.#client = client
    this.#transport = transport
    this.#options = options
    this.#cancels = new CallCancels(transport, () => client.getProtocolEra() === "legacy")
    this.#tasks = new ServerTaskCalls(client, this.#cancels, (request) => this.ask(request))
    this.#announcements = new Announcements(client)
    this.#calls = new ServerCalls({
      client,
      options,
      tasks: this.#tasks,
      elicitations: options.answers ? new Elicitations(client, options.redaction, expectReply) : undefined,
      ask: (request, begin) => this.ask(request, begin)
    })
  }

  /** Makes a call: see `ServerCalls`. */
  call(...given: Parameters<ServerCalls["make"]>): ReturnType<ServerCalls["make"]> {
    return this.#calls.make(...given)
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

  /** What the server says of itself. */
  get description(): string | null {
    return this.#client.getInstructions() ?? this.#client.getServerVersion()?.title ?? null
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
  const { answers, era } = options
  const client = new Client(
    { name: "bowline", version: manifest.version },
    {
      versionNegotiation: {
        mode: era === undefined || era === "legacy" ? "auto" : era,
        // Over HTTP an answer is awaited for as long as the plan waits; an old server over stdio may never give one.
        probe: { timeoutMs: transport.terminateSession === undefined ? stdioProbeMs : timeout }
      },
      inputRequired: { autoFulfill: false },
      capabilities: { ...capabilities, ...(answers && capability) }
    }
  )
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
