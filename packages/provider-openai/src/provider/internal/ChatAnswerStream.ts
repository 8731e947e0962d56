import { AnswerStream, type Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import type { CallDropped, FinishReason, ToolCall } from "@bowline/runtime/provider/Provider"
import { Predicate } from "effect"
import { CallAssembly } from "./CallAssembly.ts"
import { fromUsage } from "./TokenUsage.ts"

const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop: "stop",
  tool_calls: "tool_calls",
  function_call: "tool_calls",
  length: "length",
  max_tokens: "length",
  content_filter: "content_filter",
  refusal: "refusal"
}

const isText = (value: unknown): value is string => typeof value === "string" && value !== ""

/** An answer in the Chat Completions format. The end marker alone finishes an answer that has text and no call. */
export class ChatAnswerStream extends AnswerStream {
  readonly #calls = new CallAssembly()
  #hasText = false
  #hasRefusal = false

  protected override calls(): ReadonlyArray<ToolCall | CallDropped> {
    return this.#calls.finish()
  }

  protected override done(): void {
    if (this.#hasText && this.#calls.isEmpty) this.finish(this.#hasRefusal ? "refusal" : "stop", true)
    this.close()
  }

  protected override take(chunk: Fields, event: string): void {
    this.nameModel(chunk["model"])
    if (event === "error" || (chunk["error"] !== undefined && chunk["error"] !== null)) return this.error(chunk)
    this.#takeChoice(chunk["choices"])
    const usage = chunk["usage"]
    if (Predicate.isObject(usage)) this.push({ _tag: "UsageReported", usage: fromUsage(usage, "prompt", "completion") })
  }

  #takeChoice(choices: unknown): void {
    if (choices === undefined || choices === null) return
    if (!Array.isArray(choices)) return this.corrupt("choices that are no list")
    const choice: unknown = choices[0]
    if (choice === undefined) return
    if (!Predicate.isObject(choice)) return this.corrupt("a choice that is no object")
    const delta = choice["delta"] ?? {}
    if (!Predicate.isObject(delta)) return this.corrupt("a delta that is no object")
    this.#takeDelta(delta)
    const finish = choice["finish_reason"]
    if (!isText(finish)) return
    const reason = finishReasons[finish] ?? "other"
    this.finish(reason === "stop" && this.#hasRefusal ? "refusal" : reason)
  }

  #takeDelta(delta: Fields): void {
    const reasoning = isText(delta["reasoning_content"]) ? delta["reasoning_content"] : delta["reasoning"]
    if (isText(reasoning)) this.push({ _tag: "ReasoningDelta", delta: reasoning })
    for (const name of ["content", "refusal"] as const) {
      const text = delta[name]
      if (isText(text)) {
        this.#hasText = true
        this.#hasRefusal ||= name === "refusal"
        this.push({ _tag: "TextDelta", delta: text })
      } else if (text !== undefined && text !== null && text !== "") this.corrupt(`a ${name} that is no text`)
    }
    const calls = delta["tool_calls"]
    if (calls === undefined || calls === null) return
    if (!Array.isArray(calls)) return this.corrupt("tool_calls that are no list")
    for (const fragment of calls) {
      const added = this.#calls.add(fragment)
      if (added === undefined) return this.corrupt("a tool call that is no object")
      this.push({ _tag: "ToolCallFragment", call: added.call })
      this.grow(added.piece)
    }
  }
}
