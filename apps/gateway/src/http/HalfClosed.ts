import { ping } from "@bowline/protocol/stream/SseFrame"
import { Effect, type Fiber, FiberSet } from "effect"
import type { Server, ServerResponse } from "node:http"

/** How long an answer may take before something is written in front of it, in milliseconds: most answers are there by then. */
const patience = 30

/**
 * When a connection is written to after its caller has closed its end, in milliseconds. If the caller has left, its system resets the
 * connection at the first write, and the second one finds that out.
 */
const probes = [0, 1, patience, patience + 10, 80]

/** How often it is written to from then on. */
const interval = "5 seconds"

/** Only the head as it was sent tells: what is given to `writeHead` at once is nowhere else. */
const isStream = (response: ServerResponse): boolean =>
  /^content-type: text\/event-stream/im.test(String(Reflect.get(response, "_header")))

/** Writes what its reader ignores: a comment in a stream, and `100 Continue` in front of any other answer. */
const probe = (response: ServerResponse, isLate: boolean) =>
  Effect.sync(() => {
    if (response.writableEnded || response.destroyed) return
    if (isStream(response)) response.write(ping)
    else if (!response.headersSent && isLate) response.writeContinue()
  })

const probing = Effect.fnUntraced(function* (response: ServerResponse) {
  let waited = 0
  for (const at of probes) {
    yield* Effect.sleep(at - waited)
    yield* probe(response, at >= patience)
    waited = at
  }
  return yield* Effect.forever(Effect.andThen(Effect.sleep(interval), probe(response, true)))
})

/**
 * Answers callers that close their end of the connection behind their request. A caller that has left looks the same: TCP says of both that
 * nothing more comes. So the gateway writes to the connection, and takes a caller for gone when that fails. HTTP/1.0 has nothing that can
 * stand in front of an answer: there a closed end means that the caller has left, unless it gets a stream.
 */
export const answerOn = Effect.fnUntraced(function* (server: Server) {
  const run = yield* FiberSet.makeRuntime()
  // Node.js has it, and its types do not name it.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on("request", ({ httpVersion, socket }, response) => {
    let fiber: Fiber.Fiber<never> | undefined
    const onEnd = () => {
      if (httpVersion === "1.0" && !response.headersSent) response.destroy()
      else fiber = run(probing(response))
    }
    socket.once("end", onEnd)
    response.once("close", () => {
      socket.removeListener("end", onEnd)
      fiber?.interruptUnsafe()
    })
  })
})
