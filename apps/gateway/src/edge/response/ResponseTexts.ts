import type { PlanId } from "@bowline/domain/plan/Plan"
import * as Items from "./ResponseItems.ts"

interface Attempt {
  readonly step: number
  readonly attempt: number
}

type Emit = (type: string, fields: { readonly output_index: number; readonly [field: string]: unknown }) => void

interface OpenText extends Items.Text {
  readonly attempt: Attempt
}

/** The names of the events of a text. */
const names = {
  message: { part: "response.content_part", text: "response.output_text" },
  reasoning: { part: "response.reasoning_summary_part", text: "response.reasoning_summary_text" }
}

/**
 * The texts of a response: a message for each step, and an item for each run of reasoning. The message of a step is open until nothing can
 * take its text back any more. If an attempt is retracted, its items are left out, and the next text begins a new message; what
 * earlier attempts of the step have given is in that again.
 */
export class ResponseTexts {
  readonly #plan: PlanId
  readonly #items: Array<Items.Item | undefined>
  readonly #emit: Emit
  #step = 0
  #message: OpenText | undefined
  #reasoning: OpenText | undefined
  /** What the attempts of the step have given and was not retracted. */
  readonly #given = new Map<number, string>()
  /** The reasoning of the step that is over. */
  #thoughts: Array<OpenText> = []

  /** Puts its items among all `items` of the response. */
  constructor(plan: PlanId, items: Array<Items.Item | undefined>, emit: Emit) {
    this.#plan = plan
    this.#items = items
    this.#emit = emit
  }

  /** The item as it is now, if it is a text that still comes. */
  current(item: Items.Item): Items.Item {
    const open = [this.#message, this.#reasoning].find((text) => text?.id === item.id)
    return open === undefined ? item : Items.textItem(open, "in_progress")
  }

  add(kind: Items.Text["kind"], { delta, ...attempt }: Attempt & { readonly delta: string }): void {
    if (attempt.step !== this.#step) {
      this.endStep("commentary")
      this.#step = attempt.step
    }
    if (kind === "reasoning") {
      if (this.#reasoning?.attempt.attempt !== attempt.attempt) this.#endReasoning()
      this.#reasoning ??= this.#open("reasoning", attempt)
      return this.#show(this.#reasoning, delta)
    }
    this.#endReasoning()
    this.#given.set(attempt.attempt, (this.#given.get(attempt.attempt) ?? "") + delta)
    if (this.#message === undefined) return this.#resume(attempt)
    this.#show(this.#message, delta)
  }

  retract({ attempt, step }: Attempt): void {
    if (step !== this.#step) return
    if (this.#reasoning?.attempt.attempt === attempt) {
      this.#drop(this.#reasoning)
      this.#reasoning = undefined
    }
    for (const thought of this.#thoughts)
      if (thought.attempt.attempt === attempt) this.#items[thought.index] = undefined
    if (!this.#given.delete(attempt) || this.#message === undefined) return
    this.#drop(this.#message)
    this.#message = undefined
  }

  /** Nothing of the step can be taken back any more. */
  endStep(phase: Items.Phase): void {
    this.#endReasoning()
    if (this.#message === undefined && this.#given.size > 0) this.#resume({ step: this.#step, attempt: 0 })
    if (this.#message !== undefined) this.#close(this.#message, "completed", phase)
    this.#forget()
  }

  /** The plan has failed: the text so far is no answer. */
  abandon(): void {
    for (const text of [this.#reasoning, this.#message]) if (text !== undefined) this.#close(text, "incomplete")
    this.#reasoning = undefined
    this.#forget()
  }

  #forget(): void {
    this.#message = undefined
    this.#given.clear()
    this.#thoughts = []
  }

  /** Begins a message with all that the step has given. */
  #resume(attempt: Attempt): void {
    this.#message = this.#open("message", attempt)
    this.#show(this.#message, Array.from(this.#given.values()).join(""))
  }

  #endReasoning(): void {
    if (this.#reasoning === undefined) return
    this.#thoughts.push(this.#reasoning)
    this.#close(this.#reasoning, "completed")
    this.#reasoning = undefined
  }

  #open(kind: Items.Text["kind"], attempt: Attempt): OpenText {
    const index = this.#items.length
    const text: OpenText = { kind, id: Items.textId(kind, this.#plan, index), index, text: "", attempt }
    const item = Items.textItem(text, "in_progress")
    this.#items.push(item)
    this.#emit("response.output_item.added", { output_index: index, item })
    this.#emit(`${names[kind].part}.added`, { ...this.#place(text), part: Items.partOf(text) })
    return text
  }

  #show(text: OpenText, delta: string): void {
    text.text += delta
    this.#emit(`${names[text.kind].text}.delta`, {
      ...this.#place(text),
      delta,
      ...(text.kind === "message" && { logprobs: [] })
    })
  }

  #close(text: OpenText, status: "completed" | "incomplete", phase?: Items.Phase): Items.Item {
    const item = Items.textItem(text, status, phase)
    this.#items[text.index] = item
    this.#emit(`${names[text.kind].text}.done`, {
      ...this.#place(text),
      text: text.text,
      ...(text.kind === "message" && { logprobs: [] })
    })
    this.#emit(`${names[text.kind].part}.done`, { ...this.#place(text), part: Items.partOf(text) })
    this.#emit("response.output_item.done", { output_index: text.index, item })
    return item
  }

  /** Closes a text that was taken back: it is no part of the response. */
  #drop(text: OpenText): void {
    this.#close(text, "incomplete")
    this.#items[text.index] = undefined
  }

  #place({ id, index, kind }: OpenText) {
    const at = { item_id: id, output_index: index }
    return kind === "message" ? { ...at, content_index: 0 } : { ...at, summary_index: 0 }
  }
}
