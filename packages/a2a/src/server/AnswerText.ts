import type { Final } from "@bowline/domain/plan/Outcome"
import type { Part } from "../task/Task.ts"
import type { ServedArtifact, ServedUpdate } from "./ServedTask.ts"

const answerId = "answer"

interface Attempt {
  readonly step: number
  readonly attempt: number
}

const artifactOf = (part: Part): ServedArtifact => ({ artifactId: answerId, name: answerId, parts: [part] })

const update = (part: Part, append: boolean, lastChunk = false): ServedUpdate => ({
  _tag: "Artifact",
  artifact: artifactOf(part),
  append,
  lastChunk
})

const piece = (text: string) => update({ _tag: "Text", text }, true)

/** The client's text is empty behind it. */
const empty = update({ _tag: "Text", text: "" }, false)

/**
 * The artifact `answer`: the text of the step that is running, and at the end the answer of the plan. A client that appends what it is
 * told to append, and replaces the rest, always has the same.
 */
export class AnswerText {
  #step = 0
  /** What was shown of the step and not retracted, by attempt. */
  readonly #attempts = new Map<number, string>()
  #part: Part | undefined

  get artifact(): ServedArtifact | undefined {
    return this.#part === undefined ? undefined : artifactOf(this.#part)
  }

  /** Another plan goes on with the task: its first text takes the place of this answer. */
  restart(): void {
    this.#step = 0
  }

  add({ attempt, delta, step }: Attempt & { readonly delta: string }): ReadonlyArray<ServedUpdate> {
    const isFirst = step !== this.#step
    if (isFirst) {
      this.#step = step
      this.#attempts.clear()
    }
    this.#attempts.set(attempt, (this.#attempts.get(attempt) ?? "") + delta)
    this.#show()
    return isFirst ? [empty, piece(delta)] : [piece(delta)]
  }

  retract({ attempt, step }: Attempt): ReadonlyArray<ServedUpdate> {
    if (step !== this.#step || !this.#attempts.delete(attempt)) return []
    const rest = this.#show()
    return rest === "" ? [empty] : [empty, piece(rest)]
  }

  end({ output, text }: Final): ReadonlyArray<ServedUpdate> {
    const isShown = this.#step !== 0 && output === undefined && this.#show() === text
    this.#part = output === undefined ? { _tag: "Text", text } : { _tag: "Data", data: output }
    return [isShown ? update({ _tag: "Text", text: "" }, true, true) : update(this.#part, false, true)]
  }

  #show(): string {
    const text = Array.from(this.#attempts.values()).join("")
    this.#part = { _tag: "Text", text }
    return text
  }
}
