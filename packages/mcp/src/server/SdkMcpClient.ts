import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { McpServer } from "@bowline/domain/unstable/mcp/McpServer"
import * as PeerAuth from "@bowline/runtime/unstable/auth/PeerAuth"
import { LruCache } from "@bowline/runtime/unstable/process/LruCache"
import { McpClient, type McpConnection, type McpServerStatus } from "@bowline/runtime/remote/McpClient"
import { PeerError } from "@bowline/domain/peer/PeerError"
import { routeHeaders, type Route } from "@bowline/runtime/remote/PeerClient"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, FiberSet, Layer, Redacted, Semaphore } from "effect"
import { HttpClient } from "effect/http"
import { ServerFetch } from "../http/ServerFetch.ts"
import type { ServerFailure } from "./Failure.ts"
import * as HttpLink from "./HttpLink.ts"
import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import * as ServerLink from "./ServerLink.ts"
import type { Era } from "./ServerWire.ts"

/** How long the era of a server is taken for granted, in milliseconds. */
const eraMs = 3_600_000
const maxServers = 1_000

/** What is known of a server by its URL. */
interface Known extends Omit<McpServerStatus, "url"> {
  readonly era: Era | undefined
  readonly until: number
}

/** What a token for a server is for: its URL as the protocol writes it, without a fragment and without a slash alone. */
const resourceOf = (url: string): string => {
  const { href, origin, pathname, search } = new URL(url)
  return pathname === "/" && search === "" ? origin : href.replace(/#.*$/, "")
}

/**
 * Servers by URL, with the HTTP client and the variables of whoever names them. Its end waits 5 seconds at most for the sessions that are being ended.
 *
 * @example
 * ```ts
 * import * as SdkMcpClient from "@bowline/mcp/server/SdkMcpClient"
 * import { Effect } from "effect"
 *
 * // What is known of the servers that this client has called: none yet.
 * export const statuses = Effect.flatMap(SdkMcpClient.make, (client) => client.servers)
 * ```
 */
export const make = Effect.gen(function* () {
  const client = yield* HttpClient.HttpClient
  const auths = yield* PeerAuth.make(client)
  const known = new LruCache<string, Known>(maxServers)
  const endings = yield* FiberSet.make<void>()
  yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(endings), "5 seconds"))

  const end = (link: ServerLink.ServerLink) =>
    Effect.asVoid(FiberSet.run(endings, link.end, { startImmediately: true }))

  const note = (url: string, change: Partial<Known>): void =>
    known.set(url, {
      era: undefined,
      until: 0,
      revision: null,
      error: null,
      error_at: null,
      ...known.peek(url),
      ...change
    })

  const knownEra = Effect.fnUntraced(function* (url: string) {
    const { era, until } = known.get(url) ?? { era: undefined, until: 0 }
    return until > (yield* Monotonic.now) ? era : undefined
  })

  /** Opens a link, once more without what was known of the server if that is no longer so. */
  const open = Effect.fnUntraced(function* (options: Omit<Parameters<typeof HttpLink.open>[0], "era">) {
    const { url } = options
    const era = yield* knownEra(url)
    const anew = Effect.gen(function* () {
      const link = yield* HttpLink.open({ ...options, era: undefined })
      note(url, { era: link.era, until: (yield* Monotonic.now) + eraMs })
      return link
    })
    const opened =
      era === undefined
        ? anew
        : Effect.catchIf(
            HttpLink.open({ ...options, era }),
            ({ isOtherRevision }) => isOtherRevision,
            () => anew
          )
    const link = yield* Effect.tapError(opened, ({ reason }) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        note(url, { era: undefined, error: reason.message, error_at: fromMillis(now) })
      )
    )
    note(url, { revision: link.revision, error: null, error_at: null })
    return link
  })

  /** A server that refuses its revision is asked anew by the next plan. */
  const forget = (url: string) => (failure: ServerFailure) =>
    Effect.sync(() => failure.isOtherRevision && note(url, { era: undefined }))

  const toPeerError = ({ asPeerError }: ServerFailure): PeerError => asPeerError

  const connect = Effect.fnUntraced(function* ({ auth, headers, url }: McpServer, route: Route, answers?: boolean) {
    const credentials = yield* Effect.mapError(
      auths.forAgent(auth, url, resourceOf(url)),
      ({ reason }) => new PeerError({ reason })
    )
    const { redaction } = credentials
    const own = headers === undefined ? {} : Redacted.value(headers)
    for (const secret of [...Object.values(own), ...UrlSecrets.ofUrl(url)]) redaction.addAuthorization(secret)
    const options = {
      url,
      fetch: new ServerFetch({ client, auth: credentials, headers: { ...own, ...routeHeaders(route) } }),
      redaction,
      answers: answers === true
    }
    const opened = Effect.mapError(open(options), toPeerError)
    let link = yield* opened
    yield* Effect.addFinalizer(() => end(link))
    const renewals = yield* Semaphore.make(1)
    /** Connects once more, unless another request has done so meanwhile. */
    const renew = (gone: ServerLink.ServerLink) =>
      Effect.suspend(() =>
        link === gone ? Effect.map(open(options), (next) => (link = next)) : Effect.succeed(link)
      ).pipe((renewing) => renewals.withPermit(renewing))
    const uses = new Map<ServerLink.ServerLink, number>()
    /** Uses a link for a request. The link of a session that is gone ends with its last request: the server may still answer what it has taken. */
    const using = <A, E>(used: ServerLink.ServerLink, request: Effect.Effect<A, E>) =>
      Effect.acquireUseRelease(
        Effect.sync(() => uses.set(used, (uses.get(used) ?? 0) + 1)),
        () => request,
        () =>
          Effect.suspend(() => {
            const others = (uses.get(used) ?? 1) - 1
            uses.set(used, others)
            return others === 0 && used !== link ? end(used) : Effect.void
          })
      )
    /** Asks the server, once more in a new session if it has forgotten this one: it has not taken what it answers with 404. */
    const ask = <A>(request: (link: ServerLink.ServerLink) => Effect.Effect<A, ServerFailure>) =>
      Effect.suspend(() => {
        const first = link
        const asked = Effect.catchIf(
          request(first),
          ({ isSessionGone }) => isSessionGone && first.hasSession,
          () => Effect.flatMap(renew(first), (next) => using(next, request(next)))
        )
        return using(first, asked)
      }).pipe(Effect.tapError(forget(url)), Effect.mapError(toPeerError))
    const list = new ServerLink.ToolList()
    const connection: McpConnection = {
      description: link.description,
      tools: ask((used) => {
        list.take(used)
        return used.tools()
      }),
      hasChanged: Effect.sync(() => list.isOutdated(link)),
      call: (call, onProgress) => ask((used) => used.call(call, onProgress))
    }
    return connection
  })

  return McpClient.of({
    connect,
    servers: Effect.sync(() =>
      known.keys.flatMap((url) => {
        const { error, error_at, revision } = known.peek(url) ?? { error: null, error_at: null, revision: null }
        // Parameters may be secrets.
        const { origin, pathname } = new URL(url)
        return [{ url: `${origin}${pathname}`, revision, error, error_at }]
      })
    )
  })
})

/**
 * MCP servers in all revisions that `@modelcontextprotocol/client` speaks, over streamable HTTP. The HTTP client must not follow redirects by
 * itself. The variables with tokens come from `EnvironmentSecrets`, and the key that signs requests from `GatewayIdentity`. Closing the
 * layer waits 5 seconds at most for the sessions that are being ended.
 */
export const layer: Layer.Layer<McpClient, never, HttpClient.HttpClient> = Layer.effect(McpClient, make)
