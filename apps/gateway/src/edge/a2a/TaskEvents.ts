import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Clock, Effect, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as PlanArrival from "../../http/PlanArrival.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"
import type { Binding } from "./Binding.ts"
import { TaskEventText } from "./TaskEventText.ts"
import { follow } from "./TaskFollower.ts"
import { type Change, notFound, type OpenTask, type Services } from "./TaskReader.ts"

/** The stream breaks off before the task is over or waits. The task runs on: its client can subscribe to it again. */
const brokenOff = (code: "draining" | "internal") =>
  new A2aError({
    error: "Internal",
    message: "The stream breaks off, and the task runs on: subscribe to it again",
    metadata: { code, retryable: "true" },
    status: code === "draining" ? 503 : 500
  })

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
  const clock = yield* Clock.Clock
  const now = () => Monotonic.millis(clock)
  const events = new TaskEventText(binding, opened.fold.task)
  const changes = follow(services, opened, { join: (connect) => PlanArrival.join(connect, request), isPatient })
  const endings: Readonly<Partial<Record<SseAnswer.Why, A2aError>>> = {
    draining: brokenOff("draining"),
    gone: notFound(opened.task),
    interrupted: brokenOff("internal")
  }
  return SseAnswer.translated({
    plan_id: opened.plan.plan.plan_id,
    frames: Stream.merge(changes, events.late, { haltStrategy: "left" }),
    first: events.first(opened, comesBack),
    next: (item: Change | "late") => (item === "late" ? events.rest(now()) : events.next(item, now())),
    end: (why) => {
      const failed = endings[why]
      return events.rest(now()) + (failed === undefined ? "" : events.failure(failed))
    }
  })
})
