import * as UrlSecrets from "@bowline/runtime/unstable/egress/UrlSecrets"
import { cancelTimeout } from "@bowline/runtime/peer/PeerClient"
import { Effect, FiberSet } from "effect"
import type { ExchangeError } from "@bowline/runtime/unstable/http/ExchangeError"
import type { PeerLink } from "./PeerLink.ts"
import type { RemoteState } from "./RemoteTask.ts"
import type { TaskCalls } from "./TaskCalls.ts"

/**
 * Cancels remote tasks that calls leave open: once, within a time limit of its own, in a fiber that the call does not wait
 * for. Closing the scope waits for the cancels that are still running.
 */
export const make = Effect.fnUntraced(function* (calls: TaskCalls) {
  const pending = yield* FiberSet.make<void>()
  yield* Effect.addFinalizer(() => Effect.timeoutOption(FiberSet.awaitEmpty(pending), cancelTimeout))

  const cancel = (endpoint: string, connect: Effect.Effect<PeerLink, ExchangeError>, taskId: string) =>
    connect.pipe(
      Effect.flatMap((link) => calls.cancel(link, taskId)),
      Effect.mapError(({ reason }) => reason),
      Effect.timeout(cancelTimeout),
      Effect.matchEffect({
        onSuccess: () => Effect.logDebug("The remote task is cancelled"),
        onFailure: ({ message }) =>
          Effect.annotateLogs(Effect.logWarning("remote_task_not_cancelled"), { reason: message })
      }),
      Effect.annotateLogs({ endpoint: UrlSecrets.without(endpoint), remote_task_id: taskId }),
      (ending) => Effect.asVoid(FiberSet.run(pending, ending, { startImmediately: true }))
    )

  const cancelOpen = (link: PeerLink, state: RemoteState): Effect.Effect<void> => {
    switch (state._tag) {
      case "none":
        return Effect.void
      case "unnamed":
        return Effect.annotateLogs(Effect.logWarning("remote_task_not_cancelled"), {
          reason: "The peer has not told its id",
          endpoint: UrlSecrets.without(link.endpoint),
          remote_task_id: null
        })
      case "open":
        return cancel(link.endpoint, Effect.succeed(link), state.taskId)
    }
  }
  return {
    /** Cancels the task of a call that ends without a result, if it is open. */
    cancelOpen,
    /** Cancels a task that an earlier call left open. `connect` finds out first how to speak to its peer. */
    cancel
  }
})
