import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { McpCommand } from "@bowline/domain/unstable/mcp/McpServer"
import { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import type { McpConnection, McpServerStatus } from "@bowline/runtime/remote/McpClient"
import type { Route } from "@bowline/runtime/remote/PeerClient"
import { fromMillis } from "@bowline/domain/unstable/time/Timestamp"
import { Clock, Effect, Exit, Fiber, FiberSet, Scope } from "effect"
import { ChildProcessSpawner } from "effect/process"
import * as ServerProcess from "../process/ServerProcess.ts"
import { ServerFailure } from "./Failure.ts"
import * as KnownSecrets from "./KnownSecrets.ts"
import * as ServerLink from "./ServerLink.ts"
import type { Era } from "./ServerWire.ts"

/** How long a process may take until it has shaken hands. A plan waits for 10 s of it. */
const startLimit = "60 seconds"

/** A server that has failed to start is left alone for so long, in milliseconds. */
const restartDelayMs = 5_000

/** A process that leaves the question for its tools unanswered for so long, in milliseconds, hangs. */
const hangsAfterMs = 5_000

const redactionOf = (command: McpCommand): Redaction => {
  const redaction = new Redaction()
  for (const secret of KnownSecrets.ofCommand(command)) redaction.addAuthorization(secret)
  return redaction
}

const late = ServerProcess.gone("The server's process did not shake hands within 60 s")
const hangs = ServerProcess.gone("The server's process does not answer")

const fromExchange = ({ reason }: { readonly reason: ServerFailure["reason"] }) => ServerFailure.of(reason)

interface Running {
  readonly link: ServerLink.ServerLink
  readonly process: ServerProcess.ServerProcess
  /** How many calls are open. */
  calls: number
}

/** Protocols without headers carry the route of a plan here. */
const metaOf = ({ hops, via }: Route) => ({ "bowline/hops": hops, "bowline/via": via })

/**
 * A server whose process all plans of this gateway share. It starts when a plan first needs it, and again for the next plan or call after it has
 * ended. The end of the scope ends it. Callers know its tools by its `address`. `environment` is what every process gets. It is told that somebody `answers` what it asks only where one plan
 * alone has the process.
 *
 * ```
 *            ┌───────────── 5 s ◀── failed ─┐
 *            ▼                              │
 *          none ──first plan, call──▶ starting ──▶ running ──ends, hangs──▶ none
 * ```
 */
export const make = Effect.fnUntraced(function* (
  command: McpCommand,
  address: string,
  environment: Readonly<Record<string, string>>,
  answers?: boolean
) {
  const owner = yield* Effect.scope
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const redaction = redactionOf(command)
  let current: Fiber.Fiber<Running, ServerFailure> | undefined
  let failed = { failure: ServerFailure.of(late.reason), until: 0 }
  /** The link of the last process that has shaken hands. */
  let latest: ServerLink.ServerLink | undefined
  let era: Era | undefined
  let status: McpServerStatus | undefined
  const note = (revision: string | null, error: string | null) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      status = { url: address, revision, error, error_at: error === null ? null : fromMillis(now) }
    })

  /** Starts the process and shakes hands. It runs until it ends or hangs, or the owner ends it. */
  const open = Effect.fnUntraced(function* (era: Era | undefined) {
    const scope = yield* Scope.fork(owner)
    const process = yield* ServerProcess.start(command, environment, redaction).pipe(
      Effect.provideService(ChildProcessSpawner.ChildProcessSpawner, spawner),
      Effect.mapError(fromExchange),
      Effect.onError(() => Scope.close(scope, Exit.void)),
      Scope.provide(scope)
    )
    let isOpen = false
    const farewell = Effect.gen(function* () {
      const { reason } = yield* process.ended
      if (isOpen) current = undefined
      yield* note(status?.revision ?? null, reason.message)
      const about = { server: command.name, reason: reason.message, stderr: yield* process.lastWords }
      yield* Effect.annotateLogs(Effect.logWarning("mcp_server_ended"), about)
      yield* Scope.close(scope, Exit.void)
    })
    yield* Effect.forkIn(farewell, owner, { startImmediately: true })
    const ask = () => ({ headers: {}, takeFailure: process.reason })
    const wire = { ask, handshake: ask, close: () => Effect.void }
    const link = yield* ServerLink.open(process.transport, { wire, redaction, era, answers: answers === true }).pipe(
      Effect.timeoutOrElse({ duration: startLimit, orElse: () => Effect.fail(fromExchange(late)) }),
      Effect.tapError(({ reason }) => process.end(ServerProcess.gone(reason.message)))
    )
    isOpen = process.reason() === undefined
    return isOpen ? { link, process, calls: 0 } : yield* fromExchange(yield* process.ended)
  })

  const launch = Effect.suspend(() => open(era)).pipe(
    // A server of an old revision may end because it was asked which ones it speaks.
    Effect.catchIf(
      ({ reason }) => era === undefined && reason._tag === "unreachable" && reason !== late.reason,
      () => open("legacy")
    ),
    Effect.tap(({ link }) => {
      era = link.era
      latest = link
      return note(link.revision, null)
    }),
    Effect.tapError((failure) =>
      Effect.map(Monotonic.now, (now) => {
        era = undefined
        current = undefined
        failed = { failure, until: now + restartDelayMs }
      })
    )
  )

  // A process belongs to no plan: its fibers have neither the trace nor the log annotations of the one that needs it first.
  const run = yield* FiberSet.makeRuntime<never, Running, ServerFailure>()
  const running = Effect.gen(function* () {
    if (current === undefined && failed.until > (yield* Monotonic.now)) return yield* failed.failure
    current ??= run(launch)
    return yield* Fiber.join(current)
  })

  const toPeerError = ({ asPeerError }: ServerFailure) => asPeerError

  const toolsFor = Effect.fnUntraced(function* (list: ServerLink.ToolList) {
    const server = yield* running
    const { link, process } = server
    list.take(link)
    const asked = yield* Monotonic.now
    // Many servers answer nothing while they work on a call, which has a limit of its own.
    const endIfHung = Effect.flatMap(Monotonic.now, (now) =>
      now - asked < hangsAfterMs || server.calls > 0 ? Effect.void : process.end(hangs)
    )
    return yield* Effect.onInterrupt(link.tools(), () => endIfHung)
  })

  const within = <A, E>(server: Running, call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.acquireUseRelease(
      Effect.sync(() => server.calls++),
      () => call,
      () => Effect.sync(() => server.calls--)
    )

  const connect = (route: Route): McpConnection => {
    const list = new ServerLink.ToolList()
    return {
      get description() {
        return latest?.description ?? null
      },
      tools: Effect.mapError(toolsFor(list), toPeerError),
      hasChanged: Effect.sync(() => latest !== undefined && list.isOutdated(latest)),
      call: (call, onProgress) =>
        Effect.flatMap(running, (server) => within(server, server.link.call(call, onProgress, metaOf(route)))).pipe(
          Effect.mapError(toPeerError)
        )
    }
  }

  return {
    connect,
    /** Whether the server asks while a call is open, and says of no question which call it is of. */
    asksAnyone: Effect.map(Effect.mapError(running, toPeerError), ({ link }) => link.era === "legacy"),
    status: Effect.sync(() => status)
  }
})
