import { Unreachable } from "@bowline/domain/peer/PeerError"
import { Array, Effect, Pull, Stream, type Scope } from "effect"
import { Sse } from "effect/encoding"
import { HttpClient, HttpClientRequest } from "effect/http"
import { answerOf, fromClient, maxBytes, respond, tooLarge, type Answer } from "./Exchange.ts"
import { failure, type ExchangeError } from "./ExchangeError.ts"
import { Redaction } from "./Redaction.ts"

/** Waits for the data of the next events. Fails when there are no more: a stream is over only when its task is. */
export type Events = Effect.Effect<Array.NonEmptyReadonlyArray<string>, ExchangeError>

/** An answer that is a stream, or one that is whole: a peer that has nothing to stream, or that refuses. */
export type Reply =
  | { readonly _tag: "Events"; readonly events: Events }
  | { readonly _tag: "Answer"; readonly answer: Answer }

/** A peer that lives writes something, if only a comment. */
const silence = "30 seconds"

const lost = (message: string) => Effect.fail(failure("transient", new Unreachable({ message })))
const silent = lost("The peer's stream was silent for 30 seconds")
const closed = lost("The peer closed its stream before the task was over")

const eventsOf = (bytes: Effect.Effect<ReadonlyArray<Uint8Array>, ExchangeError>, redaction: Redaction): Events => {
  const decoder = new TextDecoder()
  const bounded = Effect.timeoutOrElse(bytes, { duration: silence, orElse: () => silent })
  let come: Array<string> = []
  const parser = Sse.makeParser(
    (event) => {
      if (event._tag === "Event" && event.data !== "") come.push(redaction.body(event.data))
    },
    { maxEventSize: maxBytes }
  )
  // How long the first word takes is the peer's affair: it may have to start its task for it.
  let pull = bytes
  const next: Events = Effect.flatMap(
    Effect.suspend(() => pull),
    (chunks): Events => {
      pull = bounded
      for (const chunk of chunks) {
        if (parser.feed(decoder.decode(chunk, { stream: true })) !== undefined) return Effect.fail(tooLarge)
      }
      const events = come
      come = []
      return Array.isReadonlyArrayNonEmpty(events) ? Effect.succeed(events) : next
    }
  )
  return next
}

/** Sends a request that asks for a stream. The connection is closed with the scope. */
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
