import { AnswerStream, type Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import { withOwnIds } from "@bowline/runtime/unstable/provider/CallIds"
import type { CallDropped, FinishReason, ToolCall } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"
import { counted, fromCounts, none } from "./MessagesUsage.ts"
import { redactedSignature } from "./Thought.ts"

const finishReasons: Readonly<Record<string, FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  content_filter: "content_filter",
  refusal: "refusal",
  pause_turn: "pause"
}

/** The kind of block that a delta belongs to. */
const blockOf: Readonly<Record<string, string>> = {
  text_delta: "text",
  thinking_delta: "thinking",
  signature_delta: "thinking",
  input_json_delta: "tool_use"
}
const kinds = Object.values(blockOf)

/** A block of the answer's content. Of an unknown kind only the kind counts. */
interface Block {
  readonly kind: string
  readonly start: Fields
  /** Of a call: which one it is, counted from 0. */
  readonly call: number
  isOpen: boolean
  signature: string
  /** The arguments of a call so far. */
  json: string
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/**
 * An answer in the Messages format. Unknown events and kinds of blocks are ignored; known ones must come in order.
 *
 *   message_start ──▶ content_block_start ──delta*──▶ content_block_stop ──▶ … ──▶ message_delta ──▶ message_stop
 */
export class MessagesStream extends AnswerStream {
  readonly #blocks = new Map<number, Block>()
  #isStarted = false
  #hasText = false
  #counts = none

  protected override calls(): ReadonlyArray<ToolCall | CallDropped> {
    return withOwnIds(
      this.#calls.map(({ call, start, json }) => ({
        call,
        id: text(start["id"]),
        name: text(start["name"]),
        arguments: json === "" ? JSON.stringify(start["input"] ?? {}) : json
      }))
    )
  }

  get #calls(): ReadonlyArray<Block> {
    return Array.from(this.#blocks.values()).filter(({ kind }) => kind === "tool_use")
  }

  get #isInCall(): boolean {
    return this.#calls.some(({ isOpen }) => isOpen)
  }

  protected override take(chunk: Fields, event: string): void {
    const type = text(chunk["type"]) || event
    if (type === "error" || event === "error" || (chunk["error"] !== undefined && chunk["error"] !== null)) {
      return this.error(chunk)
    }
    switch (type) {
      case "message_start":
        return this.#startMessage(chunk["message"])
      case "content_block_start":
        return this.#startBlock(chunk["index"], chunk["content_block"])
      case "content_block_delta":
        return this.#takeDelta(chunk["index"], chunk["delta"])
      case "content_block_stop":
        return this.#stopBlock(chunk["index"])
      case "message_delta":
        return this.#changeMessage(chunk)
      case "message_stop":
        return this.#stopMessage()
    }
  }

  #startMessage(message: unknown): void {
    if (this.#isStarted) return this.corrupt("a second message_start")
    this.#isStarted = true
    if (!Predicate.isObject(message)) return
    this.nameModel(message["model"])
    this.#report(message["usage"])
  }

  #startBlock(index: unknown, start: unknown): void {
    if (!this.#isStarted) return this.corrupt("a block before its message")
    if (typeof index !== "number" || !Predicate.isObject(start)) return this.corrupt("a block that is none")
    if (this.#blocks.has(index)) return this.corrupt("a second start of a block")
    const kind = text(start["type"])
    const call = this.#calls.length
    this.#blocks.set(index, { kind, start, call, isOpen: true, signature: text(start["signature"]), json: "" })
    switch (kind) {
      case "text":
        return this.#say(start["text"] ?? "")
      case "thinking":
        return this.#think(start["thinking"] ?? "")
      case "redacted_thinking":
        return this.push({ _tag: "ReasoningEnded", signature: redactedSignature(text(start["data"])) })
      case "tool_use":
        return this.push({ _tag: "ToolCallFragment", call })
    }
  }

  #takeDelta(index: unknown, delta: unknown): void {
    const block = this.#open(index)
    if (block === undefined) return this.corrupt("a delta of a block that is not open")
    if (!Predicate.isObject(delta)) return this.corrupt("a delta that is no object")
    const type = text(delta["type"])
    const kind = blockOf[type]
    if (kind === undefined || !kinds.includes(block.kind)) return
    if (kind !== block.kind) return this.corrupt(`a ${type} in a block of ${block.kind}`)
    switch (type) {
      case "text_delta":
        return this.#say(delta["text"])
      case "thinking_delta":
        return this.#think(delta["thinking"])
      case "signature_delta":
        block.signature = text(delta["signature"])
        return
      case "input_json_delta":
        block.json += text(delta["partial_json"])
        this.grow(text(delta["partial_json"]))
        return this.push({ _tag: "ToolCallFragment", call: block.call })
    }
  }

  #stopBlock(index: unknown): void {
    const block = this.#open(index)
    if (block === undefined) return this.corrupt("the end of a block that is not open")
    block.isOpen = false
    if (block.kind === "thinking" && block.signature !== "") {
      this.push({ _tag: "ReasoningEnded", signature: block.signature })
    }
  }

  #changeMessage({ delta, usage }: Fields): void {
    if (!this.#isStarted) return this.corrupt("a message_delta before its message")
    this.#report(usage)
    const reason = Predicate.isObject(delta) ? text(delta["stop_reason"]) : ""
    if (reason === "") return
    if (this.#isInCall) return this.corrupt("the end of an answer in the midst of a call")
    this.finish(finishReasons[reason] ?? "other")
  }

  #stopMessage(): void {
    const hasCalls = this.#calls.length > 0
    if ((this.#hasText || hasCalls) && !this.#isInCall) this.finish(hasCalls ? "tool_calls" : "stop", true)
    this.close()
  }

  #open(index: unknown): Block | undefined {
    const block = typeof index === "number" ? this.#blocks.get(index) : undefined
    return block?.isOpen === true ? block : undefined
  }

  #say(delta: unknown): void {
    if (typeof delta !== "string") return this.corrupt("a text that is none")
    if (delta === "") return
    this.#hasText = true
    this.push({ _tag: "TextDelta", delta })
  }

  #think(delta: unknown): void {
    if (typeof delta !== "string") return this.corrupt("a thought that is no text")
    if (delta !== "") this.push({ _tag: "ReasoningDelta", delta })
  }

  #report(usage: unknown): void {
    if (!Predicate.isObject(usage)) return
    this.#counts = counted(this.#counts, usage)
    this.push({ _tag: "UsageReported", usage: fromCounts(this.#counts) })
  }
}
