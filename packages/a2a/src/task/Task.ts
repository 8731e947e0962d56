import type { Schema } from "effect"

/** A part of a message or an artifact, in every dialect. `bytes` are base64. `metadata` of a text may hold its signature. */
export type Part =
  | { readonly _tag: "Text"; readonly text: string; readonly metadata?: Schema.Json }
  | { readonly _tag: "Data"; readonly data: Schema.Json }
  | {
      readonly _tag: "File"
      readonly mediaType: string
      readonly name?: string
      readonly bytes?: string
      readonly uri?: string
    }

export interface Message {
  readonly id: string | null
  readonly fromAgent: boolean
  readonly parts: ReadonlyArray<Part>
  readonly metadata: Schema.Json
}

/** Before the task is over, only a stream says whether an artifact is whole. */
export interface Artifact {
  readonly id: string | null
  readonly name?: string
  readonly parts: ReadonlyArray<Part>
  readonly isWhole?: boolean
}

/** A remote task as one answer of the peer shows it. Without an id it can be neither polled nor cancelled. */
export interface Task {
  readonly id: string | null
  readonly contextId: string | null
  readonly state: string
  readonly message: Message | null
  readonly artifacts: ReadonlyArray<Artifact>
  readonly history: ReadonlyArray<Message>
  readonly metadata: Schema.Json
}

/** The task with only the messages behind one of ours. An earlier call has told those before it. */
export const since = (task: Task, messageId: string): Task => ({
  ...task,
  history: task.history.slice(task.history.findLastIndex(({ id }) => id === messageId) + 1)
})
