import type { Dialect } from "@bowline/domain/peer/Agent"
import type { RemoteIds, SentFile } from "@bowline/runtime/remote/PeerClient"
import type { Result, Schema } from "effect"
import type { Task } from "../task/Task.ts"
import type { Update } from "../task/Update.ts"

export type Params = { readonly [key: string]: Schema.Json }

/** A message to a peer: text, or the arguments of a skill that takes data. `ids` are those known before it is sent. */
export interface Outgoing {
  readonly messageId: string
  readonly content: string | Params
  /** They follow the content. */
  readonly files: ReadonlyArray<SentFile>
  readonly ids: RemoteIds
  readonly referenceTaskIds: ReadonlyArray<string>
  readonly metadata: Params
  readonly outputModes: ReadonlyArray<string> | undefined
}

/** How a dialect writes requests, and reads answers. */
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
  /** The ids of the task and its context before the message is sent. In bindu the client makes them. */
  readonly ids: (known: RemoteIds, uuid: () => string) => RemoteIds
  readonly sendParams: (outgoing: Outgoing) => Params
  /** The names of the parameter for a task. The second one is for peers that do not understand the first. */
  readonly taskIdNames: readonly [string, ...ReadonlyArray<string>]
  readonly getParams: Params
  /** The result of a send, or of a get. */
  readonly taskOf: (result: Schema.Json) => Result.Result<Task, Schema.SchemaError>
  /** The id of a task that does not decode: the call still has to cancel it. */
  readonly taskIdOf: (result: Schema.Json) => string | null
  /** One event of a stream. */
  readonly updateOf: (result: Schema.Json) => Result.Result<Update, Schema.SchemaError>
}
