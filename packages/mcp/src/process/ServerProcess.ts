import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import type { McpCommand } from "@bowline/domain/unstable/mcp/McpServer"
import { ResponseTooLarge, Unreachable } from "@bowline/domain/peer/PeerError"
import { failure, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { Redaction } from "@bowline/runtime/unstable/http/Redaction"
import { Deferred, Effect, Exit, Fiber, type Scope, Stream } from "effect"
import { ChildProcess, type ChildProcessSpawner } from "effect/process"
import * as Pace from "../http/Pace.ts"
import { ProcessTransport } from "./ProcessTransport.ts"

/** How much of what a process writes to its standard error is kept, and shown in one line of the log. */
const tailLength = 1_000
const logEveryMs = 1_000

/** How long a process may take to end after SIGTERM, before SIGKILL. */
const forceKillAfter = "2 seconds"

/** A process of an MCP server, for as long as its scope. */
export interface ServerProcess {
  readonly transport: ProcessTransport
  /** Why it has ended, or is to be ended. */
  readonly ended: Effect.Effect<ExchangeError>
  readonly reason: () => ExchangeError | undefined
  /** Says why it is to be ended, if nobody has yet. The end of the scope ends it. */
  readonly end: (reason: ExchangeError) => Effect.Effect<void>
  /** What it wrote to its standard error last. */
  readonly lastWords: Effect.Effect<string>
}

const tooLarge = failure(
  "garbled",
  new ResponseTooLarge({ message: "The server's process has written more than 8 MiB without a message" })
)

export const gone = (message: string): ExchangeError => failure("transient", new Unreachable({ message }))

/** Reads what the process complains about, as fast as it writes: at most one line of it a second is logged. */
const readComplaints = Effect.fnUntraced(function* (
  name: string,
  stderr: Stream.Stream<Uint8Array, unknown>,
  redaction: Redaction
) {
  let tail = ""
  let nextLog = 0
  const reading = Stream.decodeText(stderr).pipe(
    Stream.runForEach((text) =>
      Effect.flatMap(Monotonic.now, (now) => {
        tail = (tail + text.slice(-tailLength)).slice(-tailLength)
        if (now < nextLog) return Effect.void
        nextLog = now + logEveryMs
        const line = redaction.text(text.slice(0, tailLength)).toWellFormed().trim()
        return Effect.annotateLogs(Effect.logDebug("mcp_server_stderr"), { server: name, text: line })
      })
    ),
    Effect.ignore
  )
  const fiber = yield* Effect.forkScoped(reading)
  // What is still in the pipe is awaited, but a child of its own may keep that open.
  const lastWords = Fiber.await(fiber).pipe(
    Effect.timeoutOption("200 millis"),
    Effect.map(() => redaction.text(tail).toWellFormed().trim())
  )
  return { lastWords }
})

/**
 * Starts the command of a server. Its environment is `environment` and what the command sets besides. The end of the scope ends its process
 * group: SIGTERM, and 2 seconds later SIGKILL.
 */
export const start = Effect.fnUntraced(function* (
  { args = [], command, env, name }: McpCommand,
  environment: Readonly<Record<string, string>>,
  redaction: Redaction
): Effect.fn.Return<ServerProcess, ExchangeError, ChildProcessSpawner.ChildProcessSpawner | Scope.Scope> {
  const handle = yield* ChildProcess.make(command, args, { env: { ...environment, ...env }, forceKillAfter }).pipe(
    Effect.mapError(({ reason }) => gone(`The server's process cannot be started (${reason._tag})`))
  )
  const transport = new ProcessTransport(handle.pid)
  const ended = Deferred.makeUnsafe<ExchangeError>()
  let reason: ExchangeError | undefined
  const end = (why: ExchangeError) =>
    Effect.sync(() => {
      reason ??= why
      if (Deferred.doneUnsafe(ended, Effect.succeed(reason))) transport.end()
    })

  yield* Stream.fromQueue(transport.input).pipe(Stream.run(handle.stdin), Effect.ignore, Effect.forkScoped)
  const pace = Pace.make()
  const reading = yield* Stream.runForEachWhile(handle.stdout, (chunk) =>
    Effect.suspend(() => {
      const { messages } = transport
      const mayWriteOn = transport.receive(chunk)
      return Effect.as(pace(transport.messages - messages), mayWriteOn)
    })
  ).pipe(Effect.ignore, Effect.forkScoped)
  const silenced = Effect.gen(function* () {
    yield* Fiber.await(reading)
    if (transport.isFull) return yield* end(tooLarge)
    // A process that ends closes its output first, and its code says more.
    yield* Effect.sleep("1 second")
    yield* end(gone("The server's process has closed its output"))
  })
  yield* Effect.forkScoped(silenced)
  const { lastWords } = yield* readComplaints(name, handle.stderr, redaction)
  const exited = Effect.gen(function* () {
    const exit = yield* Effect.exit(handle.exitCode)
    // Its last answer may still be in the pipe, which a child of its own may keep open.
    yield* Effect.timeoutOption(Fiber.await(reading), "200 millis")
    yield* end(
      gone(`The server's process has ended ${Exit.isSuccess(exit) ? `with code ${exit.value}` : "by a signal"}`)
    )
  })
  yield* Effect.forkScoped(exited)
  yield* Effect.forkScoped(Effect.andThen(Deferred.await(transport.closed), end(gone("The connection was closed"))))
  return { transport, ended: Deferred.await(ended), reason: () => reason, end, lastWords }
})
