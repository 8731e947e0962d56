import { Schema } from "effect"
import { FileId } from "../file/StoredFile.ts"
import { PlanId } from "../plan/Plan.ts"
import { TaskId, TaskState } from "../tool/TaskState.ts"

/** `msg_` and a UUID. */
export const MessageId = Schema.String.check(
  Schema.isPattern(/^msg_[0-9a-f-]{36}$/u, { message: "Expected the message_id of a message" })
).pipe(Schema.brand("MessageId"))
export type MessageId = typeof MessageId.Type

const MediaType = Schema.String.check(Schema.isPattern(/^[a-z0-9][a-z0-9.+-]*\/[a-z0-9][a-z0-9.+-]*$/))

const file = {
  type: Schema.tag("file"),
  media_type: MediaType,
  name: Schema.optionalKey(Schema.NonEmptyString)
}

/** A file of the caller that is stored apart: what it is, without its bytes. `width` and `height` are those of an image, else null; `pages` is what a PDF says of itself. */
export const FileReference = Schema.Struct({
  type: Schema.tag("file"),
  file_id: FileId,
  media_type: MediaType,
  name: Schema.String,
  bytes: Schema.Int,
  width: Schema.NullOr(Schema.Int),
  height: Schema.NullOr(Schema.Int),
  pages: Schema.optionalKey(Schema.Int)
})
export type FileReference = typeof FileReference.Type

/**
 * A file that came with a question: its content in base64, where it can be fetched, or a stored one by its id, and only one of them. `media_type` is in lower
 * case and without parameters, as `image/png`.
 */
export const FilePart = Schema.Union(
  [
    Schema.Struct({ ...file, data: Schema.NonEmptyString.check(Schema.isBase64()) }),
    Schema.Struct({ ...file, url: Schema.String.check(Schema.isPattern(/^https?:\/\/\S+$/)) }),
    FileReference
  ],
  { mode: "oneOf" }
)
export type FilePart = typeof FilePart.Type

/**
 * `partial` marks the text of an attempt that was cut short: it is shown, and never replayed to a provider. `phase` is what a
 * provider of Responses calls it: `commentary` on the way, or `final_answer`.
 */
export const TextPart = Schema.Struct({
  type: Schema.tag("text"),
  text: Schema.String,
  partial: Schema.optionalKey(Schema.Boolean),
  phase: Schema.optionalKey(Schema.String)
})
export type TextPart = typeof TextPart.Type

/**
 * The reasoning of a model. Its provider recognises it by the `signature`, and it is sent again to that provider only. If the
 * provider does not show its reasoning, the text is empty.
 */
export const ReasoningPart = Schema.Struct({
  type: Schema.tag("reasoning"),
  text: Schema.String,
  provider: Schema.optionalKey(Schema.String),
  signature: Schema.optionalKey(Schema.String)
})
export type ReasoningPart = typeof ReasoningPart.Type

/**
 * `input` is always an object. `raw_input` is the text of arguments that were not an object; `input` is then empty. `call_id` is what its client calls a call that
 * no plan has made, and so is that of its result.
 */
export const ToolCallPart = Schema.Struct({
  type: Schema.tag("tool_call"),
  task_id: TaskId,
  call_id: Schema.optionalKey(Schema.String),
  tool: Schema.String,
  input: Schema.Record(Schema.String, Schema.Json),
  raw_input: Schema.optionalKey(Schema.String)
})
export type ToolCallPart = typeof ToolCallPart.Type

/** `content` is what the model gets to read. */
export const ToolResultPart = Schema.Struct({
  type: Schema.tag("tool_result"),
  task_id: TaskId,
  call_id: Schema.optionalKey(Schema.String),
  state: TaskState,
  content: Schema.String
})
export type ToolResultPart = typeof ToolResultPart.Type

/** A piece of a message. */
export const MessagePart = Schema.Union([TextPart, ReasoningPart, ToolCallPart, ToolResultPart, FilePart])
export type MessagePart = typeof MessagePart.Type

/**
 * One entry of a session's history. `seq` grows strictly within a session, and is the order.
 *
 * @example
 * ```ts
 * import type { Message } from "@bowline/domain/session/Message"
 *
 * export const textOf = ({ parts }: Message): string =>
 *   parts.flatMap((part) => (part.type === "text" && part.partial !== true ? [part.text] : [])).join("")
 * ```
 */
export const Message = Schema.Struct({
  message_id: MessageId,
  seq: Schema.Int,
  role: Schema.Literals(["user", "assistant", "tool"]),
  parts: Schema.Array(MessagePart),
  plan_id: PlanId,
  created_at: Schema.String,
  compacted: Schema.Boolean
})
export type Message = typeof Message.Type

/** A message that the store has not numbered yet. */
export type NewMessage = Pick<Message, "message_id" | "role" | "parts">
