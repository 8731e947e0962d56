import type { Dialect } from "@bowline/domain/peer/Agent"
import type { Schema } from "effect"

export type Params = { readonly [key: string]: Schema.Json }

/** A question to a peer: text, or the arguments of a skill that takes data. */
export interface Outgoing {
  readonly messageId: string
  readonly skillId: string
  readonly content: string | Params
  readonly outputModes: ReadonlyArray<string> | undefined
}

export interface RemoteIds {
  readonly taskId: string
  readonly contextId: string
}

/**
 * What a dialect writes in its own way. The methods are `message/send`, `tasks/get` and `tasks/cancel` in all of them, and
 * `WireTask` reads what they answer.
 */
export interface Codec {
  readonly dialect: Dialect
  /** The ids of the task and its context, where the client makes them. */
  readonly makeIds: (uuid: () => string) => RemoteIds | null
  readonly sendParams: (outgoing: Outgoing, ids: RemoteIds | null) => Params
  /** The spellings of the parameter that names a task. The second one is for peers that do not understand the first. */
  readonly taskIdNames: readonly [string, ...ReadonlyArray<string>]
  readonly getParams: Params
}

/** A message of kind `message`: text as a text part, arguments as a data part. */
export const userMessage = ({ content, messageId, skillId }: Outgoing): Params => ({
  kind: "message",
  role: "user",
  messageId,
  parts: [typeof content === "string" ? { kind: "text", text: content } : { kind: "data", data: content }],
  metadata: { skill_id: skillId }
})
