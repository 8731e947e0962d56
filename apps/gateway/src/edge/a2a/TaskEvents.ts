import { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import type { ServedUpdate, TaskIds } from "@bowline/a2a/unstable/server/ServedTask"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Clock, Effect, Latch, type Schema, Stream } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as PlanArrival from "../../http/PlanArrival.ts"
import * as SseAnswer from "../../http/SseAnswer.ts"
import type { Binding } from "./Binding.ts"
import { follow } from "./TaskFollower.ts"
import { type Change, idOf, notFound, type OpenTask, type Services } from "./TaskReader.ts"

/** How many statuses that only tell of progress a client gets within a second. */
const maxPerSecond = 4
const secondMs = 1_000

type Progress = Extract<ServedUpdate, { readonly _tag: "Status" }>

const event = (data: Schema.Json, id: string | undefined): string =>
  `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`

/**
 * Writes the changes of a task as events. Of statuses that only tell of progress it writes four a second: one that comes sooner waits, and
 * the next one takes its place. One that has waited has no id, since what it waited for may have overtaken it.
 */
export class TaskEventText {
  readonly #binding: Binding
  readonly #ids: TaskIds
  #held: Progress | undefined
  /** When the last of them were shown, the oldest first. */
  #shownAt: ReadonlyArray<number> = []
  /** Open while one is held. */
  readonly #holds = Latch.makeUnsafe(false)

  constructor(binding: Binding, ids: TaskIds) {
    this.#binding = binding
    this.#ids = ids
  }

  /** How the stream begins: with the task or, of a reader that comes back, with what it has missed. */
  first({ at, fold, missed }: OpenTask, comesBack: boolean): string {
    const { body, json } = this.#binding
    if (!comesBack) return event(body(json.sent(fold.task)), idOf(at))
    return missed
      .flatMap(({ id, updates }) =>
        updates.map((update, index) => this.#write(update, index === updates.length - 1 ? id : undefined))
      )
      .join("")
  }

  /** Whenever what is held has waited long enough: then `rest` is to be written. */
  readonly late: Stream.Stream<"late"> = Stream.fromEffectRepeat(
    Effect.gen({ self: this }, function* () {
      for (;;) {
        yield* this.#holds.await
        const wait = (this.#shownAt[0] ?? 0) + secondMs - (yield* Monotonic.now)
        if (wait <= 0) return "late" as const
        yield* Effect.sleep(wait)
      }
    })
  )

  next({ id, updates }: Change, now: number): string {
    let text = ""
    for (const [index, update] of updates.entries()) {
      if (update._tag === "Status") {
        this.#shownAt = this.#shownAt.filter((at) => now - at < secondMs)
        if (update.weight === "progress" && this.#shownAt.length >= maxPerSecond) {
          this.#held = update
          this.#holds.openUnsafe()
          continue
        }
        // The last progress before the end is told, too.
        if (update.weight === "final") text += this.rest(now)
        this.#drop()
        if (update.weight === "progress") this.#shownAt = [...this.#shownAt, now]
      }
      text += this.#write(update, index === updates.length - 1 ? id : undefined)
    }
    return text
  }

  /** What was held. */
  rest(now: number): string {
    const held = this.#held
    this.#drop()
    if (held === undefined) return ""
    this.#shownAt = [...this.#shownAt.slice(1), now]
    return this.#write(held, undefined)
  }

  #drop(): void {
    this.#held = undefined
    this.#holds.closeUnsafe()
  }

  /** Why the stream ends before its task does. */
  failure(failed: A2aError): string {
    return `${this.#binding.failureEvent}${event(this.#binding.failure(failed), undefined)}`
  }

  #write(update: ServedUpdate, id: string | undefined): string {
    const { body, json } = this.#binding
    return event(body(json.update(this.#ids, update)), id)
  }
}

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

/** A task as server-sent events until it is over or waits for its client, but not for an account. Closing the stream touches nothing. */
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
  const changes = follow(services, opened, {
    join: (connect) => PlanArrival.join({ connect }, request),
    isPatient,
    throughAccounts: true
  })
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
