import type { A2aError } from "@bowline/a2a/unstable/server/A2aError"
import type { Schema } from "effect"
import type { ServedUpdate, TaskIds } from "@bowline/a2a/unstable/server/ServedTask"
import { ping } from "@bowline/protocol/stream/SseFrame"
import type { Binding } from "./Binding.ts"
import type { Change, OpenTask } from "./TaskReader.ts"

/** How many statuses that only tell of progress a client gets within a second. */
const maxPerSecond = 4
const secondMs = 1_000

const silenceMs = 10_000

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
  #writtenAt: number

  constructor(binding: Binding, ids: TaskIds, now: number) {
    this.#binding = binding
    this.#ids = ids
    this.#writtenAt = now
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

  /** Why the stream ends before its task does. */
  failure(failed: A2aError): string {
    return `${this.#binding.failureEvent}${event(this.#binding.failure(failed), undefined)}`
  }

  #write(update: ServedUpdate, id: string | undefined): string {
    const { body, json } = this.#binding
    return event(body(json.update(this.#ids, update)), id)
  }
}
