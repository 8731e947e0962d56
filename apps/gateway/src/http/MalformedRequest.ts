import { contentType } from "@bowline/protocol/unstable/api/Problem"
import { UuidGenerator } from "@bowline/runtime/unstable/config/UuidGenerator"
import { Effect, FiberSet } from "effect"
import { type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { count, invalid, Refused, RequestId } from "./Refusals.ts"

/** How long a caller may go on sending after the answer, until it closes its end. A connection that is closed while more comes loses the answer. */
const lingering = "5 seconds"

/** As Node.js fails: `reason` is in the words of its parser. */
interface Failure extends Error {
  readonly code?: string
  readonly reason?: string
}

const refusalOf = ({ code, reason }: Failure): Refused => {
  switch (code) {
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new Refused({ code: "request_timeout", detail: "The request did not come in time" })
    case "HPE_HEADER_OVERFLOW":
      return new Refused({ code: "head_too_large", detail: "The first line and the headers may have 16 KiB at most" })
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new Refused({ code: "payload_too_large", detail: "The extensions of chunks may have 16 KiB at most" })
    default:
      return invalid([{ path: "", message: `Expected HTTP/1.1${reason === undefined ? "" : `: ${reason}`}` }])
  }
}

const textOf = Effect.fnUntraced(function* (failure: Failure) {
  const problem = yield* count(refusalOf(failure))
  const body = JSON.stringify(problem)
  const head = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    `content-type: ${contentType}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${problem.request_id}`,
    "connection: close"
  ]
  return `${head.join("\r\n")}\r\n\r\n${body}`
})

const untilClosed = (stream: ServerResponse | Duplex) =>
  Effect.callback((resume) => {
    stream.once("close", () => resume(Effect.void))
  })

/**
 * Answers with a problem document what Node.js cannot read to its end as a request, which no route sees. Node.js would answer without
 * one, and would cut the answers to the requests in front of it on the same connection.
 */
export const answerOn = Effect.fnUntraced(function* (server: Server) {
  const run = yield* FiberSet.makeRuntime()
  const uuid = yield* UuidGenerator
  const open = new WeakMap<Duplex, Set<ServerResponse>>()
  server.on("request", ({ socket }, response) => {
    const responses = open.get(socket) ?? new Set()
    open.set(socket, responses.add(response))
    response.once("close", () => responses.delete(response))
  })
  // Whatever a caller expects besides 100-continue, it gets an answer.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))

  const answer = Effect.fnUntraced(function* (failure: Failure, socket: Duplex) {
    const text = yield* textOf(failure)
    // The request itself may have been handed to a route, which waits for the rest of its body.
    const inFront = Array.from(open.get(socket) ?? []).filter(({ headersSent, req }) => req.complete || headersSent)
    yield* Effect.forEach(inFront, untilClosed, { concurrency: "unbounded", discard: true })
    if (socket.writable) socket.end(text)
    yield* Effect.timeoutOption(untilClosed(socket), lingering)
    socket.destroy()
  })
  const answered = new WeakSet<Duplex>()
  server.on("clientError", (failure: Failure, socket) => {
    // What comes behind a request that has its answer fails, too.
    if (!socket.writable || answered.has(socket)) {
      if (socket.readableEnded) socket.destroy()
      return
    }
    answered.add(socket)
    run(Effect.provideService(answer(failure, socket), RequestId, uuid()))
  })
})
