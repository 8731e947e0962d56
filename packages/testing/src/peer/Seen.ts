import { Result } from "effect"
import type { HostRequest } from "../http/Host.ts"
import type { SendParams } from "./internal/SendParams.ts"
import type { Method, RpcError } from "./internal/StrictRequest.ts"

/** A message as the peer got it, in the form of A2A 0.3. The ids are the client's where it makes them, else the peer's. */
export type ReceivedSend = SendParams & {
  readonly taskId: string
  readonly contextId: string
  /** It continues a task that the peer handed back. */
  readonly continues: boolean
  readonly headers: HostRequest["headers"]
}

/**
 * What a peer received, in order: messages, messages that asked for a stream, the tasks of polls, cancels and subscriptions, and
 * why it refused requests.
 */
export interface Seen {
  readonly sends: ReadonlyArray<ReceivedSend>
  readonly streams: ReadonlyArray<ReceivedSend>
  readonly polls: ReadonlyArray<string>
  readonly cancels: ReadonlyArray<string>
  readonly subscriptions: ReadonlyArray<string>
  readonly refused: ReadonlyArray<string>
}

/** A request that is understood. */
export type Call =
  | { readonly method: "message/send" | "message/stream"; readonly send: ReceivedSend }
  | { readonly method: Exclude<Method, "message/send" | "message/stream">; readonly taskId: string }

export const nothing: Seen = { sends: [], streams: [], polls: [], cancels: [], subscriptions: [], refused: [] }

export const noted =
  (call: Result.Result<Call, RpcError>) =>
  (seen: Seen): Seen => {
    if (Result.isFailure(call)) return { ...seen, refused: [...seen.refused, call.failure.message] }
    switch (call.success.method) {
      case "message/send":
        return { ...seen, sends: [...seen.sends, call.success.send] }
      case "message/stream":
        return { ...seen, streams: [...seen.streams, call.success.send] }
      case "tasks/get":
        return { ...seen, polls: [...seen.polls, call.success.taskId] }
      case "tasks/cancel":
        return { ...seen, cancels: [...seen.cancels, call.success.taskId] }
      case "tasks/resubscribe":
        return { ...seen, subscriptions: [...seen.subscriptions, call.success.taskId] }
    }
  }
