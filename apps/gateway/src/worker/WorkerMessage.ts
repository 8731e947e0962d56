import { Option, Schema } from "effect"

/** What a worker may ask of all workers. */
const Question = Schema.Literals(["metrics", "isReady"])
export type Question = typeof Question.Type

const id = Schema.Number

/** What the supervisor and its workers send each other. */
export const WorkerMessage = Schema.Union([
  /** From a worker: what do all workers answer? */
  Schema.TaggedStruct("Ask", { id, question: Question }),
  /** To each of them. */
  Schema.TaggedStruct("Question", { id, question: Question }),
  /** From each of them. */
  Schema.TaggedStruct("Answer", { id, text: Schema.String }),
  /** To the one that has asked: with the place of each, or `supervisor`. */
  Schema.TaggedStruct("Answers", { id, texts: Schema.Array(Schema.Tuple([Schema.String, Schema.String])) }),
  /** To a worker that another one takes the place of. */
  Schema.TaggedStruct("Leave", {})
])
export type WorkerMessage = typeof WorkerMessage.Type

const decode = Schema.decodeUnknownOption(WorkerMessage)

/** Reads a message. Libraries may send others. */
export const read = (message: unknown): WorkerMessage | undefined => Option.getOrUndefined(decode(message))
