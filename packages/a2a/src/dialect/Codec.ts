import type { Dialect } from "@bowline/domain/peer/Agent"
import type { RemoteIds } from "@bowline/runtime/peer/PeerClient"
import type { Result, Schema } from "effect"
import type { Task } from "../task/Task.ts"
import type { Update } from "../task/Update.ts"

export type Params = { readonly [key: string]: Schema.Json }

/** A question to a peer: text, or the arguments of a skill that takes data. `ids` are those that are known before. */
export interface Outgoing {
  readonly messageId: string
  readonly content: string | Params
  readonly ids: RemoteIds
  readonly referenceTaskIds: ReadonlyArray<string>
  readonly metadata: Params
  readonly outputModes: ReadonlyArray<string> | undefined
}

/** What a dialect writes, and reads, in its own way. */
export interface Codec {
  readonly dialect: Dialect
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>
  readonly methods: {
    readonly send: string
    readonly stream: string
    readonly get: string
    readonly cancel: string
    readonly subscribe: string
  }
  /** The ids of the task and its context before the message is sent: made here where it is for the client to make them. */
  readonly ids: (known: RemoteIds, uuid: () => string) => RemoteIds
  readonly sendParams: (outgoing: Outgoing) => Params
  /** The spellings of the parameter that names a task. The second one is for peers that do not understand the first. */
  readonly taskIdNames: readonly [string, ...ReadonlyArray<string>]
  readonly getParams: Params
  /** The result of a send, or of a get. */
  readonly taskOf: (result: Schema.Json) => Result.Result<Task, Schema.SchemaError>
  /** The id of a task that does not decode: it still has to be cancelled. */
  readonly taskIdOf: (result: Schema.Json) => string | null
  /** One event of a stream. */
  readonly updateOf: (result: Schema.Json) => Result.Result<Update, Schema.SchemaError>
}
