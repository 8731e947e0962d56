import type { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import type { Schema } from "effect"
import type { ServedUpdate, TaskIds } from "@bowline/a2a/unstable/server/ServedTask"
import * as Monotonic from "@bowline/runtime/unstable/process/Monotonic"
import { Effect, Latch, Stream } from "effect"
import type { Binding } from "./Binding.ts"
import type { Change, OpenTask } from "./TaskReader.ts"

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
  first({ fold, id, missed }: OpenTask, comesBack: boolean): string {
    const { body, json } = this.#binding
    if (!comesBack) return event(body(json.sent(fold.task)), id)
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
