import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { type Cause, Effect, Option, Queue, Stream } from "effect"
import type { HttpServerRequest, HttpServerResponse } from "effect/http"
import * as PlanArrival from "../../http/PlanArrival.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"
import type { Binding } from "./Binding.ts"
import { TaskEventText } from "./TaskEventText.ts"
import { type Change, follow, notFound, type OpenTask, type Services } from "./TaskReader.ts"

/** The stream breaks off before the task is over or waits. The task runs on: its client can subscribe to it again. */
const brokenOff = (code: "draining" | "internal") =>
  new A2aError({
    error: "Internal",
    message: "The stream breaks off, and the task runs on: subscribe to it again",
    metadata: { code, retryable: "true" },
    status: code === "draining" ? 503 : 500
  })

const bytes = (text: string): Uint8Array => Buffer.from(text)

interface Reading {
  /** Whether it begins with what the reader has missed, and not with the task. */
  readonly comesBack: boolean
  /** Whether a task that waits for its client now is followed all the same. */
  readonly isPatient: boolean
}

/** A task as server-sent events until it is over or waits for its client. Closing the stream touches nothing. */
export const respond = Effect.fnUntraced(function* (
  services: Services,
  binding: Binding,
  opened: OpenTask,
  request: HttpServerRequest.HttpServerRequest,
  { comesBack, isPatient }: Reading
) {
  const events = new TaskEventText(binding, opened.fold.task, yield* Monotonic.now)
  const later = Stream.unwrap(
    Effect.gen(function* () {
      const changes = yield* Queue.bounded<Change | A2aError, Cause.Done>(64)
      yield* follow(services, opened, (change) => Effect.asVoid(Queue.offer(changes, change)), {
        join: (connect) => PlanArrival.join(connect, request),
        isPatient
      }).pipe(
        Effect.map((place) => (place === undefined ? brokenOff("draining") : undefined)),
        // Its session was deleted meanwhile.
        Effect.catchTag("NotFound", () => Effect.succeed(notFound(opened.task))),
        Effect.catchCause((cause) =>
          Effect.logError("stream_failed", cause).pipe(
            Effect.annotateLogs({ plan_id: opened.plan.plan.plan_id }),
            Effect.as(brokenOff("internal"))
          )
        ),
        Effect.flatMap((failed) => (failed === undefined ? Effect.void : Queue.offer(changes, failed))),
        Effect.andThen(Queue.end(changes)),
        Effect.forkScoped
      )
      let isOver = false
      const pull: Effect.Effect<readonly [Uint8Array], Cause.Done> = Effect.gen(function* () {
        for (;;) {
          if (isOver) return yield* Queue.take(changes).pipe(Effect.as([bytes("")] as const))
          const wait = events.dueAt - (yield* Monotonic.now)
          const change = yield* Queue.take(changes).pipe(
            Effect.map((change): Change | A2aError | "over" => change),
            Effect.orElseSucceed(() => "over" as const),
            Effect.timeoutOption(Math.max(0, wait))
          )
          const now = yield* Monotonic.now
          isOver = Option.contains(change, "over")
          const text = Option.match(change, {
            onNone: () => events.due(now),
            onSome: (change) => {
              if (change === "over") return events.rest(now)
              return change instanceof A2aError ? events.rest(now) + events.failure(change) : events.next(change, now)
            }
          })
          if (text !== "") return [bytes(text)] as const
        }
      })
      return Stream.fromPull(Effect.succeed(pull))
    })
  )
  const body: Stream.Stream<Uint8Array> = Stream.concat(Stream.succeed(bytes(events.first(opened, comesBack))), later)
  return SseAnswer.toResponse(body) satisfies HttpServerResponse.HttpServerResponse
})
