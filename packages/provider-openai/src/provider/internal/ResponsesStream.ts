import { AnswerStream, type Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import { withOwnIds } from "@bowline/runtime/unstable/provider/CallIds"
import type { CallDropped, FinishReason, ToolCall } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"
import { OutputItem } from "./OutputItem.ts"
import { fromUsage } from "./TokenUsage.ts"

const incompleteReasons: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  content_filter: "content_filter"
}

const text = (value: unknown): string => (typeof value === "string" ? value : "")

/** An answer in the Responses format. The events of an item come between the one that adds it and the one that ends it. */
export class ResponsesStream extends AnswerStream {
  readonly #items = new Map<string, OutputItem>()
  #begunCalls = 0
  #hasRefusal = false
  #calls: ReadonlyArray<ToolCall | CallDropped> = []

  protected override calls(): ReadonlyArray<ToolCall | CallDropped> {
    return this.#calls
  }

  protected override take(event: Fields, name: string): void {
    const type = text(event["type"]) || name
    if (type === "error" || (event["error"] !== undefined && event["error"] !== null)) return this.error(event)
    const response = Predicate.isObject(event["response"]) ? event["response"] : {}
    if (Predicate.isObject(response["usage"])) {
      this.push({ _tag: "UsageReported", usage: fromUsage(response["usage"], "input", "output") })
    }
    switch (type) {
      case "response.output_item.added":
        return this.#add(event["item"])
      case "response.output_item.done":
        return this.#complete(event["item"])
      case "response.output_text.delta":
      case "response.refusal.delta":
        return this.#delta(event, "message", (delta) => {
          this.#hasRefusal ||= type === "response.refusal.delta"
          this.push({ _tag: "TextDelta", delta })
        })
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        return this.#delta(event, "reasoning", (delta, item) => {
          const isNext = item.turnTo(event["summary_index"])
          this.push({ _tag: "ReasoningDelta", delta: isNext ? `\n\n${delta}` : delta })
        })
      case "response.function_call_arguments.delta":
        return this.#delta(event, "function_call", (delta, item) => {
          item.write(delta)
          this.grow(delta)
          this.push({ _tag: "ToolCallFragment", call: item.call.call })
        })
      case "response.function_call_arguments.done":
        return this.#within(text(event["item_id"]), "function_call", (item) => item.rewrite(event["arguments"]))
      case "response.completed":
      case "response.incomplete":
        return this.#end(response, type === "response.completed")
      case "response.failed":
        // A failure without a reason counts as the server's.
        return this.error(Predicate.isObject(response["error"]) ? response : { code: "server_error" })
    }
  }

  #add(item: unknown): void {
    if (!Predicate.isObject(item)) return this.corrupt("an item that is no object")
    const id = OutputItem.idOf(item)
    if (this.#items.has(id)) return this.corrupt("a second start of an item")
    const isCall = item["type"] === "function_call"
    this.#items.set(id, new OutputItem(item, isCall ? this.#begunCalls++ : -1))
    if (isCall) this.push({ _tag: "ToolCallFragment", call: this.#begunCalls - 1 })
  }

  #complete(fields: unknown): void {
    if (!Predicate.isObject(fields)) return this.corrupt("an item that is no object")
    this.#within(OutputItem.idOf(fields), fields["type"], (item) => {
      item.complete(fields)
      const signature = text(fields["encrypted_content"])
      if (item.type === "reasoning" && item.isWhole && signature !== "")
        this.push({ _tag: "ReasoningEnded", signature })
      const phase = text(fields["phase"])
      if (item.type === "message" && phase !== "") this.push({ _tag: "TextEnded", phase })
    })
  }

  #delta(event: Fields, type: string, take: (delta: string, item: OutputItem) => void): void {
    this.#within(text(event["item_id"]), type, (item) => {
      const delta = event["delta"]
      if (typeof delta !== "string") return this.corrupt("a delta that is no text")
      if (delta !== "") take(delta, item)
    })
  }

  #within(id: string, type: unknown, take: (item: OutputItem) => void): void {
    const item = this.#items.get(id)
    if (item !== undefined && item.isOpen && item.type === type) take(item)
    else this.corrupt("an event of an item that is not open")
  }

  /** Some servers send a cut answer as completed, and say in its details why it was cut. */
  #end(response: Fields, isCompleted: boolean): void {
    const details = Predicate.isObject(response["incomplete_details"]) ? response["incomplete_details"] : {}
    const reason = text(details["reason"])
    this.nameModel(response["model"])
    const isWhole = isCompleted && reason === ""
    const items = Array.from(this.#items.values()).filter((item) => isWhole || item.isWhole)
    this.#calls = withOwnIds(items.flatMap((item) => (item.type === "function_call" ? [item.call] : [])))
    this.finish(isWhole ? this.#wholeReason() : (incompleteReasons[reason] ?? "other"))
    this.close()
  }

  #wholeReason(): FinishReason {
    if (this.#hasRefusal) return "refusal"
    return this.#calls.some(({ _tag }) => _tag === "ToolCall") ? "tool_calls" : "stop"
  }
}
