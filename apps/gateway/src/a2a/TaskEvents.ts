import type { ServedUpdate, TaskIds } from "@bowline/a2a/server/ServedTask"
import { ping } from "@bowline/protocol/stream/SseFrame"
import { type Cause, Clock, Effect, Option, Queue, type Schema, Stream } from "effect"
import type { HttpServerResponse } from "effect/http"
import * as SseAnswer from "../http/SseAnswer.ts"
import type { Binding } from "./Binding.ts"
import { type Change, follow, type OpenTask, type Services } from "./TaskReader.ts"

/** How many statuses that only tell of progress a client gets within a second. */
const maxPerSecond = 4
const secondMs = 1_000

const silenceMs = 10_000

type Progress = Extract<ServedUpdate, { readonly _tag: "Status" }>

/**
 * Writes the changes of a task as events. Of statuses that only tell of progress it writes four a second: one that comes sooner waits, and
 * the next one takes its place. One that has waited has no id, since what it waited for may have overtaken it.
 */
class TaskEvents {
  readonly #binding: Binding
  readonly #ids: TaskIds
  #held: Progress | undefined
  /** When the last of them were shown, the oldest first. */
  #shownAt: ReadonlyArray<number> = []
  #writtenAt: number

  constructor(binding: Binding, ids: TaskIds, now: number) {
    this.#binding = binding
    this.#ids = ids
    this.#writtenAt = now
  }

  /** When something is to be written even if nothing happens. */
  get dueAt(): number {
    return this.#held === undefined ? this.#writtenAt + silenceMs : (this.#shownAt[0] ?? 0) + secondMs
  }

  due(now: number): string {
    this.#writtenAt = now
    return this.#held === undefined ? ping : this.rest(now)
  }

  next({ id, updates }: Change, now: number): string {
    let text = ""
    for (const [index, update] of updates.entries()) {
      if (update._tag === "Status") {
        this.#shownAt = this.#shownAt.filter((at) => now - at < secondMs)
        if (update.weight === "progress" && this.#shownAt.length >= maxPerSecond) {
          this.#held = update
          continue
        }
        // The last progress before the end is told, too.
        if (update.weight === "final") text += this.rest(now)
        this.#held = undefined
        if (update.weight === "progress") this.#shownAt = [...this.#shownAt, now]
      }
      text += this.#write(update, index === updates.length - 1 ? id : undefined)
    }
    if (text !== "") this.#writtenAt = now
    return text
  }

  /** What was held. */
  rest(now: number): string {
    const held = this.#held
    this.#held = undefined
    this.#shownAt = [...this.#shownAt.slice(1), now]
    return held === undefined ? "" : this.#write(held, undefined)
  }

  #write(update: ServedUpdate, id: string | undefined): string {
    const { body, json } = this.#binding
    return event(body(json.update(this.#ids, update)), id)
  }
}

const event = (data: Schema.Json, id: string | undefined): string =>
  `${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`

const bytes = (text: string): Uint8Array => Buffer.from(text)

/**
 * A task as server-sent events until it is over or waits for its client. The first one is the task, unless the reader comes back: then what
 * it has missed comes first. Closing the stream touches nothing.
 */
export const respond = Effect.fnUntraced(function* (
  services: Services,
  binding: Binding,
  opened: OpenTask,
  comesBack: boolean
) {
  const { fold } = opened
  const task = fold.task
  const events = new TaskEvents(binding, task, yield* Clock.currentTimeMillis)
  const first = comesBack
    ? opened.missed
        .flatMap(({ id, updates }) =>
          updates.map((update, index) =>
            event(binding.body(binding.json.update(task, update)), index === updates.length - 1 ? id : undefined)
          )
        )
        .join("")
    : event(binding.body(binding.json.sent(task)), opened.id)
  const later = Stream.unwrap(
    Effect.gen(function* () {
      const changes = yield* Queue.bounded<Change, Cause.Done>(64)
      yield* follow(services, opened, (change) => Effect.asVoid(Queue.offer(changes, change))).pipe(
        Effect.catchCause((cause) =>
          Effect.annotateLogs(Effect.logError("stream_failed", cause), { plan_id: opened.plan.plan.plan_id })
        ),
        Effect.andThen(Queue.end(changes)),
        Effect.forkScoped
      )
      let isOver = false
      const pull: Effect.Effect<readonly [Uint8Array], Cause.Done> = Effect.gen(function* () {
        for (;;) {
          if (isOver) return yield* Queue.take(changes).pipe(Effect.as([bytes("")] as const))
          const wait = events.dueAt - (yield* Clock.currentTimeMillis)
          const change = yield* Queue.take(changes).pipe(
            Effect.map((change): Change | "over" => change),
            Effect.orElseSucceed(() => "over" as const),
            Effect.timeoutOption(Math.max(0, wait))
          )
          const now = yield* Clock.currentTimeMillis
          isOver = Option.contains(change, "over")
          const text = Option.match(change, {
            onNone: () => events.due(now),
            onSome: (change) => (change === "over" ? events.rest(now) : events.next(change, now))
          })
          if (text !== "") return [bytes(text)] as const
        }
      })
      return Stream.fromPull(Effect.succeed(pull))
    })
  )
  const body: Stream.Stream<Uint8Array> = Stream.concat(Stream.succeed(bytes(first)), later)
  return SseAnswer.toResponse(body) satisfies HttpServerResponse.HttpServerResponse
})
