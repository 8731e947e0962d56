import { Effect, Ref, Result, type Schema } from "effect"
import type { RemoteIds } from "@bowline/runtime/peer/PeerClient"
import type { Params } from "../dialect/Codec.ts"
import { garbled, type ExchangeError } from "../http/ExchangeError.ts"
import { standingOf } from "../task/Standing.ts"
import type { Task } from "../task/Task.ts"
import type { PeerLink } from "./PeerLink.ts"
import type { TaskCalls } from "./TaskCalls.ts"

/**
 * What is known of the remote task, and so what has to be cancelled when the call ends without a result.
 *
 *     none ──the request leaves──▶ unnamed, or open where the client makes the id
 *     unnamed | open ──the request never arrived, or was refused──▶ none
 *     unnamed | open ──an answer──▶ open, or none when the peer says that the task has ended
 */
export type RemoteState =
  | { readonly _tag: "none" }
  | { readonly _tag: "unnamed" }
  | { readonly _tag: "open"; readonly taskId: string }

const none: RemoteState = { _tag: "none" }
const sent = (taskId: string | null): RemoteState => (taskId === null ? { _tag: "unnamed" } : { _tag: "open", taskId })

/** The remote task of one call. Its state is noted before an interruption is let through, so it is never behind. */
export const make = Effect.fnUntraced(function* (calls: TaskCalls, link: PeerLink) {
  const state = yield* Ref.make<RemoteState>(none)

  const observe = (method: string, result: Schema.Json): Effect.Effect<Task, ExchangeError> => {
    const task = link.codec.taskOf(result)
    if (Result.isSuccess(task)) {
      const { id, state: said } = task.success
      return Effect.as(Ref.set(state, standingOf(said)._tag === "ended" ? none : sent(id)), task.success)
    }
    const taskId = link.codec.taskIdOf(result)
    const noted = taskId === null ? Effect.void : Ref.set(state, sent(taskId))
    return Effect.andThen(noted, Effect.fail(garbled(method, task.failure)))
  }

  const send = (params: Params, ids: RemoteIds): Effect.Effect<Task, ExchangeError> =>
    Effect.uninterruptibleMask((restore) =>
      Ref.set(state, sent(ids.taskId)).pipe(
        Effect.andThen(restore(calls.send(link, params))),
        Effect.tapError(({ verdict }) =>
          verdict === "unsent" || verdict === "refused" ? Ref.set(state, none) : Effect.void
        ),
        Effect.flatMap((result) => observe(link.codec.methods.send, result))
      )
    )

  const get = (taskId: string): Effect.Effect<Task, ExchangeError> =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(restore(calls.get(link, taskId)), (result) => observe(link.codec.methods.get, result))
    )

  return { state: Ref.get(state), send, get }
})

export type RemoteTask = Effect.Success<ReturnType<typeof make>>
