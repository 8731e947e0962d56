import type { Fields } from "@bowline/runtime/provider/AnswerStream"
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

  /** Of a call without an id of its own some servers take the one that its result will name. */
  static idOf(item: Fields): string {
    return text(item["id"]) || text(item["call_id"])
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  /** It is done, and was not cut short. */
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

  /** All of the call's arguments at once: they count more than their pieces. */
  rewrite(whole: unknown): void {
    this.#arguments = text(whole) || this.#written || this.#arguments
    this.#written = ""
  }

  /** Whether what follows is in another paragraph of the reasoning than what came before. */
  turnTo(paragraph: unknown): boolean {
    const isTurn = this.#paragraph !== undefined && this.#paragraph !== paragraph
    this.#paragraph = paragraph
    return isTurn
  }

  /** What it says of itself at its end is what counts. */
  complete(item: Fields): void {
    this.#isOpen = false
    this.#isWhole = item["status"] !== "incomplete"
    this.#id = text(item["call_id"]) || this.#id
    this.#name = text(item["name"]) || this.#name
    this.rewrite(item["arguments"])
  }
}
