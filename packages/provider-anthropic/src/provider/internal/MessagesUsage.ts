import type { Usage } from "@bowline/domain/plan/Usage"
import type { Fields } from "@bowline/runtime/unstable/provider/AnswerStream"
import { Predicate } from "effect"

/** The tokens that an answer has reported so far. */
export interface Counts {
  readonly input: number
  readonly read: number
  readonly written: number
  readonly output: number
  readonly thinking: number
}

export const none: Counts = { input: 0, read: 0, written: 0, output: 0, thinking: 0 }

const atLeast = (known: number, value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) ? Math.max(known, Math.trunc(value)) : known

/** Adds a report. Reports are cumulative; a count that a report does not know is missing, null or 0. */
export const counted = (known: Counts, usage: Fields): Counts => {
  const details = usage["output_tokens_details"]
  return {
    input: atLeast(known.input, usage["input_tokens"]),
    read: atLeast(known.read, usage["cache_read_input_tokens"]),
    written: atLeast(known.written, usage["cache_creation_input_tokens"]),
    output: atLeast(known.output, usage["output_tokens"]),
    thinking: atLeast(known.thinking, Predicate.isObject(details) ? details["thinking_tokens"] : undefined)
  }
}

/** The wire's `input_tokens` exclude tokens read from or written to a cache; its `output_tokens` include the thinking. */
export const fromCounts = ({ input, read, written, output, thinking }: Counts): Usage => ({
  input_tokens: input + read + written,
  output_tokens: output,
  cached_input_tokens: read,
  reasoning_tokens: thinking
})
