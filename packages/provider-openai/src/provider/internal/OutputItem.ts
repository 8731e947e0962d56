import type { Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import type { ToolCall } from "@bowline/runtime/provider/Provider"

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** An item of an answer in the Responses format, while it is written: a message, a run of reasoning, or a call. */
export class OutputItem {
  readonly type: unknown
  /** Of a call: which one it is, counted from 0. */
  readonly #call: number
  #isOpen = true
  #isWhole = false
  #paragraph: unknown
  #id: string
  #name: string
  #arguments: string
  #written = ""

  constructor(item: Fields, call: number) {
    this.#call = call
    this.type = item["type"]
    this.#id = text(item["call_id"])
    this.#name = text(item["name"])
    this.#arguments = text(item["arguments"])
  }

  /** Some servers give a call no id of its own, and refer to it by its `call_id`. */
  static idOf(item: Fields): string {
    return text(item["id"]) || text(item["call_id"])
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** It has ended, and was not cut. */
  get isWhole(): boolean {
    return this.#isWhole
  }

  get call(): Omit<ToolCall, "_tag"> {
    return { call: this.#call, id: this.#id, name: this.#name, arguments: this.#written || this.#arguments }
  }

  /** Another piece of the call's arguments. */
  write(fragment: string): void {
    this.#written += fragment
  }

  /** All of the call's arguments. They replace the pieces. */
  rewrite(whole: unknown): void {
    this.#arguments = text(whole) || this.#written || this.#arguments
    this.#written = ""
  }

  /** Whether a new paragraph of the reasoning begins. */
  turnTo(paragraph: unknown): boolean {
    const isTurn = this.#paragraph !== undefined && this.#paragraph !== paragraph
    this.#paragraph = paragraph
    return isTurn
  }

  /** The end of an item repeats its fields: these count. */
  complete(item: Fields): void {
    this.#isOpen = false
    this.#isWhole = item["status"] !== "incomplete"
    this.#id = text(item["call_id"]) || this.#id
    this.#name = text(item["name"]) || this.#name
    this.rewrite(item["arguments"])
  }
}
