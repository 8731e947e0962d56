import { Schema } from "effect"

/**
 * What a compaction has done: the summary that takes the place of `messages_compacted` messages, and what the prompt is
 * estimated to be in tokens before it and after.
 */
export const Compacted = Schema.Struct({
  summary: Schema.String,
  tokens_before: Schema.Int,
  tokens_after: Schema.Int,
  messages_compacted: Schema.Int
})
export type Compacted = typeof Compacted.Type
