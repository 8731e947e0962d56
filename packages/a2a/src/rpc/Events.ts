import { Unreachable } from "@bowline/domain/peer/PeerError"
import { Array, Effect, Pull, Stream, type Scope } from "effect"
import { Sse } from "effect/encoding"
import { HttpClient, HttpClientRequest } from "effect/http"
import { answerOf, fromClient, maxBytes, respond, tooLarge, type Answer } from "@bowline/runtime/unstable/http/Exchange"
import { failure, type ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import { Redaction } from "@bowline/runtime/unstable/http/Redaction"

/** Waits for the data of the next events. Fails when the stream closes: it should not close before its task is over. */
export type Events = Effect.Effect<Array.NonEmptyReadonlyArray<string>, ExchangeError>

/** A stream, or one whole answer from a peer that has nothing to stream or that refuses. */
export type Reply =
  | { readonly _tag: "Events"; readonly events: Events }
  | { readonly _tag: "Answer"; readonly answer: Answer }

/** A live peer writes something, at least a comment. */
const silence = "30 seconds"

const lost = (message: string) => Effect.fail(failure("transient", new Unreachable({ message })))
const silent = lost("The peer's stream was silent for 30 seconds")
const closed = lost("The peer closed its stream before the task was over")

const eventsOf = (bytes: Effect.Effect<ReadonlyArray<Uint8Array>, ExchangeError>, redaction: Redaction): Events => {
  const decoder = new TextDecoder()
  const bounded = Effect.timeoutOrElse(bytes, { duration: silence, orElse: () => silent })
  let arrived: Array<string> = []
  const parser = Sse.makeParser(
    (event) => {
      if (event._tag === "Event" && event.data !== "") arrived.push(redaction.body(event.data))
    },
    { maxEventSize: maxBytes }
  )
  // The peer may have to start its task first: only the deadline of the call limits the wait for the first event.
  let pull = bytes
  const next: Events = Effect.flatMap(
    Effect.suspend(() => pull),
    (chunks): Events => {
      pull = bounded
      for (const chunk of chunks) {
        if (parser.feed(decoder.decode(chunk, { stream: true })) !== undefined) return Effect.fail(tooLarge)
      }
      const events = arrived
      arrived = []
      return Array.isReadonlyArrayNonEmpty(events) ? Effect.succeed(events) : next
    }
  )
  return next
}

/** Sends a request for a stream. The connection closes with the scope. */
export const openEvents = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  request: HttpClientRequest.HttpClientRequest
): Effect.fn.Return<Reply, ExchangeError, Scope.Scope> {
  const response = yield* respond(HttpClient.withScope(client), HttpClientRequest.accept(request, "text/event-stream"))
  const { headers, status } = response
  const isStream = status >= 200 && status < 300 && /^text\/event-stream\b/i.test(headers["content-type"] ?? "")
  if (!isStream) return { _tag: "Answer", answer: yield* answerOf(response) }
  const bytes = yield* Stream.toPull(Stream.mapError(response.stream, fromClient))
  const events = eventsOf(
    Pull.catchDone(bytes, () => closed),
    new Redaction().addAuthorization(request.headers["authorization"])
  )
  return { _tag: "Events", events }
})
