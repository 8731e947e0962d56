import { waitOf } from "@bowline/runtime/unstable/http/Exchange"
import type { ClaimedTarget } from "@bowline/runtime/unstable/store/PushStore"
import { Data, Duration, Effect, Option, Stream } from "effect"
import { HttpBody, HttpClient, HttpClientRequest } from "effect/http"

/** How long a receiver may take for one notification. */
const timeout = "10 seconds"

/** The receiver did not take the notification. `status` is null if it did not answer; `waitInMs` is its `Retry-After`, or 0. */
export class NotTaken extends Data.TaggedError("NotTaken")<{
  readonly reason: string
  readonly status: number | null
  readonly waitInMs: number
}> {}

const unanswered = (reason: string) => new NotTaken({ reason, status: null, waitInMs: 0 })

/** The receiver wants no more notifications. */
export class Gone extends Data.TaggedError("Gone") {}

/** A connection with an unread answer cannot be used again, but nobody needs a large one. */
const discard = <E>(body: Stream.Stream<Uint8Array, E>) =>
  body.pipe(Stream.take(8), Stream.runDrain, Effect.timeoutOption("1 second"), Effect.ignore)

/** Posts a notification, and gives the status of the answer: it is taken if that is 2xx. Redirections are not followed. */
export const post = Effect.fnUntraced(function* (
  client: HttpClient.HttpClient,
  url: string,
  body: string,
  headers: Readonly<Record<string, string>>
): Effect.fn.Return<number, NotTaken | Gone> {
  const request = HttpClientRequest.post(url).pipe(
    HttpClientRequest.setBody(HttpBody.text(body, headers["content-type"])),
    HttpClientRequest.setHeaders(headers)
  )
  const response = yield* client.execute(request).pipe(
    Effect.tap(({ stream }) => discard(stream)),
    Effect.mapError(({ reason }) => unanswered(reason.cause instanceof Error ? reason.cause.message : reason._tag)),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(unanswered("no answer within 10 s")) })
  )
  const { status } = response
  if (status >= 200 && status < 300) return status
  if (status === 410) return yield* new Gone()
  const waitInMs = Option.match(yield* waitOf(response), { onNone: () => 0, onSome: Duration.toMillis })
  return yield* new NotTaken({ reason: `the receiver answered ${status}`, status, waitInMs })
})

/** Says that a notification will not arrive. A URL may hold a secret: only its host is shown. */
export const logDropped = ({ owner, target, task_id }: ClaimedTarget, reason: string): Effect.Effect<void> =>
  Effect.annotateLogs(Effect.logWarning("push_dropped"), {
    caller: owner,
    plan_id: task_id,
    host: URL.canParse(target.url) ? new URL(target.url).host : "",
    reason
  })
